//! What is written of a step, and what the receipt says of it and of what comes between steps.

use std::time::Instant;

use evenkeel_host::sha256;
use evenkeel_proto::v1::WeightsRef;
use evenkeel_run::{MetricsLine, PromptLine, Rollout, encode_rollouts};

use super::RunJournal;
use crate::error::{Halt, RunError};
use crate::events::Event;
use crate::run::receipt::{SeenStep, WrittenStep};
use crate::run::rollout_record::StepSamples;

impl RunJournal {
    /// Writes everything of a step: its samples, what became of its prompts, its line of the receipt, and last its own
    /// line, so that no step has a line without the rest. What a step that was done has left is replaced when it is done
    /// again.
    pub(in crate::run) async fn append_step(
        &mut self,
        line: &MetricsLine,
        seen: SeenStep,
        samples: StepSamples,
        prompts: &PromptLine,
    ) -> Result<(), Halt> {
        let step = line.step;
        let (rollouts, thinned) = match samples.kept {
            Some(rollouts) => self.append_rollouts(step, rollouts).await?,
            None => (None, Vec::new()),
        };
        self.directory.check_place()?;
        let path = self.prompts.path().to_owned();
        self.retrier.write(&path, || self.prompts.append(prompts)).await?;
        let metrics = sha256(self.marked(line.clone()).to_json());
        let prompts = sha256(prompts.to_json());
        let written = WrittenStep { content: samples.content, metrics, prompts, rollouts, thinned };
        self.receipt.step(step, seen, written).await?;
        self.append(line).await
    }

    /// Keeps the samples of a step. Returns the digest of their file, if it is kept, and the steps whose samples went.
    async fn append_rollouts(&mut self, step: u64, rollouts: Vec<Rollout>) -> Result<(Option<String>, Vec<u64>), Halt> {
        self.directory.check_place()?;
        let began = Instant::now();
        // Compressing a large step takes a while.
        let encode = move || encode_rollouts(&rollouts).map(|bytes| (sha256(&bytes), bytes));
        let encoded = tokio::task::spawn_blocking(encode).await;
        let (digest, bytes) = encoded.map_err(|error| RunError::Defect(error.to_string()))??;
        let every = self.resolved.settings.evaluation.every;
        let evaluations = &self.evaluations;
        let is_evaluated = |step: u64| evaluations.has(step) || (every > 0 && step.is_multiple_of(every));
        let path = self.rollouts.path().to_owned();
        let rollouts = &mut self.rollouts;
        let mut written = (true, Vec::new());
        let write = || rollouts.write(step, &bytes, is_evaluated).map(|done| written = done);
        self.retrier.write(&path, write).await?;
        tracing::debug!(step, bytes = bytes.len(), micros = began.elapsed().as_micros() as u64, "samples are kept");
        let (is_kept, removed) = written;
        if !removed.is_empty() && !std::mem::replace(&mut self.has_noted_thinning, true) {
            let bound = self.resolved.settings.run.rollouts_disk;
            let what = if is_kept {
                "samples of old steps are thinned out"
            } else {
                "samples of steps that are not evaluated are not kept any more"
            };
            let message =
                format!("rollouts/ has reached run.rollouts_disk = {bound}: {what}; rollouts/thinned.json lists them");
            self.events.emit(Event::Note { message });
        }
        Ok((is_kept.then_some(digest), removed))
    }

    /// The run begins its steps with these published weights. Only the first line of its receipt says so.
    pub(in crate::run) async fn begin_receipt(&mut self, step: u64, weights: &WeightsRef) -> Result<(), Halt> {
        if self.receipt.is_empty() { self.start_receipt(step, Some(weights)).await } else { Ok(()) }
    }

    /// The run goes on after that many steps.
    pub(in crate::run) async fn continue_receipt(&mut self, step: u64) -> Result<(), Halt> {
        if self.receipt.is_empty() { Ok(()) } else { self.start_receipt(step, None).await }
    }

    async fn start_receipt(&mut self, step: u64, weights: Option<&WeightsRef>) -> Result<(), Halt> {
        let evaluations = self.evaluations.digests()?;
        self.receipt.start(step, weights, &self.versions, evaluations, self.rollouts.thinned()).await
    }

    /// A checkpoint with a state of that digest is on the disk, or was returned to.
    pub(in crate::run) async fn note_checkpoint(&mut self, step: u64, digest: &str) -> Result<(), Halt> {
        self.receipt.checkpoint(step, digest).await
    }
}
