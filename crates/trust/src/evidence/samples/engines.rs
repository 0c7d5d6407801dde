//! What is known of the samples of all engines.

use std::collections::BTreeMap;

use evenkeel_statistics::evidence::{CopyEvidence, Preference};

use super::check::SamplerCheck;
use super::engine::{Drawing, EngineChecks};
use super::token::AuditedToken;
use super::tolerances::Tolerances;

/// The engines that were seen so far, in the order in which they first appeared: it decides their share of the budget.
#[derive(Debug, Clone, Default)]
pub(crate) struct AuditedEngines(Vec<(String, EngineChecks)>);

/// What the samples of one step show.
#[derive(Debug, Default)]
pub(crate) struct StepEvidence {
    /// By prompt what its answers say.
    pub(crate) answers: BTreeMap<u64, Vec<AnswerEvidence>>,
    /// The scored samples.
    pub(crate) sequences: Vec<AuditedSequence>,
    /// Whether a group lacks an answer, or has one that several versions drew or others took part in. Which group that is
    /// depends on its answers, so that the others are no fair choice.
    pub(crate) has_partial_groups: bool,
}

/// What one answer says beside the others to its prompt.
#[derive(Debug)]
pub(crate) struct AnswerEvidence {
    pub(crate) engine: String,
    pub(crate) copy: CopyEvidence,
    pub(crate) preference: Preference,
}

/// A sample that was scored.
#[derive(Debug)]
pub(crate) struct AuditedSequence {
    pub(crate) engine: String,
    pub(crate) tokens: Vec<AuditedToken>,
    pub(crate) drawing: Drawing,
}

/// A check that the evidence has decided against an engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailedCheck<'a> {
    pub(crate) engine: &'a str,
    pub(crate) check: SamplerCheck,
    pub(crate) checks: &'a EngineChecks,
    /// What the evidence should have stayed below.
    pub(crate) threshold: f64,
}

impl AuditedEngines {
    /// Adds what a step shows, but for preferences. `tolerances` says how far an honest engine of that name may be from the learner.
    pub(crate) fn add(&mut self, step: &StepEvidence, tolerances: impl Fn(&str) -> Tolerances) {
        for (name, engine) in &mut self.0 {
            engine.tolerate(tolerances(name));
            engine.begin_round();
        }
        for answer in step.answers.values().flatten() {
            self.engine(&answer.engine, &tolerances).add_copy(&answer.copy);
        }
        for AuditedSequence { engine, tokens, drawing } in &step.sequences {
            self.engine(engine, &tolerances).add_sequence(tokens, *drawing);
        }
    }

    /// Adds which answers are preferred in a step that was added and is whole.
    pub(crate) fn add_preferences(&mut self, step: &StepEvidence, tolerances: impl Fn(&str) -> Tolerances) {
        for answer in step.answers.values().flatten() {
            self.engine(&answer.engine, &tolerances).add_preference(&answer.preference);
        }
    }

    /// Measures the noise of engines again by a step that was added and that they have passed, as `alpha` decides.
    pub(crate) fn learn(&mut self, step: &StepEvidence, alpha: f64) {
        let failed: Vec<String> = self.failed(alpha).map(|failed| failed.engine.to_owned()).collect();
        for (name, engine) in self.0.iter_mut().filter(|(name, _)| !failed.contains(name)) {
            let sequences = step.sequences.iter().filter(|sequence| sequence.engine == *name);
            sequences.for_each(|sequence| engine.learn(&sequence.tokens));
        }
    }

    /// The checks of an engine, which begin where it first appears.
    fn engine(&mut self, name: &str, tolerances: impl Fn(&str) -> Tolerances) -> &mut EngineChecks {
        let at = self.0.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
            let mut checks = EngineChecks::new(tolerances(name));
            checks.begin_round();
            self.0.push((name.to_owned(), checks));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    /// The checks that engines have failed, with `alpha` for the chance that an honest run is accused.
    pub(crate) fn failed(&self, alpha: f64) -> impl Iterator<Item = FailedCheck<'_>> {
        self.0.iter().enumerate().flat_map(move |(at, (engine, checks))| {
            // The shares 1/2, 1/6, 1/12 … of the budget add up to all of it, however many engines join.
            let joined = (at as f64 + 1.0) * (at as f64 + 2.0);
            let threshold = joined * SamplerCheck::ALL.len() as f64 / alpha;
            let failed = SamplerCheck::ALL.into_iter().filter(move |check| checks.evidence(*check) >= threshold);
            failed.map(move |check| FailedCheck { engine, check, checks, threshold })
        })
    }

    /// What is known of each engine.
    pub(crate) fn checks(&self) -> impl Iterator<Item = &EngineChecks> {
        self.0.iter().map(|(_, checks)| checks)
    }
}
