//! A training step, from its header to its report.

mod steps;

use std::collections::VecDeque;
use std::time::Instant;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{RankOrder, TrainAccepted, TrainHeader, TrainKind, TrainReport, TrainTimings, train_event};
use evenkeel_rpc::error::{Reason, ServiceError, micros};

use super::gpu_memory::MemoryWatch;
use super::instruments::{count_step, record};
use super::leader::{Teller, order};
use super::lease::Lease;
use super::score::Scoring;
use super::settings::LearnerSettings;
use super::skipped_batches::SkippedBatches;
use super::spans::record_spans;
use super::status::StatusBoard;
use super::train_call::{Abort, StepCalls, TrainCall};
use crate::learner::Learner;
use crate::settings::OldLogp;

/// Number of reports kept for callers that repeat a step.
const KEPT_REPORTS: usize = 16;

/// The training steps of a learner, and the reports for callers that repeat one.
pub(super) struct Training {
    settings_hash: String,
    max_step_items: u32,
    arithmetic: Option<&'static str>,
    /// Reports of steps, the newest last.
    reports: VecDeque<TrainReport>,
    /// Number of GRPO steps done, as the run counts them.
    grpo_steps: u64,
    status: StatusBoard,
    skipped_batches: SkippedBatches,
    memory: MemoryWatch,
}

impl Training {
    pub(super) fn new(settings: &LearnerSettings, status: StatusBoard) -> Self {
        Self {
            settings_hash: settings.training.hash(),
            max_step_items: settings.max_step_items,
            arithmetic: settings.arithmetic(),
            reports: VecDeque::new(),
            grpo_steps: 0,
            status,
            skipped_batches: SkippedBatches::new(settings.checkpoints.join("skipped")),
            memory: MemoryWatch::default(),
        }
    }

    /// Number of GRPO steps done.
    pub(super) fn grpo_steps(&self) -> u64 {
        self.grpo_steps
    }

    /// Records that the weights were replaced by those after `grpo_steps` steps: earlier reports belong to others.
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
    pub(super) fn run(
        &mut self,
        learner: &mut Learner,
        lease: &mut Lease,
        scoring: &mut Scoring,
        header: &TrainHeader,
        mut call: TrainCall,
    ) {
        let started = Instant::now();
        let result = self.begin(learner, lease, header, &call).and_then(|stored| match stored {
            Some(report) => Ok(report),
            None => {
                let status = self.status.clone();
                let mut calls = StepCalls { own: &mut call, scoring, status: &status };
                self.step(learner, lease, header, &mut calls, started)
            }
        });
        match result {
            Ok(report) => call.finish(Ok(report)),
            Err(Abort::Failed(error)) => {
                tracing::warn!(%error, "step failed; nothing has changed");
                count_step(header.kind(), "failed");
                call.finish(Err(error));
            }
            Err(Abort::Incomplete(error)) => {
                tracing::info!(%error, "the caller ended the step early; nothing has changed");
                count_step(header.kind(), "cancelled");
                call.finish(Err(error));
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
        call: &TrainCall,
    ) -> Result<Option<TrainReport>, Abort> {
        let current = learner.version();
        header.validate()?;
        lease.check_owner(&header.run_id, current)?;
        if header.settings_hash != self.settings_hash {
            let message = format!(
                "settings_hash is {}, the learner's is {}: both sides must have the same training settings",
                header.settings_hash, self.settings_hash
            );
            return Err(ServiceError::Precondition { reason: Reason::SettingsMismatch, message }.into());
        }
        let same = |r: &&TrainReport| (&r.run_id, r.kind, r.step) == (&header.run_id, header.kind, header.step);
        let stored = self.reports.iter().find(same).cloned();
        match &stored {
            Some(report) if report.base_version == header.base_version => {}
            None if header.base_version == current => {}
            _ => {
                let message = format!("base_version is {}, the learner's version is {current}", header.base_version);
                return Err(ServiceError::Precondition { reason: Reason::VersionMismatch, message }.into());
            }
        }
        if header.step.saturating_sub(1) > header.base_version {
            let allowed = format!("1 to base_version + 1, where base_version is {}", header.base_version);
            return Err(FieldError::new("step", header.step, allowed).into());
        }
        let most = self.max_step_items;
        let expected = [("expected_groups", header.expected_groups), ("expected_examples", header.expected_examples)];
        if let Some((field, count)) = expected.into_iter().find(|(_, count)| *count > most) {
            return Err(FieldError::new(field, count, format!("at most {most} (max_step_items)")).into());
        }
        if header.kind() == TrainKind::Grpo {
            let size = learner.settings().mini_batch_groups;
            learner.settings().validate_groups(header.expected_groups as usize).map_err(|_| {
                FieldError::new(
                    "expected_groups",
                    header.expected_groups,
                    format!("a multiple of mini_batch_groups = {size}"),
                )
            })?;
        }
        if let Some(most) = header.max_lag.filter(|_| learner.settings().old_logp == OldLogp::Recompute)
            && most > 0
        {
            return Err(FieldError::new("max_lag", most, "0 or absent with the learner's old_logp = recompute").into());
        }
        if !header.equal_arithmetic.is_empty() && self.arithmetic != Some(&header.equal_arithmetic) {
            let own = self.arithmetic.map(|own| format!(" or {own}")).unwrap_or_default();
            return Err(FieldError::new("equal_arithmetic", &header.equal_arithmetic, format!("empty{own}")).into());
        }
        lease.renew();
        let run_id = header.run_id.clone();
        let step = header.step;
        call.send(train_event::Kind::Accepted(TrainAccepted { run_id, step, already_done: stored.is_some() }))?;
        learner.set_seed(header.seed);
        Ok(stored)
    }

    /// Receives and runs a step, and stores its report.
    fn step(
        &mut self,
        learner: &mut Learner,
        lease: &mut Lease,
        header: &TrainHeader,
        calls: &mut StepCalls<'_>,
        started: Instant,
    ) -> Result<TrainReport, Abort> {
        learner.take_work();
        calls.scoring.make_room();
        let mut groups = Vec::new();
        let done = match header.kind() {
            TrainKind::Supervised => self.supervised(learner, header, calls, started),
            _ => self.grpo(learner, lease, header, calls, started, &mut groups),
        };
        if done.is_err() {
            // Other ranks drop it as well; one that is lost is noticed before the next command.
            let _ = Teller::of(learner).tell(|| order(RankOrder::Abandon));
        }
        let (mut report, receive) = done?;
        let work = learner.take_work();
        let passes = learner.take_passes();
        let total = started.elapsed();
        report.timings = Some(TrainTimings {
            receive_us: micros(receive),
            score_us: micros(work.scoring),
            gradient_us: micros(work.gradient),
            optimizer_us: micros(work.optimizer),
            total_us: micros(total),
        });
        record(header.kind(), &report, work, &passes, total);
        self.memory.step_done(learner.memory_plan(), learner.gpu_memory(), &mut report.metrics);
        record_spans(header, &report, &groups, &passes, total);
        // Stored before it is sent, so that a caller that lost the connection does not step twice.
        if self.reports.len() == KEPT_REPORTS {
            self.reports.pop_front();
        }
        self.reports.push_back(report.clone());
        lease.assign(&header.run_id);
        self.status.step_done(header.kind(), header.step, learner.version());
        if header.kind() != TrainKind::Supervised {
            self.grpo_steps = header.step;
        }
        Ok(report)
    }
}
