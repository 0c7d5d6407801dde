//! All engines of a run, by name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::engine_evidence::{CalibratedNoise, EngineEvidence, Fault};
use super::report::{ProofReport, SuspicionReport};
use super::scored::{Gap, ScoredText, Scores};
use super::suspicion::Suspicion;
use crate::clients::ProvenEngine;

/// From here on the scores are those of another model, in nats: rounding does not add up to this.
const ANOTHER_MODEL: f64 = 1.0;

/// The engines that were seen so far.
#[derive(Debug)]
pub(super) struct Engines {
    suspicions: usize,
    all: BTreeMap<String, EngineEvidence>,
    /// Why the learner could not look, where it could not.
    impossible: Option<String>,
}

impl Engines {
    pub(super) fn new(suspicions: usize) -> Self {
        Self { suspicions, all: BTreeMap::new(), impossible: None }
    }

    /// Engines that were not seen before, which have to be calibrated.
    pub(super) fn new_among(&mut self, engines: &[ProvenEngine]) -> Vec<String> {
        let mut new = Vec::new();
        for engine in engines {
            let number = self.all.len();
            if let Entry::Vacant(entry) = self.all.entry(engine.name.clone()) {
                entry.insert(EngineEvidence::new(number, self.suspicions));
                new.push(engine.name.clone());
            }
        }
        new
    }

    /// Adds a batch of a calibration to the engines that are new, each with the share of `base`'s prediction that is no
    /// noise of it.
    pub(super) fn calibrate(
        &mut self,
        new: &BTreeMap<String, f64>,
        learner: &Scores,
        base: Option<&Scores>,
        engines: &[ProvenEngine],
    ) {
        for engine in engines {
            if let (Some(evidence), Some(share)) = (self.all.get_mut(&engine.name), new.get(&engine.name)) {
                evidence.calibrate(learner, &engine.scores.prompt, base.map(|base| (*share, base)));
            }
        }
    }

    /// Whether what was seen of any of these speaks for a suspicion without deciding it.
    pub(super) fn lean_to(&self, suspicion: &Suspicion, names: &[String]) -> bool {
        names.iter().filter_map(|name| self.all.get(name)).any(|evidence| evidence.leans_to(suspicion))
    }

    /// The noise of an engine; `None` before it was calibrated.
    pub(super) fn noise_of(&self, engine: &str) -> Option<CalibratedNoise> {
        self.all.get(engine).and_then(EngineEvidence::calibrated)
    }

    /// Whether all compute as exactly as f32 allows. `None` before one was seen.
    pub(super) fn are_exact(&self) -> Option<bool> {
        (!self.all.is_empty()).then(|| self.all.values().all(EngineEvidence::is_exact))
    }

    /// Whether the gap of any is above its noise.
    pub(super) fn are_suspicious(&self, text: &ScoredText, engines: &[ProvenEngine]) -> bool {
        engines.iter().any(|engine| {
            let gap = Gap::between(&text.learner, &engine.scores.prompt);
            self.all.get(&engine.name).is_some_and(|evidence| evidence.is_suspicious(gap))
        })
    }

    /// Adds a proof. Returns the first engine at fault.
    pub(super) fn add(&mut self, text: &ScoredText, engines: &[ProvenEngine]) -> Option<(String, Fault)> {
        self.impossible.clone_from(&text.impossible);
        engines.iter().find_map(|engine| {
            let evidence = self.all.get_mut(&engine.name)?;
            evidence.set_exact_by_digest(engine.is_exact);
            evidence.add(text, &engine.scores.prompt);
            Some((engine.name.clone(), evidence.fault(text, &engine.scores.prompt)?))
        })
    }

    /// The numbers of a proof.
    pub(super) fn report(&self, suspicions: &[Suspicion], text: &ScoredText, engines: &[ProvenEngine]) -> ProofReport {
        let gaps = engines.iter().map(|engine| Gap::between(&text.learner, &engine.scores.prompt));
        let gap = gaps.fold(Gap::default(), |all, gap| Gap {
            mean: all.mean.max(gap.mean),
            max: all.max.max(gap.max),
            ..gap
        });
        let movement = text.supposed.get(&Suspicion::Unchanged);
        ProofReport {
            engines: engines.len(),
            mean_gap: gap.mean,
            max_gap: gap.max,
            tokens: text.learner.iter().map(Vec::len).sum(),
            movement: movement.map(|before| Gap::between(before, &text.learner).root_mean_square),
            noise: self.all.values().map(EngineEvidence::noise).fold(0.0, f64::max),
            evidence: self.all.values().map(EngineEvidence::strongest).fold(0.0, f64::max),
            suspicions: suspicions.iter().map(|suspicion| self.known(suspicion)).collect(),
            took: text.took,
        }
    }

    /// Whether every suspicion is excluded for every engine.
    pub(super) fn is_proven(&self, suspicions: &[Suspicion]) -> bool {
        suspicions.iter().all(|suspicion| self.known(suspicion).excluded)
    }

    /// What is known of a suspicion over all engines.
    fn known(&self, suspicion: &Suspicion) -> SuspicionReport {
        let decisions = || self.all.values().map(|evidence| evidence.decision(suspicion));
        let share = decisions().filter_map(|decision| decision.share).max_by(|a, b| a.0.total_cmp(&b.0));
        let excluded = !self.all.is_empty() && decisions().all(|decision| decision.excluded);
        SuspicionReport { name: suspicion.name(), share, excluded }
    }

    /// What engines that were just calibrated will show, in words.
    pub(super) fn what_they_will_show(&self, new: &[String], text: &ScoredText) -> Vec<String> {
        let tokens = text.learner.iter().map(Vec::len).sum();
        let sentence = |name: &String| {
            let evidence = self.all.get(name)?;
            Some(format!(
                "proof of weights: engine {name} differs from the learner by {:.1e} nats a token with the same \
                 weights; {tokens} tokens a proof show within one proof whether it took changes of {:.1e} nats or \
                 more, smaller ones take more proofs",
                evidence.noise(),
                evidence.visible_change(tokens)
            ))
        };
        new.iter().filter_map(sentence).collect()
    }

    /// What is proven, in one sentence.
    pub(super) fn conclusion(&self, suspicions: &[Suspicion]) -> String {
        if let Some(reason) = &self.impossible {
            return format!("undecided: not possible here: {reason}");
        }
        if self.all.is_empty() {
            return "undecided: no engine was asked".to_owned();
        }
        let undecided: Vec<&Suspicion> =
            suspicions.iter().filter(|suspicion| !self.known(suspicion).excluded).collect();
        if undecided.is_empty() {
            let engines = self.all.len();
            let parts = suspicions.len();
            return format!(
                "proven for {engines} engine{}: {parts} ways of having other weights are excluded",
                plural(engines)
            );
        }
        let names = undecided.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let needed = undecided
            .iter()
            .flat_map(|suspicion| self.all.values().filter_map(|evidence| evidence.decision(suspicion).tokens_needed));
        let more = match needed.reduce(f64::max) {
            Some(tokens) if tokens.round() <= 1.0 => "one more token would decide".to_owned(),
            Some(tokens) => format!("about {tokens:.0} more tokens would decide"),
            None => "the weights have moved too little".to_owned(),
        };
        format!(
            "undecided: {names} ({} of {} are excluded; {more})",
            suspicions.len() - undecided.len(),
            suspicions.len()
        )
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Why a gap is that of another model.
pub(super) fn another_model(gap: Gap, tolerance: f64) -> String {
    let look = if gap.mean >= ANOTHER_MODEL || gap.mean.is_nan() {
        "it computes another model: compare the folder that it loads, tie_word_embeddings and lm_head.weight (a tied \
         head must be tied on both sides), and whether an adapter that it needs has arrived"
    } else {
        "it may compute in a narrower type, or quantized (vLLM: --dtype, --quantization, --kv-cache-dtype), or with \
         another attention scale or rope; where its type is meant, raise proof.tolerance"
    };
    format!(
        "its log-probabilities of the same tokens are {:.3} nats from the learner's on average, allowed: {tolerance} \
        (proof.tolerance); {look}",
        gap.mean
    )
}
