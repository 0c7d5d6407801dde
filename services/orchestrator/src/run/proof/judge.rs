//! Whether an engine has the learner's weights, and what to look at if it has not.

use super::history::History;
use super::scores::{Gap, TokenScores, share_followed};
use crate::clients::EngineScores;

/// A single token may differ by this multiple of the tolerance of the mean.
const SINGLE: f64 = 10.0;

/// The learner has moved far enough to tell whether an engine follows once its mean change is this share of the tolerance.
const RESOLUTION: f64 = 0.1;

/// An engine that follows less than this share of the learner's movement keeps old weights. One that follows is near 1, one that does not
/// near 0.
const FOLLOWS: f64 = 0.5;

/// From here on the scores are those of another model, in nats: rounding does not add up to this.
const ANOTHER_MODEL: f64 = 1.0;

/// Compares engines with the learner.
pub(super) struct WeightComparison {
    tolerance: f64,
    temperature: f32,
}

/// The verdict on one engine.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Agreement {
    /// It has the learner's weights, as far as its type allows.
    Agrees { mean: f64, max: f64 },
    /// It has not: what was found, and what to look at.
    Differs(String),
}

impl WeightComparison {
    pub(super) fn new(tolerance: f64, temperature: f32) -> Self {
        Self { tolerance, temperature }
    }

    /// The mean movement of the learner's scores, in nats, from which on an engine must have followed.
    pub(super) fn resolution(&self) -> f64 {
        RESOLUTION * self.tolerance
    }

    /// Judges one engine. `sampled` are the learner's scores of the tokens that it sampled.
    pub(super) fn judge(
        &self,
        history: &History,
        engine: &str,
        version: u64,
        learner: &[f32],
        found: &EngineScores,
        sampled: &[f32],
    ) -> Agreement {
        let gap = Gap::between(learner, &found.prompt);
        if !self.allows(gap) {
            return Agreement::Differs(self.explain(history, version, gap, &found.prompt));
        }
        if let Some(anchor) = history.anchor(engine) {
            let moved = Gap::between(&anchor.learner, learner).mean;
            let share = share_followed(&anchor.learner, learner, &anchor.engine, &found.prompt);
            if moved >= self.resolution() && share < FOLLOWS {
                let theirs = Gap::between(&anchor.engine, &found.prompt).mean;
                return Agreement::Differs(format!(
                    "since version {} the learner's log-probabilities moved by {moved:.2e} nats on average, the engine's by {theirs:.2e}, \
                     not in the same direction: {}",
                    anchor.version,
                    old_weights(anchor.version)
                ));
            }
        }
        let drawn: TokenScores = found.sampled.iter().map(|sampled| sampled.log_probability).collect();
        let sampled = Gap::between(sampled, &drawn);
        if !self.allows(sampled) {
            let temperature = self.temperature;
            return Agreement::Differs(format!(
                "its log-probabilities of given tokens agree with the learner's, those of tokens that it samples at temperature \
                 {temperature} are {:.3} nats apart on average: it reports raw log-probabilities (vLLM: --logprobs-mode \
                 processed_logprobs), or samples by settings of its own",
                sampled.mean
            ));
        }
        Agreement::Agrees { mean: gap.mean, max: gap.max.max(sampled.max) }
    }

    fn allows(&self, gap: Gap) -> bool {
        gap.mean <= self.tolerance && gap.max <= SINGLE * self.tolerance
    }

    fn explain(&self, history: &History, version: u64, gap: Gap, found: &[f32]) -> String {
        let says = format!(
            "its log-probabilities of the same tokens are {:.3} nats from the learner's on average and {:.3} at most, allowed: {} and {} \
             (proof.tolerance)",
            gap.mean,
            gap.max,
            self.tolerance,
            SINGLE * self.tolerance
        );
        let earlier = history.before.iter().chain(&history.first).filter(|earlier| earlier.version != version);
        let fits = earlier.into_iter().find(|earlier| {
            let theirs = Gap::between(&earlier.scores, found);
            self.allows(theirs) && theirs.mean < gap.mean / 2.0
        });
        let look = match fits {
            Some(earlier) => format!("they fit version {}: {}", earlier.version, old_weights(earlier.version)),
            None if gap.mean >= ANOTHER_MODEL => "it computes another model: compare the folder that it loads, tie_word_embeddings and \
                                                  lm_head.weight (a tied head must be tied on both sides), and whether an adapter \
                                                  that it needs has arrived"
                .to_owned(),
            None => "it may compute in a narrower type, or quantized (vLLM: --dtype, --quantization, --kv-cache-dtype), or with another \
                     attention scale or rope; where its type is meant, raise proof.tolerance"
                .to_owned(),
        };
        format!("{says}; {look}")
    }
}

/// What to look at when an engine keeps the weights of a version.
fn old_weights(version: u64) -> String {
    format!(
        "the engine still has the weights of version {version}, whatever version it reports: look whether it reads the folder of each new \
         version, whether an adapter never arrived, and whether a cache answers for it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{ProvenEngine, Sampled};

    /// Scores of a version: each is off by noise that has nothing to do with the version.
    fn scores(version: u64, noise: f32) -> TokenScores {
        let wave = |index: u64| ((index * 37 + version * 11) % 17) as f32 / 17.0;
        (0..64).map(|index| -3.0 - wave(index) + noise * wave(index * 5 + 3)).collect()
    }

    fn engine(prompt: TokenScores) -> EngineScores {
        EngineScores { prompt, sampled: vec![Sampled { id: 1, log_probability: -1.0 }; 4], raw: false }
    }

    fn judged(tolerance: f64, versions: &[(u64, TokenScores)]) -> Agreement {
        let (judge, mut history) = (WeightComparison::new(tolerance, 0.5), History::default());
        let mut last = Agreement::Agrees { mean: 0.0, max: 0.0 };
        for (version, found) in versions {
            let (learner, found) = (scores(*version, 0.0), engine(found.clone()));
            last = judge.judge(&history, "a", *version, &learner, &found, &[-1.0; 4]);
            if matches!(last, Agreement::Differs(_)) {
                return last;
            }
            history.add(
                *version,
                learner,
                vec![ProvenEngine { name: "a".to_owned(), scores: found }],
                judge.resolution(),
            );
        }
        last
    }

    fn differs(verdict: Agreement) -> String {
        match verdict {
            Agreement::Differs(message) => message,
            agrees => panic!("{agrees:?}"),
        }
    }

    #[test]
    fn an_engine_with_the_noise_of_a_narrow_type_agrees_as_long_as_it_follows() {
        let follows = [0, 1, 2, 3].map(|version| (version, scores(version, 0.2)));
        assert!(matches!(judged(0.25, &follows), Agreement::Agrees { mean, .. } if mean > 0.0));
    }

    #[test]
    fn an_engine_that_stands_still_has_old_weights_even_within_the_tolerance() {
        let stuck = [(0, scores(0, 0.2)), (1, scores(1, 0.2)), (2, scores(1, 0.2))];
        let message = differs(judged(2.0, &stuck));
        assert!(message.contains("the engine still has the weights of version 1"), "{message}");
    }

    #[test]
    fn scores_of_an_earlier_version_are_recognised_by_it() {
        let message = differs(judged(0.1, &[(0, scores(0, 0.0)), (1, scores(0, 0.0))]));
        assert!(message.contains("they fit version 0: the engine still has the weights of version 0"), "{message}");
    }

    #[test]
    fn weights_that_do_not_change_need_not_change_the_scores() {
        let (judge, mut history) = (WeightComparison::new(0.1, 1.0), History::default());
        for version in 0..3 {
            let (learner, found) = (scores(0, 0.0), engine(scores(0, 0.0)));
            let verdict = judge.judge(&history, "a", version, &learner, &found, &[-1.0; 4]);
            assert_eq!(verdict, Agreement::Agrees { mean: 0.0, max: 0.0 });
            let change =
                history.add(version, learner, vec![ProvenEngine { name: "a".to_owned(), scores: found }], 0.01);
            assert_eq!(change, (version > 0).then_some((0.0, 0.0)));
        }
    }

    #[test]
    fn what_to_look_at_depends_on_the_gap() {
        let far = scores(0, 0.0).iter().map(|score| score - 4.0).collect();
        let message = differs(judged(0.25, &[(0, far)]));
        assert!(message.contains("4.000 nats") && message.contains("another model"), "{message}");
        let near = scores(0, 0.0).iter().map(|score| score - 0.4).collect();
        assert!(differs(judged(0.25, &[(0, near)])).contains("narrower type"));
        let broken = vec![f32::NAN; 64];
        assert!(differs(judged(0.25, &[(0, broken)])).contains("inf nats"));
    }

    #[test]
    fn raw_log_probabilities_of_samples_are_recognised() {
        let judge = WeightComparison::new(0.25, 0.5);
        let (learner, found) = (scores(0, 0.0), engine(scores(0, 0.0)));
        let message = differs(judge.judge(&History::default(), "a", 0, &learner, &found, &[-0.3; 4]));
        assert!(message.contains("raw log-probabilities"), "{message}");
    }
}
