//! One item from its receipt to its rollout.

mod draw;
mod plan;
mod spans;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::{Failure, FailureCode, FinishReason, GenerateItem, GenerationTimings, Rollout};
use evenkeel_rpc::error::ServiceError;
use evenkeel_rpc::items::{ItemContext, Stopped};
use tokio::time::Instant;

use crate::engine::Finish;
use crate::fleet::Fleet;
use draw::{Progress, draw};
use plan::{Limits, Plan};
use spans::record_spans;

/// How an item ended.
enum End {
    Finished(Finish),
    Failed(Failure),
    Stopped(Stopped),
}

/// Answers one item.
pub(crate) async fn answer(fleet: Arc<Fleet>, item: GenerateItem, mut context: ItemContext) -> Rollout {
    let begun = Instant::now();
    // Requests to engines belong below the sample, the sample below what its item says.
    let parent = context.trace;
    context.trace = parent.child();
    let mut progress = Progress { segments: item.prefix_segments.clone(), ..Progress::default() };
    let model = fleet.model.get();
    let limits = Limits {
        context_tokens: fleet.context_tokens(),
        vocabulary_size: model.map_or(0, |model| model.info.vocabulary_size),
    };
    let end = match Plan::check(&item, limits) {
        Err(error) => End::Failed(ServiceError::from(error).failure()),
        Ok(plan) => {
            debug_assert_eq!(plan.prompt_tokens, item.prompt_token_ids.len());
            tokio::select! {
                biased;
                drawn = draw(&fleet, &item, &plan, &context, &mut progress) => match drawn {
                    Ok(finish) => End::Finished(finish),
                    Err(failure) => End::Failed(failure),
                },
                // Dropping the request frees its place on the engine.
                why = context.stopped() => End::Stopped(why),
            }
        }
    };
    let waited = context.queued + begun.elapsed();
    let rollout = rollout(&fleet, item, end, progress, context.queued, waited);
    record(&rollout, waited);
    record_spans(&rollout, context.trace, parent);
    rollout
}

fn rollout(
    fleet: &Fleet,
    item: GenerateItem,
    end: End,
    mut progress: Progress,
    queued: Duration,
    total: Duration,
) -> Rollout {
    let waiting = progress.waiting.map(|since| since.elapsed()).unwrap_or_default();
    let (reason, failure) = match end {
        End::Finished(Finish::Stop) => (FinishReason::Stop, None),
        End::Finished(Finish::Length) => (FinishReason::Length, None),
        End::Finished(Finish::Repetition) => (FinishReason::Repetition, None),
        End::Finished(Finish::Aborted) => (FinishReason::Aborted, None),
        End::Failed(failure) if failure.code() == FailureCode::DeadlineExceeded => {
            (FinishReason::Deadline, Some(failure))
        }
        End::Failed(failure) => (FinishReason::Failed, Some(failure)),
        End::Stopped(Stopped::Cancelled) => (FinishReason::Cancelled, Some(ServiceError::Cancelled.failure())),
        End::Stopped(Stopped::Aborted) => (FinishReason::Failed, Some(ServiceError::Draining.failure())),
        End::Stopped(Stopped::Deadline) => match fleet.why_none().filter(|_| progress.waiting.is_some()) {
            // It did not take too long: there was nobody to take it.
            Some(none) => (FinishReason::Failed, Some(none.failure())),
            None => (FinishReason::Deadline, Some(ServiceError::Deadline(total).failure())),
        },
    };
    let whole = matches!(reason, FinishReason::Stop | FinishReason::Length | FinishReason::Repetition);
    if !progress.engine.is_some_and(|engine| fleet.is_confirmed(engine)) {
        // Whose weights sampled the last tokens is not certain, and there is no time to ask.
        progress.tokens.clear();
    }
    let keeps = whole || (item.keep_partial && reason != FinishReason::Failed);
    if keeps {
        progress.keep();
    } else {
        progress.segments.clear();
    }
    let last_token = progress.segments.last().and_then(|segment| segment.token_ids.last()).copied();
    let engine = progress.engine.map(|engine| fleet.member(engine));
    let timings = GenerationTimings {
        queue_us: micros(queued + progress.queued + waiting),
        engine_queue_us: progress.timings.queue_us,
        prefill_us: progress.timings.prefill_us,
        decode_us: progress.timings.decode_us,
        total_us: micros(total),
    };
    Rollout {
        sample_id: item.sample_id,
        group_id: item.group_id,
        prompt_token_ids: item.prompt_token_ids,
        segments: progress.segments,
        finish_reason: reason.into(),
        stop_token_id: last_token.filter(|_| reason == FinishReason::Stop),
        parent_sample_id: item.parent_sample_id,
        sampling: item.sampling,
        log_probability_mode: fleet.log_probability_mode().into(),
        engine: engine.as_ref().map(|member| member.name.clone()).unwrap_or_default(),
        engine_version: engine
            .as_ref()
            .and_then(|member| member.info.get())
            .map(|info| info.version.clone())
            .unwrap_or_default(),
        attempts: progress.attempts,
        timings: Some(timings),
        failure,
    }
}

fn record(rollout: &Rollout, total: Duration) {
    use evenkeel_proto::Label;
    let tokens: usize = rollout.segments.iter().map(|segment| segment.token_ids.len()).sum();
    let reason = rollout.finish_reason().label();
    metrics::counter!("evenkeel_rollouts_total", "finish_reason" => reason).increment(1);
    metrics::counter!("evenkeel_rollout_tokens_total").increment(tokens as u64);
    metrics::histogram!("evenkeel_rollout_seconds").record(total);
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
