//! The steps of a run: one side samples, the other trains, and both act at the same time as far as `pipeline.max_lag` allows. A lag of 0 is
//! the same code, in which each waits for the other.

mod balance;
mod handover;
mod in_flight;
mod learning;
mod plan;
mod sampling;

use std::sync::Arc;
use std::time::Duration;

use super::checkpoints::CheckpointKeeper;
use super::evaluator::Evaluator;
use super::grpo::StepWriter;
use super::journal::RunJournal;
use super::position::{Position, PublishedWeights};
use super::proof::Proof;
use super::step_sampler::StepSampler;
use super::train_session::TrainSession;
use super::weight_sync::WeightSync;
use crate::clients::Services;
use crate::error::{Halt, RunError};
use crate::events::RunOutcome;
use crate::rollout::RolloutContext;
use handover::{Published, handover};
use learning::LearningSide;
use sampling::{SamplingSide, SamplingStart};

pub(super) use balance::Balance;
pub(super) use plan::VersionPlan;

/// The parts of a run that its steps need.
pub(super) struct Pipeline<'a> {
    pub(super) services: &'a Services,
    pub(super) session: &'a Arc<TrainSession>,
    pub(super) weights: &'a WeightSync,
    pub(super) proof: &'a Proof,
    pub(super) evaluator: &'a Evaluator,
    pub(super) sampler: &'a StepSampler,
    pub(super) rollouts: &'a RolloutContext,
    pub(super) writer: &'a StepWriter,
    pub(super) checkpoints: &'a mut CheckpointKeeper,
    pub(super) journal: &'a mut RunJournal,
    pub(super) balance: &'a mut Balance,
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
        self.services.events().forget_samples();
        let (sampling_end, end, lines) = handover(step);
        for weights in position.published() {
            end.publish(weights.step(), Published { weights: weights.reference(), took: Duration::ZERO });
        }
        let mut besides: Vec<u64> = self.checkpoints.best_version().into_iter().collect();
        besides.extend(position.published().iter().map(PublishedWeights::version));
        let current = self.weights.publish(position.version(), besides).await?;
        self.proof.begin(position.version()).await?;
        end.publish(step, Published { weights: current.clone(), took: Duration::ZERO });
        let sampling = SamplingSide {
            services: self.services,
            session: self.session,
            weights: self.weights,
            proof: self.proof,
            evaluator: self.evaluator,
            sampler: self.sampler,
            rollouts: self.rollouts,
            plan,
            end: sampling_end,
            start: SamplingStart {
                step,
                cursor: position.cursor(),
                version: position.version(),
                evaluated: self.journal.evaluated(),
            },
        };
        let learning = LearningSide {
            services: self.services,
            session: self.session,
            weights: self.weights,
            proof: self.proof,
            evaluator: self.evaluator,
            writer: self.writer,
            checkpoints: self.checkpoints,
            journal: self.journal,
            balance: self.balance,
            plan,
            end,
            lines,
            // The checkpoint that the run has just come from is not written again.
            is_saved: from_checkpoint && step > 0,
            position,
            current,
        };
        let (mut sampling, mut learning) = (std::pin::pin!(sampling.run()), std::pin::pin!(learning.run()));
        tokio::select! {
            outcome = &mut learning => outcome,
            sampled = &mut sampling => {
                sampled?;
                learning.await
            }
        }
    }
}

/// Refuses a position without the weights that its next steps are sampled by.
fn check_published(plan: VersionPlan, position: &Position) -> Result<(), RunError> {
    let step = position.step();
    let has = |weights: u64| position.published().iter().any(|published| published.step() == weights);
    match (0..step).find(|&weights| plan.is_needed_at(step, weights) && !has(weights)) {
        None => Ok(()),
        Some(weights) => Err(RunError::Mismatch(format!(
            "the checkpoint after step {step} does not name the weights after step {weights}, which step {} is sampled by",
            (step..).find(|&step| plan.weights_of(step) == weights).unwrap_or(step)
        ))),
    }
}
