//! The steps of a run: one side samples, the other trains, and both act at the same time as far as `pipeline.max_lag` allows. A lag of 0 is
//! the same code, in which each waits for the other.

mod handover;
mod idle_times;
mod in_flight;
mod learning;
mod open_rounds;
mod plan;
mod sampling;

use std::time::Duration;

use super::checkpoints::CheckpointKeeper;
use super::evaluator::Evaluator;
use super::journal::RunJournal;
use super::position::{Position, PublishedWeights};
use super::proof::Proof;
use super::step_sampler::StepSampler;
use super::step_writer::StepWriter;
use super::training_steps::TrainingSteps;
use super::weight_sync::WeightSync;
use crate::clients::Services;
use crate::error::{CheckpointError, Halt};
use crate::events::RunOutcome;
use crate::settings::StepOrder;
use handover::{Published, handover};
use learning::LearningSide;
use sampling::{SamplingSide, SamplingStart};

pub(super) use idle_times::IdleTimes;
pub(super) use plan::VersionPlan;

/// The parts of a run that both sides use.
#[derive(Clone, Copy)]
pub(super) struct PipelineParts<'a> {
    pub(super) services: &'a Services,
    pub(super) session: &'a TrainingSteps,
    pub(super) weights: &'a WeightSync,
    pub(super) proof: &'a Proof,
    pub(super) evaluator: &'a Evaluator,
}

/// The parts of a run that its steps need.
pub(super) struct Pipeline<'a> {
    pub(super) parts: PipelineParts<'a>,
    pub(super) sampler: &'a StepSampler,
    pub(super) writer: &'a StepWriter,
    pub(super) checkpoints: &'a mut CheckpointKeeper,
    pub(super) journal: &'a mut RunJournal,
    pub(super) idle_times: &'a mut IdleTimes,
}

impl Pipeline<'_> {
    /// Evaluations, checkpoints and GRPO steps from a position on, to the last step or to a stop. The failure of one side ends both: what
    /// is in flight then is thrown away, and drawn again after the next start.
    pub(super) async fn run(
        self,
        plan: VersionPlan,
        position: Position,
        from_checkpoint: bool,
    ) -> Result<RunOutcome, Halt> {
        let step = position.step();
        check_published(plan, &position)?;
        check_waiting(plan, &position)?;
        let PipelineParts { services, weights, proof, .. } = self.parts;
        services.events().forget_samples();
        let (sampling_handle, handle, lines) = handover(step);
        for published in position.published() {
            handle.publish(published.step(), Published { weights: published.reference(), took: Duration::ZERO });
        }
        let mut also_keep: Vec<u64> = self.checkpoints.best_version().into_iter().collect();
        also_keep.extend(position.published().iter().map(PublishedWeights::version));
        let current = weights.publish(position.version(), also_keep).await?;
        proof.begin(position.version()).await?;
        handle.publish(step, Published { weights: current.clone(), took: Duration::ZERO });
        let start = SamplingStart {
            step,
            cursor: position.cursor(),
            waiting: position.waiting().to_vec(),
            version: position.version(),
            evaluated: self.journal.evaluated(),
        };
        let sampling = SamplingSide::new(self.parts, self.sampler, plan, sampling_handle, start);
        let learning = LearningSide {
            parts: self.parts,
            writer: self.writer,
            checkpoints: self.checkpoints,
            journal: self.journal,
            idle_times: self.idle_times,
            plan,
            handle,
            lines,
            // The checkpoint that the run has just come from is not written again.
            is_saved: from_checkpoint && step > 0,
            position,
            current,
        };
        let sampling = async {
            match plan.order() {
                StepOrder::Data => sampling.run_in_data_order().await,
                StepOrder::Completion => sampling.run_in_order_of_completion().await,
            }
        };
        let (mut sampling, mut learning) = (std::pin::pin!(sampling), std::pin::pin!(learning.run()));
        tokio::select! {
            outcome = &mut learning => outcome,
            sampled = &mut sampling => {
                sampled?;
                learning.await
            }
        }
    }
}

/// Refuses a position without the weights that its next steps are sampled with.
fn check_published(plan: VersionPlan, position: &Position) -> Result<(), CheckpointError> {
    let step = position.step();
    let has = |weights: u64| position.published().iter().any(|published| published.step() == weights);
    match (0..step).find(|&weights| plan.is_needed_at(step, weights) && !has(weights)) {
        None => Ok(()),
        Some(weights) => {
            let sampled = (step..).find(|&step| plan.weights_of(step) == weights).unwrap_or(step);
            Err(CheckpointError::WeightsUnnamed { step, weights, sampled })
        }
    }
}

/// Refuses prompts without a step where data order would go past them.
fn check_waiting(plan: VersionPlan, position: &Position) -> Result<(), CheckpointError> {
    match (plan.order(), position.waiting()) {
        (StepOrder::Data, &[prompt, ..]) => Err(CheckpointError::PromptsWaiting { step: position.step(), prompt }),
        _ => Ok(()),
    }
}
