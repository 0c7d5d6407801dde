//! All engines of a run, by name.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::engine::{CalibratedNoise, EngineEvidence, SupportedSuspicion};
use super::gap::ScoreGap;
use super::report::{ProofReport, SuspicionReport};
use super::scored_text::ScoredText;
use super::suspicion::Suspicion;
use crate::scorer::{EngineScores, TokenScores};

/// The engines that were seen so far.
#[derive(Debug)]
pub(crate) struct EnginesEvidence {
    suspicions: usize,
    pub(super) all: BTreeMap<String, EngineEvidence>,
    /// Engines with an audited sample that has the learner's bits.
    pub(super) equal: BTreeSet<String>,
    /// How often each suspicion was looked at on samples.
    pub(super) looked: BTreeMap<Suspicion, u64>,
    /// Why the learner could not look, where it could not.
    impossible: Option<String>,
}

impl EnginesEvidence {
    pub(crate) fn new(suspicions: usize) -> Self {
        Self { suspicions, all: BTreeMap::new(), equal: BTreeSet::new(), looked: BTreeMap::new(), impossible: None }
    }

    /// Engines that were not seen before, which have to be calibrated.
    pub(crate) fn new_among(&mut self, engines: &[EngineScores]) -> Vec<String> {
        let mut new = Vec::new();
        for engine in engines {
            let number = self.all.len();
            if let Entry::Vacant(entry) = self.all.entry(engine.engine.clone()) {
                entry.insert(EngineEvidence::new(number, self.suspicions));
                new.push(engine.engine.clone());
            }
        }
        new
    }

    /// Adds a batch of a calibration to the engines that are new, each with the share of `base`'s prediction that is no
    /// noise of it.
    pub(crate) fn calibrate(
        &mut self,
        new: &BTreeMap<String, f64>,
        learner: &TokenScores,
        base: Option<&TokenScores>,
        engines: &[EngineScores],
    ) {
        for engine in engines {
            if let (Some(evidence), Some(share)) = (self.all.get_mut(&engine.engine), new.get(&engine.engine)) {
                evidence.calibrate(learner, &engine.scores, base.map(|base| (*share, base)));
            }
        }
    }

    /// Whether what was seen of any of these speaks for a suspicion without deciding it.
    pub(crate) fn lean_to(&self, suspicion: &Suspicion, names: &[String]) -> bool {
        names.iter().filter_map(|name| self.all.get(name)).any(|evidence| evidence.leans_to(suspicion))
    }

    /// The noise of an engine; `None` before it was calibrated.
    pub(crate) fn noise_of(&self, engine: &str) -> Option<CalibratedNoise> {
        self.all.get(engine).and_then(EngineEvidence::calibrated)
    }

    /// Whether all compute as exactly as f32 allows. `None` before one was seen.
    pub(crate) fn are_exact(&self) -> Option<bool> {
        (!self.all.is_empty()).then(|| self.all.values().all(EngineEvidence::is_exact))
    }

    /// Whether the gap of any is above its noise.
    pub(crate) fn are_suspicious(&self, text: &ScoredText, engines: &[EngineScores]) -> bool {
        engines.iter().any(|engine| {
            let gap = ScoreGap::between(&text.learner, &engine.scores);
            self.all.get(&engine.engine).is_some_and(|evidence| evidence.is_suspicious(gap))
        })
    }

    /// Adds a proof. Returns the first engine at fault.
    pub(crate) fn add(&mut self, text: &ScoredText, engines: &[EngineScores]) -> Option<(String, SupportedSuspicion)> {
        self.impossible.clone_from(&text.impossible);
        engines.iter().find_map(|engine| {
            let evidence = self.all.get_mut(&engine.engine)?;
            evidence.set_exact_by_digest(engine.is_exact);
            evidence.add(text, &engine.scores);
            Some((engine.engine.clone(), evidence.fault(text, &engine.scores)?))
        })
    }

    /// The numbers of a proof.
    pub(crate) fn report(&self, suspicions: &[Suspicion], text: &ScoredText, engines: &[EngineScores]) -> ProofReport {
        let gaps = engines.iter().map(|engine| ScoreGap::between(&text.learner, &engine.scores));
        let gap = gaps.fold(ScoreGap::default(), |all, gap| ScoreGap {
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
            movement: movement.map(|before| ScoreGap::between(before, &text.learner).root_mean_square),
            noise: self.all.values().map(EngineEvidence::noise).fold(0.0, f64::max),
            evidence: self.all.values().map(EngineEvidence::strongest).fold(0.0, f64::max),
            suspicions: suspicions.iter().map(|suspicion| self.known(suspicion)).collect(),
            took: text.took,
        }
    }

    /// Whether every suspicion is excluded for every engine.
    pub(crate) fn is_proven(&self, suspicions: &[Suspicion]) -> bool {
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
    pub(crate) fn what_they_will_show(&self, new: &[String], text: &ScoredText) -> Vec<String> {
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

    /// What is proven, in one sentence, of a run that was trained on samples of the engines `trained_by`.
    pub(crate) fn conclusion(&self, suspicions: &[Suspicion], trained_by: &BTreeSet<String>) -> String {
        if let Some(reason) = &self.impossible {
            return format!("undecided: not possible here: {reason}");
        }
        if self.all.is_empty() {
            return "undecided: no engine was asked".to_owned();
        }
        let undecided: Vec<&Suspicion> =
            suspicions.iter().filter(|suspicion| !self.known(suspicion).excluded).collect();
        let parts = suspicions.len();
        let in_samples = self.open_in_samples(suspicions, trained_by);
        if undecided.is_empty() && !in_samples.is_empty() {
            let more = match self.sample_tokens_needed(&in_samples, trained_by) {
                Some(tokens) => format!("about {tokens:.0} more audited tokens would decide"),
                None => "too little was audited, or the weights have moved too little".to_owned(),
            };
            return format!(
                "undecided: {} ({} of {parts} failure modes ruled out by samples, all by scores; {more})",
                listed(&in_samples),
                parts - in_samples.len()
            );
        }
        if undecided.is_empty() {
            let engines = self.all.len();
            return format!(
                "verified on {engines} engine{} ({parts} of {parts} failure modes ruled out)",
                plural(engines)
            );
        }
        let needed = undecided
            .iter()
            .flat_map(|suspicion| self.all.values().filter_map(|evidence| evidence.decision(suspicion).tokens_needed));
        let more = match needed.reduce(f64::max) {
            Some(tokens) if tokens.round() <= 1.0 => "one more token would decide".to_owned(),
            Some(tokens) => format!("about {tokens:.0} more tokens would decide"),
            None => "the weights have moved too little".to_owned(),
        };
        format!(
            "undecided: {} ({} of {parts} failure modes ruled out; {more})",
            listed(&undecided),
            parts - undecided.len()
        )
    }
}

fn listed(suspicions: &[&Suspicion]) -> String {
    suspicions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
