//! A training step, from its header to its report.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{
    SupervisedExample, TrainAccepted, TrainEvent, TrainGroup, TrainHeader, TrainKind, TrainPhase, TrainProgress,
    TrainReport, TrainTimings, train_event,
};
use evenkeel_rpc::error::ServiceError;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::report::Counts;
use super::worker::{Worker, micros};
use super::{convert, report};

/// What follows a header.
pub(super) enum Part {
    Group(Box<TrainGroup>),
    Examples(Vec<SupervisedExample>),
    /// The caller has sent everything.
    End,
    /// The caller has sent nothing for too long.
    Idle,
}

/// Since when a step has been waiting for its next part. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Waiting(Arc<Mutex<Option<Instant>>>);

impl Waiting {
    fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Ends once the step has waited for so long. While it computes, or waits for its turn, its caller owes it nothing.
    pub(super) async fn lasted(&self, limit: Duration) {
        loop {
            let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let left = since.map_or(limit, |since| limit.saturating_sub(since.elapsed()));
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// The two ends of a call: its parts, and its events.
pub(super) struct Session {
    pub(super) parts: mpsc::Receiver<Part>,
    pub(super) events: mpsc::Sender<Result<TrainEvent, ServiceError>>,
    pub(super) waiting: Waiting,
    /// The step's place among those that wait.
    pub(super) _place: OwnedSemaphorePermit,
}

impl Session {
    fn next(&mut self) -> Result<Part, Stop> {
        self.waiting.set(Some(Instant::now()));
        let part = self.parts.blocking_recv();
        self.waiting.set(None);
        match part {
            Some(Part::Idle) => Err(idle().into()),
            Some(part) => Ok(part),
            None => Err(Stop::Gone),
        }
    }
}

/// What a caller is told who sent nothing for too long. The step may be sent again.
pub(super) fn idle() -> ServiceError {
    let message = "the step was dropped, since nothing of it came for step_idle_ms; nothing has changed".to_owned();
    ServiceError::Unavailable { reason: "STEP_IDLE", message }
}

/// A call that ended before its step did; the step is dropped and nothing has changed.
struct Gone;

enum Stop {
    Gone,
    Refused(ServiceError),
}

impl From<ServiceError> for Stop {
    fn from(error: ServiceError) -> Self {
        Self::Refused(error)
    }
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl Worker {
    /// Does the step, or answers with the report of the same step done before.
    pub(super) fn train(&mut self, header: &TrainHeader, mut session: Session) {
        let began = Instant::now();
        let done = self.begin(header, &mut session).and_then(|stored| match stored {
            Some(report) => Ok(report),
            None => match TrainKind::try_from(header.kind) {
                Ok(TrainKind::Supervised) => self.supervised(header, &mut session, began),
                _ => self.grpo(header, &mut session, began),
            },
        });
        // Whoever is gone hears nothing; the report is kept for when they ask again.
        let last = match done {
            Ok(report) => Ok(TrainEvent { kind: Some(train_event::Kind::Report(report)) }),
            Err(Stop::Refused(error)) => Err(error),
            Err(Stop::Gone) => {
                return tracing::info!(step = header.step, "a training call ended early, nothing changed");
            }
        };
        let _ = session.events.blocking_send(last);
    }

    /// Whether the step may begin; the stored report where it was done before.
    fn begin(&mut self, header: &TrainHeader, session: &mut Session) -> Result<Option<TrainReport>, Stop> {
        header.check().map_err(ServiceError::from)?;
        self.check_run(&header.run_id)?;
        if header.settings_hash != self.settings_hash {
            let message = format!(
                "settings_hash is {}, the learner trains by {}: both sides must have the same training settings",
                header.settings_hash, self.settings_hash
            );
            return Err(ServiceError::Precondition { reason: "OTHER_SETTINGS", message }.into());
        }
        let same = |r: &&TrainReport| (&r.run_id, r.kind, r.step) == (&header.run_id, header.kind, header.step);
        let stored = self.reports.iter().find(same).cloned();
        let current = self.learner.version();
        match &stored {
            Some(report) if report.base_version == header.base_version => {}
            None if header.base_version == current => {}
            _ => {
                let message = format!("base_version is {}, the learner's version is {current}", header.base_version);
                return Err(ServiceError::Precondition { reason: "OTHER_VERSION", message }.into());
            }
        }
        if header.step > header.base_version {
            let allowed = format!("at most base_version, which is {}", header.base_version);
            return Err(FieldError::new("step", header.step, allowed).into_stop());
        }
        let most = self.settings.max_step_items;
        let expected = [("expected_groups", header.expected_groups), ("expected_examples", header.expected_examples)];
        if let Some((field, count)) = expected.into_iter().find(|(_, count)| *count > most) {
            return Err(FieldError::new(field, count, format!("at most {most} (max_step_items)")).into_stop());
        }
        self.seen = Instant::now();
        let accepted =
            TrainAccepted { run_id: header.run_id.clone(), step: header.step, already_done: stored.is_some() };
        send(session, train_event::Kind::Accepted(accepted))?;
        self.learner.set_seed(header.seed);
        Ok(stored)
    }

    fn grpo(&mut self, header: &TrainHeader, session: &mut Session, began: Instant) -> Result<TrainReport, Stop> {
        let mut counts = Counts::default();
        let mut received = 0;
        let mut working = Duration::ZERO;
        let mut step = self.learner.step();
        loop {
            let part = session.next()?;
            self.seen = Instant::now();
            let message = match part {
                Part::Group(group) => group,
                Part::Examples(_) => {
                    return Err(FieldError::new("examples", "present", "groups in a GRPO step").into_stop());
                }
                Part::End | Part::Idle => break,
            };
            if received == header.expected_groups {
                let allowed = format!("expected_groups = {}", header.expected_groups);
                return Err(FieldError::new("number of groups", received + 1, allowed).into_stop());
            }
            let place = format!("group[{received}]");
            let group = convert::group(*message, received).map_err(|error| error.within(&place).into_stop())?;
            counts.prompt_tokens += group.prompt.len() as u64;
            for response in &group.responses {
                counts.response_tokens += response.tokens.len() as u64;
                counts.trainable_tokens += response.trainable() as u64;
            }
            let at = Instant::now();
            step.add(group).map_err(convert::error)?;
            working += at.elapsed();
            received += 1;
            send(session, progress(TrainPhase::Receiving, received, header.expected_groups, counts))?;
        }
        if received != header.expected_groups {
            let allowed = format!("expected_groups = {}", header.expected_groups);
            return Err(FieldError::new("number of groups", received, allowed).into_stop());
        }
        let receive_us = micros(began.elapsed());
        send(session, progress(TrainPhase::Stepping, received, header.expected_groups, counts))?;
        let at = Instant::now();
        let done = step.finish().map_err(convert::error)?;
        working += at.elapsed();
        let timings = TrainTimings {
            receive_us,
            gradient_us: micros(working),
            total_us: micros(began.elapsed()),
            ..TrainTimings::default()
        };
        let report = report::grpo(header, &done, counts, timings);
        self.finished(header, report.clone());
        Ok(report)
    }

    fn supervised(&mut self, header: &TrainHeader, session: &mut Session, began: Instant) -> Result<TrainReport, Stop> {
        let mut examples = Vec::new();
        loop {
            match session.next()? {
                Part::Examples(batch) => examples.extend(batch.into_iter().map(convert::example)),
                Part::Group(_) => {
                    return Err(FieldError::new("group", "present", "examples in a supervised step").into_stop());
                }
                Part::End | Part::Idle => break,
            }
            if examples.len() > header.expected_examples as usize {
                break;
            }
        }
        if examples.len() != header.expected_examples as usize {
            let allowed = format!("expected_examples = {}", header.expected_examples);
            return Err(FieldError::new("number of examples", examples.len(), allowed).into_stop());
        }
        let counts = Counts {
            prompt_tokens: examples.iter().map(|example| example.prompt.len() as u64).sum(),
            response_tokens: examples.iter().map(|example| example.response.len() as u64).sum(),
            trainable_tokens: 0,
        };
        let receive_us = micros(began.elapsed());
        let at = Instant::now();
        let done = self.learner.supervised_step(&examples).map_err(convert::error)?;
        let timings = TrainTimings {
            receive_us,
            gradient_us: micros(at.elapsed()),
            total_us: micros(began.elapsed()),
            ..TrainTimings::default()
        };
        let report = report::supervised(header, done, counts, timings);
        self.finished(header, report.clone());
        Ok(report)
    }

    /// Keeps the report before anybody hears of it: a caller that lost the connection must not step twice.
    fn finished(&mut self, header: &TrainHeader, report: TrainReport) {
        self.keep(report);
        self.adopt(&header.run_id);
        let version = self.learner.version();
        self.update(|snapshot| {
            snapshot.version = version;
            match TrainKind::try_from(header.kind) {
                Ok(TrainKind::Supervised) => snapshot.last_supervised_step = Some(header.step),
                _ => snapshot.last_grpo_step = Some(header.step),
            }
        });
        if header.kind() != TrainKind::Supervised {
            self.grpo_steps = header.step.saturating_add(1);
        }
    }
}

trait IntoStop {
    fn into_stop(self) -> Stop;
}

impl IntoStop for FieldError {
    fn into_stop(self) -> Stop {
        Stop::Refused(self.into())
    }
}

fn progress(phase: TrainPhase, received: u32, expected: u32, counts: Counts) -> train_event::Kind {
    train_event::Kind::Progress(TrainProgress {
        phase: phase.into(),
        received,
        accumulated: received,
        expected,
        trainable_tokens: counts.trainable_tokens,
    })
}

/// Says where the step is, unless the caller has not read what it was told before: a step waits for nobody to read. The last event
/// always has a place.
fn send(session: &Session, kind: train_event::Kind) -> Result<(), Gone> {
    if session.events.is_closed() {
        return Err(Gone);
    }
    if session.events.capacity() > 1 {
        let _ = session.events.try_send(Ok(TrainEvent { kind: Some(kind) }));
    }
    Ok(())
}
