//! The audit of one step: takes the chosen samples as groups complete, and counts what they have shown. When they are
//! scored, and which groups wait for that, is decided by the state of the loop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::report::AuditReport;
use super::selection::Chosen;
use super::sequence::AuditedSample;
use super::{Additions, SamplerAudit};
use crate::error::Halt;
use crate::rollout::SampledGroup;

/// The audit of a step that is being sampled.
pub(in crate::run) struct StepAudit {
    audit: Arc<SamplerAudit>,
    step: u64,
    /// Whether its samples are not counted yet.
    is_new: bool,
    chosen: Chosen,
    /// Prompts with chosen samples that are not complete.
    missing: BTreeSet<u64>,
    /// Absent once they are taken.
    scoring: Option<Scoring>,
    /// What its samples say about copies.
    additions: Additions,
}

/// What scoring found.
#[derive(Debug, Default)]
pub(in crate::run) struct Scored {
    pub(super) report: AuditReport,
    pub(super) additions: Additions,
}

/// The chosen samples of a step, to be scored.
pub(in crate::run) struct Scoring {
    audit: Arc<SamplerAudit>,
    step: u64,
    /// In the order of prompts, whichever completed first.
    samples: BTreeMap<(u64, u32), AuditedSample>,
    /// Numbers of the step's random stream that the choice took.
    used: u64,
    found: Scored,
}

impl StepAudit {
    pub(super) fn new(audit: Arc<SamplerAudit>, step: u64, is_new: bool, chosen: Chosen, used: u64) -> Self {
        let missing = chosen.iter().map(|(prompt, _)| *prompt).collect();
        let scoring =
            Scoring { audit: Arc::clone(&audit), step, samples: BTreeMap::new(), used, found: Scored::default() };
        Self { audit, step, is_new, chosen, missing, scoring: Some(scoring), additions: Additions::default() }
    }

    /// A group is complete: its chosen samples are taken, whatever their verdicts, and all of them are tested for
    /// copies.
    ///
    /// # Errors
    /// [`crate::RunError::Sampler`] where it shows copies.
    pub(in crate::run) fn add(&mut self, group: &SampledGroup) -> Result<(), Halt> {
        let prompt = group.number();
        if let Some(scoring) = self.scoring.as_mut().filter(|_| self.missing.remove(&prompt)) {
            for &(prompt, number) in self.chosen.range((prompt, 0)..=(prompt, u32::MAX)) {
                let sample = group.samples().get(number as usize);
                match sample.and_then(|sample| AuditedSample::of(group.prompt_token_ids(), sample)) {
                    Some(sample) => drop(scoring.samples.insert((prompt, number), sample)),
                    None => scoring.found.report.missing += 1,
                }
            }
        }
        if !self.is_counted() {
            return Ok(());
        }
        self.additions.copies.insert(prompt, self.audit.copies_of(group));
        self.audit.foresee(self.step, &self.additions)
    }

    /// Whether what its samples show is added to what is known of the engines.
    fn is_counted(&self) -> bool {
        self.is_new && self.audit.is_on()
    }

    /// Whether every chosen sample is there.
    pub(in crate::run) fn is_ready(&self) -> bool {
        self.missing.is_empty()
    }

    /// The chosen samples, those that are there; once.
    pub(in crate::run) fn take_samples(&mut self) -> Option<Scoring> {
        self.scoring.take()
    }

    /// Counts what the step has shown, when it is the step's turn: everything of it is sampled, and `scored` is what
    /// scoring found. `None` where nothing is checked.
    ///
    /// # Errors
    /// [`crate::RunError::Sampler`].
    pub(in crate::run) fn finish(mut self, scored: Option<Scored>) -> Result<Option<AuditReport>, Halt> {
        if !self.audit.is_on() {
            return Ok(None);
        }
        let Scored { report, additions } = scored.unwrap_or_default();
        if self.is_counted() {
            self.additions.sequences = additions.sequences;
            self.audit.commit(self.step, &self.additions)?;
        }
        let state = self.audit.state();
        Ok(Some(report.with_engines(state.engines.iter().map(|(_, engine)| engine))))
    }
}

impl Scoring {
    /// Scores the samples and judges them.
    ///
    /// # Errors
    /// [`crate::RunError::Sampler`]; what ends the whole run.
    pub(in crate::run) async fn run(mut self) -> Result<Scored, Halt> {
        let samples: Vec<_> = self.samples.into_values().collect();
        self.audit.score(self.step, &samples, self.used, &mut self.found).await?;
        Ok(self.found)
    }
}
