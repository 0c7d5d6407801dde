//! A training call as the learner's thread sees it: what the caller sends, its events, and how long it has been idle.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{LearnerState, SupervisedExample, TrainEvent, TrainGroup, TrainReport, train_event};
use evenkeel_rpc::error::{Reason, ServiceError};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::score::{Arrival, Scoring};
use super::status::StatusBoard;
use crate::trainer::Trainer;

/// What follows the header of a training call.
pub(super) enum TrainInput {
    Group(Box<TrainGroup>),
    Examples(Vec<SupervisedExample>),
    /// The caller has sent everything.
    End,
    /// The caller has sent nothing for too long.
    Idle,
}

/// Why a step ends without a report.
pub(super) enum Abort {
    /// The call was cancelled.
    Cancelled,
    /// The caller ended the step before it was whole, as a run does that is stopped.
    Incomplete(ServiceError),
    /// The step was refused or failed.
    Failed(ServiceError),
}

impl From<ServiceError> for Abort {
    fn from(error: ServiceError) -> Self {
        Self::Failed(error)
    }
}

impl From<FieldError> for Abort {
    fn from(error: FieldError) -> Self {
        Self::Failed(error.into())
    }
}

/// The calls that a step serves: its own and, while it waits for its caller, those that score.
pub(super) struct StepCalls<'a> {
    pub(super) own: &'a mut TrainCall,
    pub(super) scoring: &'a mut Scoring,
    pub(super) status: &'a StatusBoard,
}

impl StepCalls<'_> {
    /// The next input of the step; `None` after the last.
    pub(super) fn next(&mut self, trainer: &Trainer) -> Result<Option<TrainInput>, Abort> {
        self.own.next(self.scoring, trainer, self.status)
    }

    /// The next input, if it is there already.
    pub(super) fn next_at_hand(&mut self) -> Option<TrainInput> {
        self.own.inputs.try_recv().ok()
    }

    /// As [`TrainCall::send`].
    pub(super) fn send(&self, kind: train_event::Kind) -> Result<(), Abort> {
        self.own.send(kind)
    }
}

/// The time since which a step has been waiting for its next input. Clones share it.
#[derive(Clone, Default)]
pub(super) struct IdleTimer(Arc<Mutex<Option<Instant>>>);

impl IdleTimer {
    fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Returns when the step has waited for `limit`. Time spent computing or queued does not count.
    pub(super) async fn expired(&self, limit: Duration) {
        loop {
            let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let remaining = since.map_or(limit, |since| limit.saturating_sub(since.elapsed()));
            if remaining.is_zero() {
                return;
            }
            tokio::time::sleep(remaining).await;
        }
    }
}

/// The error of an idle step. The caller may send the step again.
pub(super) fn idle_error() -> ServiceError {
    let message = "no part of the step arrived for step_idle; the step was dropped, nothing has changed".to_owned();
    ServiceError::Unavailable { reason: Reason::StepIdle, message }
}

/// The learner's end of a training call.
pub(super) struct TrainCall {
    inputs: mpsc::Receiver<TrainInput>,
    events: mpsc::Sender<Result<TrainEvent, ServiceError>>,
    idle: IdleTimer,
    /// Released at the end of the step.
    _permit: OwnedSemaphorePermit,
}

impl TrainCall {
    pub(super) fn new(
        inputs: mpsc::Receiver<TrainInput>,
        events: mpsc::Sender<Result<TrainEvent, ServiceError>>,
        idle: IdleTimer,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        Self { inputs, events, idle, _permit: permit }
    }

    /// The next input; `None` after the last. Answers items to score while none has arrived; that time does not count
    /// as idle.
    fn next(
        &mut self,
        scoring: &mut Scoring,
        trainer: &Trainer,
        status: &StatusBoard,
    ) -> Result<Option<TrainInput>, Abort> {
        let mut since = Instant::now();
        let input = loop {
            self.idle.set(Some(since));
            let arrival = scoring.wait(&mut self.inputs);
            self.idle.set(None);
            match arrival {
                Arrival::Other(input) => break input,
                Arrival::Item(item) => {
                    let began = Instant::now();
                    scoring.answer(item, trainer);
                    status.set_state(LearnerState::Training, trainer.version());
                    since += began.elapsed();
                }
            }
        };
        Self::content(input)
    }

    /// What an input brings; `None` for the end.
    pub(super) fn content(input: Option<TrainInput>) -> Result<Option<TrainInput>, Abort> {
        match input {
            Some(TrainInput::End) => Ok(None),
            Some(TrainInput::Idle) => Err(idle_error().into()),
            Some(input) => Ok(Some(input)),
            None => Err(Abort::Cancelled),
        }
    }

    /// Sends an event, unless the caller has not read earlier ones: a step never waits for its reader. The last slot of
    /// the channel is reserved for the last event.
    pub(super) fn send(&self, kind: train_event::Kind) -> Result<(), Abort> {
        if self.events.is_closed() {
            return Err(Abort::Cancelled);
        }
        if self.events.capacity() > 1 {
            let _ = self.events.try_send(Ok(TrainEvent { kind: Some(kind) }));
        }
        Ok(())
    }

    /// Sends the result of the step. A caller that lost the connection repeats the call and gets the stored report.
    pub(super) fn finish(self, result: Result<TrainReport, ServiceError>) {
        let event = result.map(|report| TrainEvent { kind: Some(train_event::Kind::Report(report)) });
        let _ = self.events.blocking_send(event);
    }
}
