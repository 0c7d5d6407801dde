//! Weights as audited samples show them: engines that answer requests for scores with the right ones, and draw from
//! others.

use evenkeel_seeds::Stream;

use super::*;
use crate::evidence::samples::policy::Policy;
use crate::fake::{FakeEngines, FakeError, FakeLearner, FakeWeights, VOCABULARY, now, remarks, wave};
use crate::proof::{ProbeText, ProofSettings};
use crate::scorer::{EngineScorer, EngineScores, TensorGroup};

const GROUPS: u32 = 4;
const SAMPLES: u32 = 8;
const TOKENS: usize = 48;
/// By how much a version moves a logit for each group of tensors, at most.
const MOVEMENT: f32 = 0.02;
const F32: f32 = 2e-6;

/// What an engine draws from where it should have a version.
type DrawsFrom = fn(u64) -> FakeWeights;

/// A run of engines whose scores are those of the right weights.
struct Run {
    engines: u32,
    noise: f32,
    lag: u64,
    draws_from: DrawsFrom,
    arithmetic: &'static str,
}

const HONEST: Run = Run { engines: 1, noise: F32, lag: 0, draws_from: FakeWeights::of, arithmetic: "" };

/// What a run came to.
struct Outcome {
    error: Option<String>,
    /// The step after which its weights are verified.
    verified: Option<u64>,
    conclusion: String,
    /// Further passes for the weights of samples, step by step.
    passes: Vec<u64>,
    tokens: f64,
}

struct Group<'a> {
    run: &'a Run,
    number: u64,
    version: u64,
}

impl Run {
    fn name(&self, sample: u32) -> String {
        format!("engine {}", sample % self.engines)
    }

    fn steps(&self, steps: u64) -> Outcome {
        let text = ProbeText::new(5, Vec::new(), VOCABULARY, |_| true);
        let settings = ProofSettings { tolerance: Some(0.25), ..ProofSettings::default() };
        let proof = Arc::new(WeightsProof::new(settings, 128, text, remarks().0));
        let sampling = AuditedSampling {
            seed: 9,
            samples_ahead: self.lag > 0,
            groups: GROUPS,
            first_update: GROUPS,
            group_size: SAMPLES,
            grows: false,
            min_tokens: 0,
            distribution: SampledDistribution {
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                min_p: 0.0,
                end_token_ids: vec![VOCABULARY - 1],
            },
            arithmetic: LearnerArithmetic::default(),
        };
        sampling.arithmetic.set("the same");
        let settings = SamplerAuditSettings { nonce: Some(11), ..SamplerAuditSettings::default() };
        let audit = SamplerAudit::new(settings, sampling, Arc::clone(&proof), remarks().0);
        let mut outcome =
            Outcome { error: None, verified: None, conclusion: String::new(), passes: Vec::new(), tokens: 0.0 };
        for step in 1..=steps {
            match self.step(step, &proof, &audit) {
                Ok(report) => {
                    outcome.passes.push(report.passes);
                    outcome.tokens = report.tokens;
                }
                Err(error) => {
                    outcome.error = Some(format!("step {step}: {error}"));
                    break;
                }
            }
            outcome.conclusion = proof.conclusion().unwrap();
            if outcome.conclusion.starts_with("verified") {
                outcome.verified = outcome.verified.or(Some(step));
            }
        }
        outcome
    }

    fn step(&self, step: u64, proof: &WeightsProof, audit: &Arc<SamplerAudit>) -> Result<AuditReport, FakeError> {
        let learner = FakeLearner { movement: MOVEMENT, ..FakeLearner::default() };
        let version = 2 + step;
        if step == 1 {
            let named = |name: &str| TensorGroup::Named(name.to_owned());
            now(proof.begin(version, &[named("embeddings"), named("mlp"), TensorGroup::Adapters], &learner))?;
        } else {
            let answer =
                |number: u32| (0..80).map(move |at| (number * 17 + step as u32 * 13 + at * at * 5 + at) % VOCABULARY);
            now(proof.note(version, (0..64).map(|number| answer(number).collect()).collect(), &learner))?;
        }
        now(proof.prove(proof.take_due(version).unwrap(), &learner, &Engines { run: self, version }))?;
        let first = step * u64::from(GROUPS);
        let mut of_step = audit.step(step, first, true);
        for place in 0..u64::from(GROUPS) {
            let version = version.saturating_sub(self.lag).max(3);
            of_step.add(&Group { run: self, number: first + place, version })?;
        }
        let scored = now(of_step.take_samples().unwrap().run(&learner))?;
        let names: Vec<String> = (0..self.engines).map(|sample| self.name(sample)).collect();
        proof.note_trained(names.iter().map(String::as_str));
        Ok(of_step.finish(Some(scored))?.unwrap())
    }
}

/// All engines of a run, which answer requests for scores with the right weights.
struct Engines<'a> {
    run: &'a Run,
    version: u64,
}

impl EngineScorer for Engines<'_> {
    type Error = FakeError;

    async fn score(&self, sequences: &[Vec<u32>]) -> Result<Vec<EngineScores>, FakeError> {
        let one = FakeEngines { weights: FakeWeights::of(self.version), noise: self.run.noise, is_f32: false };
        let scores = one.score(sequences).await?.remove(0);
        Ok((0..self.run.engines)
            .map(|number| EngineScores { engine: self.run.name(number), ..scores.clone() })
            .collect())
    }
}

impl AuditedGroup for Group<'_> {
    fn prompt(&self) -> u64 {
        self.number
    }

    fn sequences(&self, _: u32) -> u32 {
        1
    }

    fn sample(&self, number: u32, _: u32) -> Vec<AuditedSample> {
        let prompt = vec![self.number as u32, 3, 5];
        let weights = (self.run.draws_from)(self.version);
        let mut uniforms = Uniforms::new(u64::from(number), Stream::SamplerAudit { step: self.number });
        let mut draw = |at: usize| {
            let place = (self.number << 20 | u64::from(number) << 10 | at as u64) << 8;
            let policy = weights.policy(MOVEMENT, &prompt, at);
            // Equal bits, where it computes as the learner does.
            let own = match self.run.arithmetic {
                "" => Policy::of(
                    (0..VOCABULARY)
                        .map(|id| policy.0[id as usize].ln() + f64::from(self.run.noise * wave(place | u64::from(id)))),
                ),
                _ => policy,
            };
            let id = own.draw(uniforms.at(at as u64));
            (id as u32, own.0[id].ln() as f32)
        };
        let drawn: Vec<(u32, f32)> = (0..TOKENS).map(&mut draw).collect();
        let token = |&(_, log_probability): &(u32, f32)| Some(DrawnToken { log_probability, version: self.version });
        vec![AuditedSample {
            engine: self.run.name(number),
            arithmetic: self.run.arithmetic.to_owned(),
            response: drawn.iter().map(|(id, _)| *id).collect(),
            drawn: drawn.iter().map(token).collect(),
            prompt,
            seeded: Vec::new(),
            early: 0,
        }]
    }

    fn is_of_one_version(&self) -> bool {
        true
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn answers(&self) -> Vec<DrawnAnswer> {
        Vec::new()
    }
}

#[test]
fn an_engine_that_scores_with_the_right_weights_and_draws_from_old_ones_is_found_and_told_what_it_has() {
    let lies: [(DrawsFrom, &str); 3] = [
        (|_| FakeWeights::of(3), "it still has the weights of version 3"),
        (|version| FakeWeights { mlp: 3, ..FakeWeights::of(version) }, "its mlp are still those of version 3"),
        (|version| FakeWeights { adapters: 0.0, ..FakeWeights::of(version) }, "it answers as the base model"),
    ];
    for (draws_from, words) in lies {
        // Noise in which the audit's own limits show nothing.
        let outcome = Run { draws_from, noise: 0.03, ..HONEST }.steps(40);
        let error = outcome.error.expect("found");
        assert!(error.contains("fail the audit of their weights") && error.contains(words), "{error}");
        assert!(outcome.tokens < 10_000.0, "{} tokens", outcome.tokens);
        println!("{words}: {} tokens audited before", outcome.tokens);
    }
}

#[test]
fn in_f32_old_weights_are_found_at_once() {
    let outcome = Run { draws_from: |_| FakeWeights::of(3), ..HONEST }.steps(8);
    assert!(outcome.error.is_some_and(|error| error.starts_with("step 2:")));
}

#[test]
fn honest_runs_are_verified_by_samples_soon_after_they_are_by_scores() {
    for (run, most) in [
        (HONEST, 5),
        (Run { engines: 4, ..HONEST }, 10),
        (Run { engines: 2, lag: 1, ..HONEST }, 16),
        (Run { noise: 5e-3, ..HONEST }, 16),
    ] {
        let outcome = run.steps(24);
        assert_eq!(outcome.error, None);
        let step = outcome.verified.unwrap_or(u64::MAX);
        println!("{} engines, noise {}, lag {}: verified after step {step}", run.engines, run.noise, run.lag);
        assert!(step <= most, "{step}: {}", outcome.conclusion);
    }
}

#[test]
fn before_samples_have_decided_the_conclusion_says_how_many_failure_modes_are_open() {
    let conclusion = Run { engines: 4, ..HONEST }.steps(4).conclusion;
    assert!(
        conclusion.starts_with("undecided: ")
            && conclusion.contains("of 6 failure modes ruled out by samples, all by scores"),
        "{conclusion}"
    );
}

#[test]
fn samples_with_the_learners_bits_decide_everything_without_another_pass() {
    let outcome = Run { arithmetic: "the same", ..HONEST }.steps(4);
    assert_eq!((outcome.error, outcome.passes), (None, vec![0; 4]));
    assert!(outcome.verified.is_some_and(|step| step <= 4), "{}", outcome.conclusion);
}

#[test]
fn a_step_costs_few_passes_and_one_once_all_is_decided() {
    let outcome = HONEST.steps(12);
    let verified = outcome.verified.unwrap() as usize;
    assert!(outcome.passes.iter().all(|passes| *passes <= 2), "{:?}", outcome.passes);
    assert!(outcome.passes[verified..].iter().all(|passes| *passes <= 1), "{:?}", outcome.passes);
    // With a lag, one step in four is audited: as many on average.
    let lagging = Run { lag: 1, ..HONEST }.steps(24).passes;
    assert!(lagging.iter().sum::<u64>() <= 2 * 24 && lagging.iter().all(|passes| *passes <= 8), "{lagging:?}");
}
