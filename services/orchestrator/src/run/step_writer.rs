//! The metrics line of a finished GRPO step, and what else is recorded of it.

use std::sync::Arc;

use evenkeel_proto::v1::{StepKind, TrainReport};
use evenkeel_run::MetricsLine;
use evenkeel_run::metric::table as metric;
use evenkeel_trust::ProofReport;

use super::journal::RunJournal;
use super::left_out::left_out_values;
use super::prompt_record::prompt_line;
use super::receipt::SeenStep;
use super::rollout_record::RolloutRecord;
use super::spans::record_step;
use super::step_groups::SampledStep;
use super::step_metrics::{StepTimes, Waits, source_values, step_values};
use super::training_steps::TrainingSteps;
use super::trust::{TrainedEngines, audit_values, proof_values};
use crate::data::Prompts;
use crate::error::Halt;
use crate::rollout::record_prompt;

/// Writes the metrics lines of GRPO steps.
pub(super) struct StepWriter {
    training: Arc<TrainingSteps>,
    /// What prompts count as in metrics by data source.
    data_sources: Vec<String>,
    rollouts: RolloutRecord,
    /// The longest response, `sampling.max_tokens`.
    max_tokens: u32,
}

/// A step that was trained, with everything that its metrics line says.
pub(super) struct FinishedStep {
    pub(super) sampled: SampledStep,
    pub(super) report: TrainReport,
    pub(super) times: StepTimes,
    /// The check of the engines' weights, if there was one.
    pub(super) proof: Option<ProofReport>,
    /// What is known of the engines whose samples were trained on, where proofs are asked for.
    pub(super) trained: Option<TrainedEngines>,
    /// What its two sides waited for.
    pub(super) waits: Waits,
    /// Whether the line says so: not where they alternate.
    pub(super) says_waits: bool,
    /// Digest of the weights that it made, as published.
    pub(super) weights: String,
}

impl StepWriter {
    pub(super) fn new(
        training: Arc<TrainingSteps>,
        prompts: &Prompts,
        rollouts: RolloutRecord,
        max_tokens: u32,
    ) -> Self {
        Self { training, data_sources: prompts.data_sources(), rollouts, max_tokens }
    }

    /// Appends the line of a step and records its groups and spans. Returns the line, to be announced.
    pub(super) async fn write(
        &self,
        step: u64,
        finished: &FinishedStep,
        journal: &mut RunJournal,
    ) -> Result<MetricsLine, Halt> {
        let FinishedStep { sampled, report, times, proof, trained, waits, says_waits, weights } = finished;
        let mut line = MetricsLine::new(StepKind::Train, step, report.version);
        step_values(&mut line, &sampled.batch, report, sampled.epoch, *times);
        left_out_values(&mut line, &sampled.batch, self.max_tokens);
        source_values(&mut line, &self.data_sources, &sampled.batch.groups);
        line.set(metric::PROOF_EQUAL_TOKENS, self.training.proven_by(report).map(|tokens| tokens as f64));
        proof.iter().for_each(|proof| proof_values(&mut line, proof));
        line.set(metric::PROOF_UNVERIFIED, trained.as_ref().map(|engines| engines.unverified as f64));
        line.set(metric::PROOF_EXCLUDED_BY_SAMPLES, trained.as_ref().map(|engines| engines.excluded as f64));
        sampled.audit.iter().for_each(|audit| audit_values(&mut line, audit));
        if *says_waits {
            waits.add_to(&mut line);
        }
        sampled.lengths.iter().for_each(|lengths| lengths.add_to(&mut line));
        let samples = self.rollouts.samples(step, sampled, report)?;
        let seen = SeenStep::new(sampled, proof.as_ref(), report.version, weights);
        journal.append_step(&line, seen, samples, &prompt_line(step, sampled, report)).await?;
        times.record();
        sampled.batch.record();
        let run_id = self.training.run_id();
        let trace = self.training.trace(step);
        sampled.batch.groups.iter().for_each(|group| record_prompt(run_id, group, Some(trace)));
        sampled.batch.dropped.iter().for_each(|group| record_prompt(run_id, group, None));
        record_step(run_id, step, report.version, trace, *times);
        Ok(line)
    }
}
