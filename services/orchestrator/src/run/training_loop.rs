//! The training loop: what a run is, in the order in which it happens.
//!
//! ```text
//!   sample ─▶ verify ─▶ form groups ─▶ advantages ─▶ train ─▶ publish ─▶ prove ─▶ evaluate ─▶ record, checkpoint
//!      ▲                                                                   │
//!      └────────────────────── the next steps, by the new weights ◀────────┘
//! ```
//!
//! [`LoopState`](super::state::LoopState) decides what is next; this file says how each thing is done, and by whom. The
//! state is told what has happened and answers with actions. Nothing here waits for one of them: samples of later
//! steps, the learner's step, an evaluation and a checkpoint are in progress together ([`InProgress`]), as far as the
//! state lets them.
//!
//! - **Lag**: how many steps ahead of the learner the engines sample. [`Rules`] say which weights sample what. Without
//!   a lag the same actions come one after the other, but for the first proof and checkpoints, beside which the next step is sampled.
//! - **Filtering**: a finished group is taken by its step, or left out where dynamic sampling finds no advantage in it.
//! - **Evaluation**: when the engines have the weights; the checkpoint and the next step wait for it only where they
//!   must.
//! - **Rewinds**: where the learner has lost its state, [`TrainingLoop::run`] ends and the run begins again from its
//!   last checkpoint (`run_loop`), with the state that is in it. What was in flight is sampled again.
//! - **A stop** ends the run after the step that is trained, or at the last whole step.
//!
//! Each action, the event that answers it, and the errors ([`RunError`](crate::RunError)) that it can end the run
//! with. A dash in the second column: it only moves what is there.
//!
//! ```text
//! action                │ answered by                            │ can end the run with
//! ──────────────────────┼────────────────────────────────────────┼────────────────────────────────────────────────────
//! BeginStep, StartGroup │ –                                      │ –
//! Sample                │ SegmentBegan, then SegmentEnded or     │ ServiceLost of engines, verifiers or environments;
//!                       │ ResponseEnded; GroupFinished after the │ Refused; Sampler where a group has copies
//!                       │ last verdict of a group                │
//! Take, Drop            │ –                                      │ –
//! Close                 │ Sampled                                │ NoSamples, Late, Invalid, RewardFunction;
//!                       │                                        │ ServiceLost or Refused where engines are to sleep
//! Audit                 │ Audited                                │ Sampler, ServiceLost, Refused
//! Release               │ –                                      │ –
//! EndStep               │ –                                      │ Sampler
//! Train                 │ Trained                                │ ServiceLost, Refused
//! Publish               │ Published                              │ ServiceLost, Refused, Directory; Weights where a
//!                       │                                        │ proof is due
//! Settle                │ Settled                                │ –
//! UpdateEngines         │ EnginesUpdated                         │ ServiceLost, Refused; WeightsGone after a resume
//! Prove                 │ EnginesReady                           │ Weights, ServiceLost, Refused
//! Restore               │ Restored                               │ ServiceLost, Refused
//! Answer                │ –                                      │ –
//! Evaluate              │ Evaluated                              │ what Sample can; Late, Invalid, Directory, DiskLost
//! Record                │ Recorded                               │ DiskLost, Directory
//! Keep                  │ Kept                                   │ ServiceLost, Refused, DiskLost, Directory
//! Finish                │ the end of the run                     │ –
//! ```
//!
//! Where the learner answers `Audit`, `Train`, `Publish`, `Prove` or `Keep` that it has lost its state, the run
//! rewinds. An immediate stop ends every action. Samples, proofs and evaluations also tell `WeightsMissing` where
//! engines lack their weights; `Answer` lets them try again.

use std::time::Duration;

use evenkeel_proto::v1::WeightsRef;

use super::in_progress::InProgress;
use super::position::Position;
use super::state::{Action, PublishedWeights, Rules};
use crate::error::{CheckpointError, Halt};
use crate::events::RunOutcome;

/// A run that samples and trains.
pub(super) struct TrainingLoop<'a> {
    rules: Rules,
    position: Position,
    in_progress: InProgress<'a>,
}

impl<'a> TrainingLoop<'a> {
    /// The loop from a position on.
    ///
    /// # Errors
    /// A position without the weights that its next steps are sampled with, or with prompts that data order would skip.
    pub(super) fn new(rules: Rules, position: Position, in_progress: InProgress<'a>) -> Result<Self, CheckpointError> {
        let step = position.step();
        let state = position.state();
        if let Some((weights, sampled)) = state.missing_weights(&rules) {
            return Err(CheckpointError::WeightsUnnamed { step, weights, sampled });
        }
        match state.left_by_completion().filter(|_| rules.is_in_data_order()) {
            Some(prompt) => Err(CheckpointError::PromptsWaiting { step, prompt }),
            None => Ok(Self { rules, position, in_progress }),
        }
    }

    /// Goes on to the last step or to a stop, with the newest weights, which are published.
    ///
    /// # Errors
    /// What ends the run, or returns it to its last checkpoint: the learner has lost its state.
    pub(super) async fn run(mut self, newest: WeightsRef) -> Result<RunOutcome, Halt> {
        let mut actions = self.position.state_mut().begin(&self.rules, PublishedWeights::new(&newest));
        self.in_progress.add_weights(newest, Duration::ZERO);
        loop {
            for action in actions.drain(..) {
                if let Some(outcome) = self.act(action)? {
                    return Ok(outcome);
                }
            }
            self.in_progress.observe(&self.position);
            let event = self.in_progress.next(&self.position).await?;
            actions = self.position.state_mut().apply(&self.rules, event);
        }
    }

    /// Begins something, in the order of a step. Returns how the run has ended, where it has.
    fn act(&mut self, action: Action) -> Result<Option<RunOutcome>, Halt> {
        let state = self.position.state();
        let doing = &mut self.in_progress;
        match action {
            // Sample. A step begins once the engines are on their way to its weights; each prompt becomes a group of
            // episodes, and each episode is sampled segment by segment: with `pipeline.partial` by several versions,
            // one after the other.
            Action::BeginStep(begun) => doing.begin_step(begun, state.version_of(begun.step - 1)),
            Action::StartGroup { step, prompt } => doing.start_group(step, prompt),
            Action::Sample { episode, version, is_last, .. } => doing.sample(episode, version, is_last),

            // Verify. A response that is whole goes to its verifier at once (`rollout/in_flight_sample.rs`), and its
            // verdict becomes a reward (`rollout/shaping.rs`). A group comes back when all of its episodes have theirs.

            // Form groups. A step takes groups in data order, or as they finish; it leaves out what teaches nothing.
            // What it takes is sent to the learner as it comes, but for groups that wait for the audit of the step's
            // samples, or for engines to sleep.
            Action::Take { step, prompt, index, is_held } => doing.take(step, prompt, index, is_held),
            Action::Drop { step, prompt } => doing.leave_out(step, prompt),
            Action::Close(step) => doing.close(step)?,
            Action::Audit(step) => doing.audit(step),
            Action::Release(step) => doing.release(step),
            Action::EndStep(step) => doing.end_step(step)?,

            // Advantages and train. The learner makes advantages of the rewards of a group (`crates/objective`), and
            // gradients while later groups are still sampled; its optimizer moves the weights when it has the last
            // group of an update.
            Action::Train(step) => doing.train(step),

            // Publish. Every step makes a version of the weights.
            Action::Publish { version } => {
                doing.publish(version, state.step() + 1, state.needed_after(state.step() + 1, &self.rules))
            }

            // Prove. Engines that get weights are asked for scores of the same text as the learner: no step is trained
            // whose first weights are not proven.
            Action::Settle => doing.settle(),
            Action::UpdateEngines { version } => doing.update_engines(version, state.step_of(version)),
            Action::Prove { version } => doing.prove(version, state.step_of(version)),

            // Restore. Samples and proofs whose weights the engines lack get them back, as far as the state lets them.
            Action::Restore { request, version } => doing.restore(request, version),
            Action::Answer { request, cause } => doing.answer(request, cause),

            // Evaluate.
            Action::Evaluate { version } => doing.evaluate(version, state.step_of(version)),

            // Record and checkpoint. The state goes into the checkpoint as it is.
            Action::Record(step) => doing.record(step, &self.position),
            Action::Keep(next) => doing.keep(next, &self.position),

            Action::Finish { completed: true } => return Ok(Some(RunOutcome::Completed)),
            Action::Finish { completed: false } => return Ok(Some(RunOutcome::Stopped)),
        }
        Ok(None)
    }
}
