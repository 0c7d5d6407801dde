//! What is known of one engine's weights: its noise, the evidence for and against every suspicion, and what follows.

use std::collections::BTreeMap;

use evenkeel_statistics::evidence::{Contrast, Noise, SuspectedToken};

use super::gap::ScoreGap;
use super::sample_bets::SampleBets;
use super::scored_text::ScoredText;
use super::suspicion::Suspicion;
use crate::scorer::TokenScores;

/// The chance that an honest run is accused by what engines say of audited samples, over all of its steps, suspicions
/// and engines. With that of given text, [`Contrast::FALSE_ALARMS`], it is 4e-4.
const FALSE_ALARMS_BY_SAMPLES: f64 = 1e-4;
/// The chance that a part which is stale by half or more is called proven, for each suspicion.
const FALSE_PROOF: f64 = 1e-3;
/// Noise of an engine that computes in f32, in nats: it is below this, that of a narrower type above.
pub(super) const EXACT: f64 = 1e-4;
/// Shares of a change that an engine may lack: rounding and order of sums, of f32 and of narrower types.
const TOLERATED: [f64; 2] = [0.02, 0.1];
/// First positions of a sequence that are left out where an engine computes in a narrow type: single tokens are far off
/// there.
const UNSETTLED: usize = 3;
/// Tokens of a piece of a sample, of f32 and of narrower types: as many as a scored sequence has.
const PIECES: [usize; 2] = [12, 64];
/// Share of the variance of all tokens that each has at least: a class of nearly certain tokens has few large gaps.
const LEAST_SHARE: f64 = 0.01;
/// An engine whose gap is this many times the usual one is looked at for every suspicion at once.
const SUSPICIOUS: f64 = 3.0;

/// What is known of one engine's weights.
#[derive(Debug)]
pub(crate) struct EngineEvidence {
    /// The share of the false alarms that this engine may have.
    share: f64,
    suspicions: usize,
    noise: Noise,
    contrasts: BTreeMap<Suspicion, Contrast>,
    samples: SampleBets,
    /// Gaps up to this root mean square are no reason to look at every suspicion.
    unsuspicious: f64,
    /// Whether digests of its tensors were those of the published folder in the last proof, which decides.
    is_exact_by_digest: bool,
}

/// How far an engine with the right weights is from the learner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CalibratedNoise {
    /// Whether it computes as exactly as f32 allows.
    pub(crate) is_exact: bool,
    /// Variance of a token by the class of its probability, in squared nats.
    pub(crate) variances: [f64; Noise::CLASSES],
    /// The root mean square gap that 19 of 20 sequences stay below, in standard deviations of each token.
    pub(crate) usual_size: f64,
}

#[cfg(test)]
impl CalibratedNoise {
    /// Noise that is equal for every token.
    pub(crate) fn even(is_exact: bool, overall: f64, usual_sequence: f64) -> Self {
        Self { is_exact, variances: [overall * overall; Noise::CLASSES], usual_size: usual_sequence / overall }
    }
}

/// How far a suspicion is decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SuspicionDecision {
    /// Share of the predicted gap that was found, and its standard error; `None` before there was any prediction.
    pub(crate) share: Option<(f64, f64)>,
    /// Whether the part is proven not to be stale by half or more.
    pub(crate) excluded: bool,
    /// About how many more tokens it takes; `None` where nothing moved, so that no number would do.
    pub(crate) tokens_needed: Option<f64>,
}

/// A suspicion that the evidence supports.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SupportedSuspicion {
    pub(crate) suspicion: Suspicion,
    pub(crate) share: f64,
}

impl EngineEvidence {
    /// The `number`-th engine of a run, from 0: later ones have a smaller share of the false alarms, so that any number
    /// may join.
    pub(crate) fn new(number: usize, suspicions: usize) -> Self {
        let number = number as f64 + 1.0;
        Self {
            share: 1.0 / (number * (number + 1.0)),
            suspicions,
            noise: Noise::default(),
            contrasts: BTreeMap::new(),
            samples: SampleBets::default(),
            unsuspicious: 0.0,
            is_exact_by_digest: false,
        }
    }

    /// Adds a calibration: tokens that the engine scored with the weights that the learner has. What goes along with
    /// `explained` is no noise.
    pub(crate) fn calibrate(
        &mut self,
        learner: &TokenScores,
        engine: &TokenScores,
        explained: Option<(f64, &TokenScores)>,
    ) {
        let (share, supposed) = explained.unwrap_or((0.0, learner));
        for ((learner, engine), supposed) in learner.iter().zip(engine).zip(supposed) {
            let tokens = learner.iter().zip(engine).zip(supposed);
            self.noise.add(tokens.map(|((&learner, &engine), &supposed)| {
                let [learner, engine, supposed] = [learner, engine, supposed].map(f64::from);
                (learner, engine - learner - share * (supposed - learner))
            }));
        }
        self.unsuspicious = SUSPICIOUS * self.noise.usual_sequence();
    }

    /// Whether what was seen speaks for a suspicion without deciding it: more text does.
    pub(crate) fn leans_to(&self, suspicion: &Suspicion) -> bool {
        let Some(contrast) = self.contrasts.get(suspicion).filter(|_| !self.is_exact_by_digest) else { return false };
        contrast.share().is_some_and(|(share, error)| share - 2.0 * error > self.tolerated())
    }

    /// The share of a change that it may lack.
    fn tolerated(&self) -> f64 {
        if self.is_exact() { TOLERATED[0] } else { TOLERATED[1] }
    }

    /// Whether digests of all its tensors were the right ones in this proof.
    pub(crate) fn set_exact_by_digest(&mut self, is_exact: bool) {
        self.is_exact_by_digest = is_exact;
    }

    /// Noise of the engine in nats.
    pub(crate) fn noise(&self) -> f64 {
        self.noise.overall()
    }

    /// Noise of the engine for the audit of samples; `None` before a calibration.
    pub(crate) fn calibrated(&self) -> Option<CalibratedNoise> {
        let all = self.noise.overall();
        let variances = self.noise.variances().map(|variance| variance.max(LEAST_SHARE * all * all));
        (self.noise.tokens() > 0.0).then(|| CalibratedNoise {
            is_exact: self.is_exact(),
            variances,
            usual_size: self.noise.usual_size(&variances),
        })
    }

    /// Whether it computes as exactly as f32 allows.
    pub(crate) fn is_exact(&self) -> bool {
        self.noise() < EXACT
    }

    /// Whether its gap is above its noise, so that every suspicion should be tested. A large gap does not tell a
    /// direction, so testing only then does not weaken the evidence.
    pub(crate) fn is_suspicious(&self, gap: ScoreGap) -> bool {
        gap.root_mean_square > self.unsuspicious
    }

    /// Adds a proof: what the engine says of the text. Where a large gap fits no suspicion, its size is taken for usual
    /// from now on.
    pub(crate) fn add(&mut self, text: &ScoredText, engine: &TokenScores) {
        let gap = ScoreGap::between(&text.learner, engine);
        let is_suspicious = self.is_suspicious(gap) && text.supposed.len() + 1 >= self.suspicions;
        let tolerated = self.tolerated();
        let skipped = if self.is_exact() { 0 } else { UNSETTLED };
        for (suspicion, supposed) in &text.supposed {
            let contrast = self.contrasts.entry(suspicion.clone()).or_default();
            contrast.begin_round();
            for ((learner, engine), supposed) in text.learner.iter().zip(engine).zip(supposed) {
                let tokens = learner.iter().zip(engine).zip(supposed).skip(skipped);
                let tokens = tokens.map(|((&learner, &engine), &supposed)| SuspectedToken {
                    gap: f64::from(engine) - f64::from(learner),
                    predicted: f64::from(supposed) - f64::from(learner),
                    weight: self.noise.weight(f64::from(learner)),
                });
                contrast.add(&tokens.collect::<Vec<_>>(), tolerated);
            }
        }
        let fits = self.contrasts.values().any(|contrast| contrast.stale() >= 10.0);
        if is_suspicious && !fits {
            self.unsuspicious = SUSPICIOUS * gap.root_mean_square;
        }
    }

    /// The fault that the evidence shows, if any: of several suspicions that it supports the one that explains most of
    /// the last gaps.
    pub(crate) fn fault(&self, text: &ScoredText, engine: &TokenScores) -> Option<SupportedSuspicion> {
        if self.is_exact_by_digest {
            return None;
        }
        let limit = self.suspicions as f64 / (Contrast::FALSE_ALARMS * self.share);
        let supported = self.contrasts.iter().filter(|(_, contrast)| contrast.stale() >= limit);
        let explained = supported.map(|(suspicion, contrast)| {
            let share = contrast.share().map_or(0.0, |(share, _)| share);
            (
                self.explained(text.supposed.get(suspicion), text, engine),
                SupportedSuspicion { suspicion: suspicion.clone(), share },
            )
        });
        explained.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, fault)| fault)
    }

    /// One over the variance of its noise in a token of that log-probability.
    pub(crate) fn weight(&self, log_probability: f64) -> f64 {
        self.noise.weight(log_probability)
    }

    /// Adds what its audited samples of a step say of a suspicion. Returns the suspicion that they support, if any.
    pub(crate) fn add_samples(
        &mut self,
        suspicion: &Suspicion,
        samples: &[Vec<SuspectedToken>],
    ) -> Option<SupportedSuspicion> {
        let piece = if self.is_exact() { PIECES[0] } else { PIECES[1] };
        self.samples.add(suspicion, samples, piece, self.tolerated());
        let limit = self.suspicions as f64 / (FALSE_ALARMS_BY_SAMPLES * self.share);
        let (suspicion, share) = self.samples.supported(limit)?;
        Some(SupportedSuspicion { suspicion: suspicion.clone(), share })
    }

    /// Whether digests of all its tensors were the right ones in the last proof: what it draws from needs no other
    /// evidence then.
    pub(crate) fn is_exact_by_digest(&self) -> bool {
        self.is_exact_by_digest
    }

    /// Whether its audited samples exclude a suspicion.
    pub(crate) fn is_excluded_by_samples(&self, suspicion: &Suspicion) -> bool {
        self.is_exact_by_digest || self.samples.fresh(suspicion) >= 1.0 / FALSE_PROOF
    }

    /// About how many more audited tokens decide a suspicion.
    pub(crate) fn sample_tokens_needed(&self, suspicion: &Suspicion) -> Option<f64> {
        self.samples.tokens_needed(suspicion)
    }

    /// The share of the squared gap that goes along with a prediction.
    fn explained(&self, supposed: Option<&TokenScores>, text: &ScoredText, engine: &TokenScores) -> f64 {
        let Some(supposed) = supposed else { return 0.0 };
        let mut along = 0.0;
        let mut size = 0.0;
        let mut all = 0.0;
        let tokens = text.learner.iter().flatten().zip(engine.iter().flatten()).zip(supposed.iter().flatten());
        for ((&learner, &engine), &supposed) in tokens {
            let weight = self.noise.weight(f64::from(learner));
            let gap = f64::from(engine) - f64::from(learner);
            let predicted = f64::from(supposed) - f64::from(learner);
            along += weight * gap * predicted;
            size += weight * predicted * predicted;
            all += weight * gap * gap;
        }
        if size * all > 0.0 { along * along / (size * all) } else { 0.0 }
    }

    /// The evidence that speaks most for a fault, as a natural logarithm.
    pub(crate) fn strongest(&self) -> f64 {
        self.contrasts.values().map(Contrast::stale).fold(1.0, f64::max).ln()
    }

    /// The strongest evidence from samples.
    #[cfg(test)]
    pub(crate) fn strongest_in_samples(&self) -> f64 {
        self.samples.strongest()
    }

    /// How far a suspicion is decided.
    pub(crate) fn decision(&self, suspicion: &Suspicion) -> SuspicionDecision {
        let Some(contrast) = self.contrasts.get(suspicion) else {
            return SuspicionDecision { share: None, excluded: self.is_exact_by_digest, tokens_needed: None };
        };
        let excluded = self.is_exact_by_digest || contrast.fresh() >= 1.0 / FALSE_PROOF;
        SuspicionDecision { share: contrast.share(), excluded, tokens_needed: contrast.tokens_needed() }
    }

    /// Root mean square change of a token, in nats, whose absence this number of tokens reveals.
    pub(crate) fn visible_change(&self, tokens: usize) -> f64 {
        Contrast::decided_by(tokens, self.noise())
    }
}

#[cfg(test)]
mod tests {
    use super::super::gap::{slope, towards};
    use super::*;

    /// Numbers without a pattern, from -1 to 1.
    fn wave(seed: u64, sequence: usize, token: usize) -> f32 {
        let mut number = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((sequence as u64) << 32 | token as u64);
        for shift in [33, 29, 32] {
            number = (number ^ number >> shift).wrapping_mul(0xff51_afd7_ed55_8ccd);
        }
        (number >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn scores(of: impl Fn(usize, usize) -> f32) -> TokenScores {
        (0..32).map(|sequence| (0..12).map(|token| of(sequence, token)).collect()).collect()
    }

    /// The learner at version 5, the engine's beginning at 3, and what the embeddings alone do.
    fn text(movement: f32) -> ScoredText {
        let moved = |part: f32| move |s: usize, t: usize| -2.0 - wave(1, s, t).abs() + part * movement * wave(2, s, t);
        let group = Suspicion::Group("embeddings".to_owned());
        let learner = scores(moved(0.0));
        let embeddings = scores(|s, t| moved(0.0)(s, t) + 0.05 * movement * wave(3, s, t));
        let supposed = BTreeMap::from([
            (Suspicion::Unchanged, scores(moved(1.0))),
            (Suspicion::Behind, scores(|s, t| moved(0.5)(s, t) + 0.2 * movement * wave(4, s, t))),
            (group, embeddings),
        ]);
        ScoredText { supposed, ..ScoredText::new(Vec::new(), learner) }
    }

    /// An engine with noise that was calibrated, after one proof in which it gave these scores.
    fn after(text: &ScoredText, noise: f32, engine: &TokenScores) -> EngineEvidence {
        let mut evidence = EngineEvidence::new(0, 3);
        let calibration = scores(|s, t| text.learner[s][t] + noise * wave(9, s, t));
        evidence.calibrate(&text.learner, &calibration, None);
        evidence.add(text, engine);
        evidence
    }

    fn noisy(scores_of: &TokenScores, noise: f32) -> TokenScores {
        scores(|s, t| scores_of[s][t] + noise * wave(7, s, t))
    }

    #[test]
    fn an_engine_with_the_right_weights_is_proven_in_one_proof_where_it_computes_in_f32() {
        let text = text(2e-3);
        let engine = noisy(&text.learner, 2e-6);
        let evidence = after(&text, 2e-6, &engine);
        assert_eq!(evidence.fault(&text, &engine), None);
        assert!(evidence.is_exact() && !evidence.is_suspicious(ScoreGap::between(&text.learner, &engine)));
        for suspicion in text.supposed.keys() {
            let decision = evidence.decision(suspicion);
            assert!(decision.excluded, "{suspicion}: {decision:?}");
            assert!(decision.share.unwrap().0.abs() < 0.05, "{suspicion}: {decision:?}");
        }
    }

    #[test]
    fn each_fault_is_found_in_one_proof_and_named() {
        let text = text(2e-3);
        for (suspicion, supposed) in &text.supposed {
            let engine = noisy(supposed, 2e-6);
            let evidence = after(&text, 2e-6, &engine);
            assert!(evidence.is_suspicious(ScoreGap::between(&text.learner, &engine)), "{suspicion}");
            let fault = evidence.fault(&text, &engine).expect("found");
            assert_eq!(&fault.suspicion, suspicion);
            assert!((fault.share - 1.0).abs() < 0.02, "{fault:?}");
        }
        // A fifth of every change is missing.
        let unchanged = &text.supposed[&Suspicion::Unchanged];
        let engine = noisy(&scores(|s, t| 0.8 * text.learner[s][t] + 0.2 * unchanged[s][t]), 2e-6);
        let fault = after(&text, 2e-6, &engine).fault(&text, &engine).expect("found");
        assert_eq!(fault.suspicion, Suspicion::Unchanged);
        assert!((fault.share - 0.2).abs() < 0.02, "{fault:?}");
    }

    /// What a process sees that begins with adapters that have learned: without them `effect` is missing, which is
    /// small in most tokens and large in a few.
    fn adapters(effect: f32) -> ScoredText {
        let learner = scores(|s, t| -2.0 - wave(1, s, t).abs());
        let base = scores(|s, t| learner[s][t] + effect * wave(2, s, t).powi(9));
        let excess = towards(&learner, &base, -1.0);
        let supposed = BTreeMap::from([(Suspicion::Base, base), (Suspicion::Excess, excess)]);
        ScoredText { supposed, ..ScoredText::new(Vec::new(), learner) }
    }

    /// An engine that is calibrated with what it is asked in its first proof.
    fn first_proof(text: &ScoredText, engine: &TokenScores) -> EngineEvidence {
        let mut evidence = EngineEvidence::new(0, 2);
        let base = &text.supposed[&Suspicion::Base];
        let share = slope(&text.learner, engine, base);
        evidence.calibrate(&text.learner, engine, Some((share, base)));
        evidence.add(text, engine);
        evidence
    }

    #[test]
    fn half_an_adapter_is_no_noise_of_the_engine_that_is_calibrated_with_it() {
        let text = adapters(0.05);
        let base = &text.supposed[&Suspicion::Base];
        let half = scores(|s, t| 0.5 * (text.learner[s][t] + base[s][t]));
        let engine = noisy(&half, 2e-6);
        let evidence = first_proof(&text, &engine);
        assert!(evidence.is_exact(), "{}", evidence.noise());
        let decision = evidence.decision(&Suspicion::Base);
        assert!((decision.share.unwrap().0 - 0.5).abs() < 0.01, "{decision:?}");
        assert!(evidence.leans_to(&Suspicion::Base) || evidence.fault(&text, &engine).is_some());
        // Taken for noise it would be that of a narrow type.
        let mut before = EngineEvidence::new(0, 1);
        before.calibrate(&text.learner, &engine, None);
        assert!(!before.is_exact());
    }

    #[test]
    fn more_text_decides_what_the_first_leaves_open_and_accuses_no_honest_engine() {
        let faults = [(0.5, 2e-6), (1.0, 2e-6), (0.5, 5e-3), (-1.0, 2e-6), (-0.3, 2e-6), (-1.0, 5e-3)];
        for (missing, noise) in faults.into_iter().chain([(0.0, 2e-6), (0.0, 5e-3), (0.0, 0.05)]) {
            let text = adapters(0.05);
            let base = &text.supposed[&Suspicion::Base];
            let engine = noisy(&scores(|s, t| text.learner[s][t] + missing * (base[s][t] - text.learner[s][t])), noise);
            let mut evidence = first_proof(&text, &engine);
            let mut texts = 1;
            let leans = |evidence: &EngineEvidence| {
                [Suspicion::Base, Suspicion::Excess].iter().any(|suspicion| evidence.leans_to(suspicion))
            };
            while evidence.fault(&text, &engine).is_none() && leans(&evidence) && texts < 5 {
                evidence.add(&text, &engine);
                texts += 1;
            }
            let expected = match missing {
                0.0 => None,
                missing if missing > 0.0 => Some(Suspicion::Base),
                _ => Some(Suspicion::Excess),
            };
            let found = evidence.fault(&text, &engine).map(|fault| fault.suspicion);
            assert_eq!(found, expected, "{missing} {noise} after {texts}");
        }
    }

    #[test]
    fn what_goes_along_with_an_adapter_by_chance_takes_nothing_from_the_noise() {
        for seed in 0..50 {
            let text = adapters(0.02);
            let engine = scores(|s, t| text.learner[s][t] + 0.03 * wave(100 + seed, s, t));
            let plain = {
                let mut evidence = EngineEvidence::new(0, 1);
                evidence.calibrate(&text.learner, &engine, None);
                evidence.noise()
            };
            let share = slope(&text.learner, &engine, &text.supposed[&Suspicion::Base]);
            let mut evidence = EngineEvidence::new(0, 1);
            evidence.calibrate(&text.learner, &engine, Some((share, &text.supposed[&Suspicion::Base])));
            assert!(evidence.noise() / plain > 0.98, "{} {plain}", evidence.noise());
        }
    }

    #[test]
    fn noise_that_grows_is_no_fault_and_is_not_looked_at_twice() {
        let text = text(2e-3);
        let engine = noisy(&text.learner, 2e-5);
        let evidence = after(&text, 2e-6, &engine);
        assert_eq!(evidence.fault(&text, &engine), None);
        assert!(!evidence.is_suspicious(ScoreGap::between(&text.learner, &engine)));
    }

    #[test]
    fn a_movement_below_the_noise_is_undecided_with_the_tokens_that_it_needs() {
        let text = text(2e-3);
        let engine = noisy(&text.learner, 0.08);
        let evidence = after(&text, 0.08, &engine);
        assert!(!evidence.is_exact());
        assert_eq!(evidence.fault(&text, &engine), None);
        let decision = evidence.decision(&Suspicion::Unchanged);
        assert!(!decision.excluded);
        // The movement is a fortieth of the noise, and noise may have more of a direction than that.
        assert_eq!(decision.tokens_needed, None);
        assert!(evidence.visible_change(1000) > 0.01);
    }

    #[test]
    fn where_nothing_moves_nothing_is_decided() {
        let text = text(0.0);
        let engine = noisy(&text.learner, 2e-6);
        let evidence = after(&text, 2e-6, &engine);
        let decision = evidence.decision(&Suspicion::Unchanged);
        assert_eq!((decision.excluded, decision.tokens_needed, decision.share), (false, None, None));
        assert_eq!(evidence.fault(&text, &engine), None);
    }
}
