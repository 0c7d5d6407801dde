//! The audit of one step: takes the chosen samples as groups complete, has them scored, and counts what they show.
//! When they are scored, and which groups wait for that, is decided by the state of the loop.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::report::AuditReport;
use super::sample::{AuditedGroup, AuditedSample};
use super::selection::Selection;
use super::{AuditedSampling, SamplerAudit};
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
    selection: Selection,
    /// Prompts with chosen samples that are not complete, as far as it is known before they are sampled.
    missing: BTreeSet<u64>,
    /// Whether the step may have samples that nobody knows of before.
    grows: bool,
    /// Absent once they are taken.
    scoring: Option<SampleScoring>,
    /// What its samples say about copies.
    shown: StepEvidence,
}

/// What scoring the chosen samples of a step found.
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
    /// In the order of prompts, whichever completed first: by prompt, sample, sequence and engine.
    samples: BTreeMap<(u64, u32, u32, u32), AuditedSample>,
    found: ScoredSamples,
}

impl StepAudit {
    /// `prompts` are those that the step begins with.
    pub(super) fn new(
        audit: Arc<SamplerAudit>,
        step: u64,
        is_new: bool,
        mut selection: Selection,
        prompts: Range<u64>,
    ) -> Self {
        let AuditedSampling { group_size, grows, .. } = audit.sampling;
        let missing =
            prompts.filter(|&prompt| (0..group_size).any(|number| selection.takes(prompt, number, 0))).collect();
        let grows = grows && selection.is_audited();
        let samples = BTreeMap::new();
        let found = ScoredSamples::default();
        let scoring = SampleScoring { audit: Arc::clone(&audit), step, samples, found };
        Self { audit, step, is_new, selection, missing, grows, scoring: Some(scoring), shown: StepEvidence::default() }
    }

    /// A group is complete: its chosen samples are taken, whatever their verdicts, and all of them are tested for
    /// copies.
    ///
    /// # Errors
    /// An engine whose answers are copies.
    pub fn add(&mut self, group: &impl AuditedGroup) -> Result<(), SamplerFault> {
        let prompt = group.prompt();
        self.missing.remove(&prompt);
        if let Some(scoring) = &mut self.scoring {
            let sequences = |number| (0..group.sequences(number).max(1)).map(move |sequence| (number, sequence));
            for (number, sequence) in (0..self.audit.sampling.group_size).flat_map(sequences) {
                if !self.selection.takes(prompt, number, sequence) {
                    continue;
                }
                let drawn = group.sample(number, sequence);
                scoring.found.report.missing += u64::from(drawn.is_empty());
                let by_engine = (0..).zip(drawn);
                scoring.samples.extend(by_engine.map(|(engine, sample)| ((prompt, number, sequence, engine), sample)));
            }
        }
        if !self.is_counted() {
            return Ok(());
        }
        self.shown.has_partial_groups |= !(group.is_whole() && group.is_of_one_version());
        self.shown.answers.insert(prompt, super::answers_of(group));
        self.audit.foresee(self.step, &self.shown)
    }

    /// Whether what its samples show is added to what is known of the engines.
    fn is_counted(&self) -> bool {
        self.is_new && self.audit.is_on()
    }

    /// Whether every chosen sample is there, before the step has all its groups.
    pub fn is_ready(&self) -> bool {
        !self.grows && self.missing.is_empty()
    }

    /// The chosen samples that are there; once.
    pub fn take_samples(&mut self) -> Option<SampleScoring> {
        self.scoring.take()
    }

    /// Adds the evidence of a step that is sampled completely; `scored` is what scoring found. Steps are finished in
    /// order. `None` if nothing is checked.
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
        let nonce_is_fixed = self.audit.settings.nonce.is_some();
        let report = AuditReport { nonce: Some(self.selection.nonce()), nonce_is_fixed, ..report };
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
        self.audit.score(self.step, &samples, &mut self.found, learner).await?;
        Ok(self.found)
    }
}
