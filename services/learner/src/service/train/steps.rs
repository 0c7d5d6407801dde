//! The two kinds of steps: what arrives is converted, trained on and reported.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{
    RankOrder, SupervisedBatch, TrainHeader, TrainPhase, TrainProgress, TrainReport, rank_command, train_event,
};

use super::super::convert;
use super::super::leader::{Teller, order};
use super::super::lease::Lease;
use super::super::report::{self, TokenCounts};
use super::super::train_call::{Abort, StepCalls, TrainCall, TrainInput};
use super::Training;
use crate::error::LearnerError;
use crate::group::ResponseGroup;
use crate::learner::Learner;
use crate::step::{PolicyStep, StepPhase, StepProgress};

impl Training {
    /// Receives groups and runs a GRPO step. Returns its report, and the time until the last group had arrived; `ids`
    /// are then those of the groups.
    pub(super) fn grpo(
        &self,
        learner: &mut Learner,
        lease: &mut Lease,
        header: &TrainHeader,
        calls: &mut StepCalls<'_>,
        started: Instant,
        ids: &mut Vec<String>,
    ) -> Result<(TrainReport, Duration), Abort> {
        let mut counts = TokenCounts::default();
        let mut received = 0;
        let mut groups = Vec::new();
        let expected = header.expected_groups;
        let is_probed = learner.settings().probe_gradients.is_due(header.step);
        let ranks = Teller::of(learner);
        ranks.tell(|| rank_command::Kind::Begin(header.clone())).map_err(convert::error)?;
        // What has arrived and not been trained on: other ranks have it before this one begins, since theirs are the
        // later groups.
        let mut waiting = VecDeque::new();
        let mut has_more = true;
        let mut step = learner.step_of(expected as usize).numbered(header.step).map_err(convert::error)?;
        if is_probed {
            step = step.with_probe().map_err(convert::error)?;
        }
        if header.max_lag.is_some_and(|most| most > 0) {
            step = step.with_lags().map_err(convert::error)?;
        }
        loop {
            let input = match waiting.is_empty() {
                true if has_more => calls.next(step.trainer())?,
                true => break,
                false if has_more && ranks.has_others() => match calls.next_at_hand() {
                    Some(input) => TrainCall::content(Some(input))?,
                    None => {
                        train_on(&mut waiting, &mut step)?;
                        calls.send(progress(TrainPhase::Receiving, received, expected, step.progress()))?;
                        continue;
                    }
                },
                false => {
                    train_on(&mut waiting, &mut step)?;
                    calls.send(progress(TrainPhase::Receiving, received, expected, step.progress()))?;
                    continue;
                }
            };
            let Some(input) = input else {
                has_more = false;
                continue;
            };
            lease.renew();
            let TrainInput::Group(message) = input else {
                return Err(FieldError::new("examples", "present", "groups in a GRPO step").into());
            };
            if received == expected {
                return Err(wrong_count("groups", received + 1, expected));
            }
            ranks.tell(|| rank_command::Kind::Group((*message).clone())).map_err(convert::error)?;
            let group = convert::group(*message, received, header)
                .map_err(|error| error.within(format!("groups[{received}]")))?;
            counts.add(&group);
            ids.push(group.id.clone());
            groups.push(group.clone());
            waiting.push_back(group);
            received += 1;
        }
        if received != expected {
            return Err(wrong_count("groups", received, expected));
        }
        let receive = started.elapsed();
        calls.send(progress(TrainPhase::Accumulating, received, expected, step.progress()))?;
        let observe = |phase, at| {
            let phase = match phase {
                StepPhase::Scoring => TrainPhase::Scoring,
                StepPhase::Accumulating => TrainPhase::Accumulating,
                StepPhase::Updating => TrainPhase::Updating,
            };
            // A caller that has gone does not stop a step that has all its groups: it may repeat the call.
            let _ = calls.send(progress(phase, received, expected, at));
        };
        ranks.tell(|| order(RankOrder::Finish)).map_err(convert::error)?;
        let done = step.finish_with(observe);
        let skipped = match &done {
            Ok(report) => report.updates.iter().any(|update| update.skipped.is_some()),
            Err(error) => matches!(error, LearnerError::SkippedUpdates { .. }),
        };
        if skipped {
            self.skipped_batches.write(&header.run_id, header.kind(), header.step, &groups);
        }
        Ok((report::grpo(header, &done.map_err(convert::error)?, counts), receive))
    }

    /// Receives examples and runs a supervised step. Returns the same as [`grpo`](Self::grpo).
    pub(super) fn supervised(
        &self,
        learner: &mut Learner,
        header: &TrainHeader,
        calls: &mut StepCalls<'_>,
        started: Instant,
    ) -> Result<(TrainReport, Duration), Abort> {
        let ranks = Teller::of(learner);
        ranks.tell(|| rank_command::Kind::Begin(header.clone())).map_err(convert::error)?;
        let mut examples = Vec::new();
        while let Some(input) = calls.next(learner.trainer())? {
            let TrainInput::Examples(batch) = input else {
                return Err(FieldError::new("group", "present", "examples in a supervised step").into());
            };
            ranks
                .tell(|| rank_command::Kind::Examples(SupervisedBatch { examples: batch.clone() }))
                .map_err(convert::error)?;
            examples.extend(batch.into_iter().map(convert::example));
            if examples.len() > header.expected_examples as usize {
                break;
            }
        }
        if examples.len() != header.expected_examples as usize {
            return Err(wrong_count("examples", examples.len() as u32, header.expected_examples));
        }
        let counts = TokenCounts {
            prompt_tokens: examples.iter().map(|example| example.prompt.len() as u64).sum(),
            response_tokens: examples.iter().map(|example| example.response.len() as u64).sum(),
            trainable_tokens: 0,
        };
        let receive = started.elapsed();
        ranks.tell(|| order(RankOrder::Finish)).map_err(convert::error)?;
        let done = learner.supervised_step(&examples);
        let skipped = match &done {
            Ok(report) => report.skipped.is_some(),
            Err(error) => matches!(error, LearnerError::SkippedUpdates { .. }),
        };
        if skipped {
            self.skipped_batches.write(&header.run_id, header.kind(), header.step, &examples);
        }
        Ok((report::supervised(header, done.map_err(convert::error)?, counts), receive))
    }
}

/// Trains on the next group that waits, if there is one.
fn train_on(waiting: &mut VecDeque<ResponseGroup>, step: &mut PolicyStep<'_>) -> Result<(), Abort> {
    match waiting.pop_front() {
        Some(group) => Ok(step.add(group).map_err(convert::error)?),
        None => Ok(()),
    }
}

fn wrong_count(what: &str, found: u32, expected: u32) -> Abort {
    let allowed = format!("expected_{what} = {expected}");
    let error = FieldError::new(what, format_args!("a list of {found}"), allowed).into();
    if found < expected { Abort::Incomplete(error) } else { Abort::Failed(error) }
}

fn progress(phase: TrainPhase, received: u32, expected: u32, at: StepProgress) -> train_event::Kind {
    train_event::Kind::Progress(TrainProgress {
        phase: phase.into(),
        received,
        accumulated: at.groups as u32,
        expected,
        trainable_tokens: at.trainable_tokens as u64,
    })
}
