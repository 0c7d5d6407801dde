//! A training step, from its header to its report.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{
    TrainAccepted, TrainHeader, TrainKind, TrainPhase, TrainProgress, TrainReport, TrainTimings, train_event,
};
use evenkeel_rpc::error::ServiceError;

use super::convert::micros;
use super::lease::Lease;
use super::report::Counts;
use super::session::{Abort, Part, Session};
use super::status::StatusBoard;
use super::{convert, report};
use crate::learner::Learner;
use crate::trainer::WorkDone;

/// Number of reports kept for callers that repeat a step.
const KEPT_REPORTS: usize = 16;

/// The training steps of a learner, and the reports for callers that repeat one.
pub(super) struct Training {
    settings_hash: String,
    max_step_items: u32,
    /// The newest last.
    reports: VecDeque<TrainReport>,
    /// Number of GRPO steps done, as the run counts them.
    grpo_steps: u64,
    status: StatusBoard,
}

impl Training {
    pub(super) fn new(settings_hash: String, max_step_items: u32, status: StatusBoard) -> Self {
        Self { settings_hash, max_step_items, reports: VecDeque::new(), grpo_steps: 0, status }
    }

    /// Number of GRPO steps done.
    pub(super) fn grpo_steps(&self) -> u64 {
        self.grpo_steps
    }

    /// Records that a checkpoint after `grpo_steps` steps was loaded: earlier reports belong to other weights.
    pub(super) fn restored(&mut self, grpo_steps: u64) {
        self.grpo_steps = grpo_steps;
        self.reports.clear();
    }

    /// Runs the step, or answers with the stored report if it was already done.
    #[tracing::instrument(
        name = "train",
        skip_all,
        fields(run = header.run_id, step = header.step, kind = header.kind().as_str_name())
    )]
    pub(super) fn run(&mut self, learner: &mut Learner, lease: &mut Lease, header: &TrainHeader, mut session: Session) {
        let started = Instant::now();
        let result = self.begin(learner, lease, header, &session).and_then(|stored| match stored {
            Some(report) => Ok(report),
            None => self.step(learner, lease, header, &mut session, started),
        });
        match result {
            Ok(report) => session.finish(Ok(report)),
            Err(Abort::Failed(error)) => {
                tracing::warn!(%error, "step failed; nothing has changed");
                count_step(header.kind(), "failed");
                session.finish(Err(error));
            }
            Err(Abort::Cancelled) => {
                tracing::info!("call cancelled; nothing has changed");
                count_step(header.kind(), "cancelled");
            }
        }
    }

    /// Checks whether the step may begin. Returns the stored report if it was already done.
    fn begin(
        &self,
        learner: &mut Learner,
        lease: &mut Lease,
        header: &TrainHeader,
        session: &Session,
    ) -> Result<Option<TrainReport>, Abort> {
        let current = learner.version();
        header.check()?;
        lease.check_owner(&header.run_id, current)?;
        if header.settings_hash != self.settings_hash {
            let message = format!(
                "settings_hash is {}, the learner's is {}: both sides must have the same training settings",
                header.settings_hash, self.settings_hash
            );
            return Err(ServiceError::Precondition { reason: "OTHER_SETTINGS", message }.into());
        }
        let same = |r: &&TrainReport| (&r.run_id, r.kind, r.step) == (&header.run_id, header.kind, header.step);
        let stored = self.reports.iter().find(same).cloned();
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
            return Err(FieldError::new("step", header.step, allowed).into());
        }
        let most = self.max_step_items;
        let expected = [("expected_groups", header.expected_groups), ("expected_examples", header.expected_examples)];
        if let Some((field, count)) = expected.into_iter().find(|(_, count)| *count > most) {
            return Err(FieldError::new(field, count, format!("at most {most} (max_step_items)")).into());
        }
        lease.renew();
        let (run_id, step) = (header.run_id.clone(), header.step);
        session.send(train_event::Kind::Accepted(TrainAccepted { run_id, step, already_done: stored.is_some() }))?;
        learner.set_seed(header.seed);
        Ok(stored)
    }

    /// Receives and runs a step, and stores its report.
    fn step(
        &mut self,
        learner: &mut Learner,
        lease: &mut Lease,
        header: &TrainHeader,
        session: &mut Session,
        started: Instant,
    ) -> Result<TrainReport, Abort> {
        learner.take_work();
        let (mut report, receive) = match header.kind() {
            TrainKind::Supervised => supervised(learner, header, session, started)?,
            _ => grpo(learner, lease, header, session, started)?,
        };
        let (work, total) = (learner.take_work(), started.elapsed());
        report.timings = Some(TrainTimings {
            receive_us: micros(receive),
            score_us: micros(work.scoring),
            gradient_us: micros(work.gradient),
            optimizer_us: micros(work.optimizer),
            total_us: micros(total),
        });
        record(header.kind(), &report, work, total);
        // Stored before it is sent, so that a caller that lost the connection does not step twice.
        if self.reports.len() == KEPT_REPORTS {
            self.reports.pop_front();
        }
        self.reports.push_back(report.clone());
        lease.assign(&header.run_id);
        self.status.step_done(header.kind(), header.step, learner.version());
        if header.kind() != TrainKind::Supervised {
            self.grpo_steps = header.step.saturating_add(1);
        }
        Ok(report)
    }
}

/// Receives groups and runs a GRPO step. Returns its report, and the time until the last group had arrived.
fn grpo(
    learner: &mut Learner,
    lease: &mut Lease,
    header: &TrainHeader,
    session: &mut Session,
    started: Instant,
) -> Result<(TrainReport, Duration), Abort> {
    let mut counts = Counts::default();
    let mut received = 0;
    let mut step = learner.step();
    while let Some(part) = session.next()? {
        lease.renew();
        let Part::Group(message) = part else {
            return Err(FieldError::new("examples", "present", "groups in a GRPO step").into());
        };
        if received == header.expected_groups {
            return Err(wrong_count("groups", received + 1, header.expected_groups));
        }
        let group = convert::group(*message, received).map_err(|error| error.within(format!("group[{received}]")))?;
        counts.prompt_tokens += group.prompt.len() as u64;
        for response in &group.responses {
            counts.response_tokens += response.tokens.len() as u64;
            counts.trainable_tokens += response.trainable() as u64;
        }
        step.add(group).map_err(convert::error)?;
        received += 1;
        session.send(progress(TrainPhase::Receiving, received, header.expected_groups, counts))?;
    }
    if received != header.expected_groups {
        return Err(wrong_count("groups", received, header.expected_groups));
    }
    let receive = started.elapsed();
    session.send(progress(TrainPhase::Stepping, received, header.expected_groups, counts))?;
    let done = step.finish().map_err(convert::error)?;
    Ok((report::grpo(header, &done, counts), receive))
}

/// Receives examples and runs a supervised step. Returns the same as [`grpo`].
fn supervised(
    learner: &mut Learner,
    header: &TrainHeader,
    session: &mut Session,
    started: Instant,
) -> Result<(TrainReport, Duration), Abort> {
    let mut examples = Vec::new();
    while let Some(part) = session.next()? {
        let Part::Examples(batch) = part else {
            return Err(FieldError::new("group", "present", "examples in a supervised step").into());
        };
        examples.extend(batch.into_iter().map(convert::example));
        if examples.len() > header.expected_examples as usize {
            break;
        }
    }
    if examples.len() != header.expected_examples as usize {
        return Err(wrong_count("examples", examples.len(), header.expected_examples));
    }
    let counts = Counts {
        prompt_tokens: examples.iter().map(|example| example.prompt.len() as u64).sum(),
        response_tokens: examples.iter().map(|example| example.response.len() as u64).sum(),
        trainable_tokens: 0,
    };
    let receive = started.elapsed();
    let done = learner.supervised_step(&examples).map_err(convert::error)?;
    Ok((report::supervised(header, done, counts), receive))
}

fn wrong_count(what: &str, found: impl ToString, expected: u32) -> Abort {
    let allowed = format!("expected_{what} = {expected}");
    FieldError::new(format!("number of {what}"), found.to_string(), allowed).into()
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

/// Records the metrics of a completed step.
fn record(kind: TrainKind, report: &TrainReport, work: WorkDone, total: Duration) {
    count_step(kind, if report.skipped { "skipped" } else { "updated" });
    let label = label(kind);
    let phases = [("scoring", work.scoring), ("gradient", work.gradient), ("optimizer", work.optimizer)];
    for (phase, time) in phases.into_iter().chain([("total", total)]) {
        metrics::histogram!("evenkeel_training_step_seconds", "kind" => label, "phase" => phase).record(time);
    }
    let tokens = [
        ("prompt", report.prompt_tokens),
        ("response", report.response_tokens),
        ("trainable", report.trainable_tokens),
    ];
    for (of, count) in tokens {
        metrics::counter!("evenkeel_training_tokens_total", "kind" => label, "tokens" => of).increment(count);
    }
    metrics::counter!("evenkeel_training_micro_batches_total", "kind" => label).increment(work.micro_batches);
    metrics::gauge!("evenkeel_learner_version").set(report.version as f64);
    tracing::info!(
        version = report.version,
        trainable_tokens = report.trainable_tokens,
        micro_batches = work.micro_batches,
        seconds = total.as_secs_f64(),
        skipped = report.skip_reason,
        "step done"
    );
}

fn count_step(kind: TrainKind, outcome: &'static str) {
    metrics::counter!("evenkeel_training_steps_total", "kind" => label(kind), "outcome" => outcome).increment(1);
}

fn label(kind: TrainKind) -> &'static str {
    match kind {
        TrainKind::Supervised => "supervised",
        _ => "grpo",
    }
}
