//! The audit of one step: takes the chosen samples as groups complete, has them scored, and counts what they show.
//! When they are scored, and which groups wait for that, is decided by the state of the loop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::SamplerAudit;
use super::report::AuditReport;
use super::sample::{AuditedGroup, AuditedSample};
use super::selection::ChosenSamples;
use crate::evidence::samples::StepEvidence;
use crate::fault::SamplerFault;
use crate::scorer::LearnerScorer;

/// The audit of a step that is being sampled.
#[derive(Debug)]
pub struct StepAudit {
    audit: Arc<SamplerAudit>,
    step: u64,
    /// Whether its samples are not counted yet.
    is_new: bool,
    chosen: ChosenSamples,
    /// Prompts with chosen samples that are not complete.
    missing: BTreeSet<u64>,
    /// Absent once they are taken.
    scoring: Option<SampleScoring>,
    /// What its samples say about copies.
    shown: StepEvidence,
}

/// What scoring found.
#[derive(Debug, Default)]
pub struct ScoredSamples {
    pub(super) report: AuditReport,
    pub(super) shown: StepEvidence,
}

/// The chosen samples of a step, to be scored.
#[derive(Debug)]
pub struct SampleScoring {
    audit: Arc<SamplerAudit>,
    step: u64,
    /// In the order of prompts, whichever completed first.
    samples: BTreeMap<(u64, u32), AuditedSample>,
    /// Numbers of the step's random stream that the choice took.
    used: u64,
    found: ScoredSamples,
}

impl StepAudit {
    pub(super) fn new(audit: Arc<SamplerAudit>, step: u64, is_new: bool, chosen: ChosenSamples, used: u64) -> Self {
        let missing = chosen.iter().map(|(prompt, _)| *prompt).collect();
        let samples = BTreeMap::new();
        let found = ScoredSamples::default();
        let scoring = SampleScoring { audit: Arc::clone(&audit), step, samples, used, found };
        Self { audit, step, is_new, chosen, missing, scoring: Some(scoring), shown: StepEvidence::default() }
    }

    /// A group is complete: its chosen samples are taken, whatever their verdicts, and all of them are tested for
    /// copies.
    ///
    /// # Errors
    /// An engine whose answers are copies.
    pub fn add(&mut self, group: &impl AuditedGroup) -> Result<(), SamplerFault> {
        let prompt = group.prompt();
        if let Some(scoring) = self.scoring.as_mut().filter(|_| self.missing.remove(&prompt)) {
            for &(prompt, number) in self.chosen.range((prompt, 0)..=(prompt, u32::MAX)) {
                match group.sample(number) {
                    Some(sample) => drop(scoring.samples.insert((prompt, number), sample)),
                    None => scoring.found.report.missing += 1,
                }
            }
        }
        if !self.is_counted() {
            return Ok(());
        }
        self.shown.copies.insert(prompt, super::copies_of(group));
        self.audit.foresee(self.step, &self.shown)
    }

    /// Whether what its samples show is added to what is known of the engines.
    fn is_counted(&self) -> bool {
        self.is_new && self.audit.is_on()
    }

    /// Whether every chosen sample is there.
    pub fn is_ready(&self) -> bool {
        self.missing.is_empty()
    }

    /// The chosen samples that are there; once.
    pub fn take_samples(&mut self) -> Option<SampleScoring> {
        self.scoring.take()
    }

    /// Counts what the step has shown, when it is the step's turn: everything of it is sampled, and `scored` is what
    /// scoring found. `None` where nothing is checked.
    ///
    /// # Errors
    /// An engine whose samples fail a check.
    pub fn finish(mut self, scored: Option<ScoredSamples>) -> Result<Option<AuditReport>, SamplerFault> {
        if !self.audit.is_on() {
            return Ok(None);
        }
        let ScoredSamples { report, shown } = scored.unwrap_or_default();
        if self.is_counted() {
            self.shown.sequences = shown.sequences;
            self.audit.commit(self.step, &self.shown)?;
        }
        Ok(Some(report.with_engines(&self.audit.state().engines)))
    }
}

impl SampleScoring {
    /// Scores the samples and judges them.
    ///
    /// # Errors
    /// An engine whose samples fail a check; what the scorer says.
    pub async fn run<L: LearnerScorer>(mut self, learner: &L) -> Result<ScoredSamples, L::Error> {
        let samples: Vec<_> = self.samples.into_values().collect();
        self.audit.score(self.step, &samples, self.used, &mut self.found, learner).await?;
        Ok(self.found)
    }
}
