//! One item, from its receipt to its rollout.

mod attempts;
mod partial;
mod plan;
mod spans;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::{Failure, FailureCode, FinishReason, GenerateItem, GenerationTimings, Rollout};
use evenkeel_rpc::error::{ServiceError, micros};
use evenkeel_rpc::items::{ItemContext, StopReason};
use tokio::time::Instant;

use crate::engine::SampleFinish;
use crate::pool::EnginePool;
use attempts::draw;
use partial::{PartialSample, Sampled};
use plan::{Plan, PlanLimits};
use spans::record_spans;

/// How an item ended.
enum ItemOutcome {
    Finished(SampleFinish),
    Failed(Failure),
    Stopped(StopReason),
}

pub(crate) async fn answer(pool: Arc<EnginePool>, item: GenerateItem, context: ItemContext) -> Rollout {
    let started = Instant::now();
    let mut partial = PartialSample::after(&item.prefix_segments);
    let model = pool.model();
    let limits = PlanLimits {
        context_tokens: pool.context_tokens(),
        vocabulary_size: model.and_then(|model| Some(model.info.as_ref()?.vocabulary_size)),
        min_temperature: pool.min_temperature(),
    };
    let outcome = match Plan::new(&item, limits) {
        Err(error) => ItemOutcome::Failed(ServiceError::from(error).failure()),
        Ok(plan) => {
            tokio::select! {
                biased;
                drawn = draw(&pool, &item, &plan, &context, &mut partial) => match drawn {
                    Ok(finish) => ItemOutcome::Finished(finish),
                    Err(failure) => ItemOutcome::Failed(failure),
                },
                // Dropping the attempt frees its slot on the engine.
                why = context.stopped() => ItemOutcome::Stopped(why),
            }
        }
    };
    let waited = context.queued + started.elapsed();
    let rollout = rollout(&pool, item, outcome, partial, context.queued, waited);
    record(&rollout, waited);
    record_spans(&rollout, context.trace, context.parent);
    rollout
}

fn rollout(
    pool: &EnginePool,
    item: GenerateItem,
    outcome: ItemOutcome,
    partial: PartialSample,
    queued: Duration,
    total: Duration,
) -> Rollout {
    let (reason, failure) = match outcome {
        ItemOutcome::Finished(SampleFinish::Stop) => (FinishReason::Stop, None),
        ItemOutcome::Finished(SampleFinish::Length) => (FinishReason::Length, None),
        ItemOutcome::Finished(SampleFinish::Repetition) => (FinishReason::Repetition, None),
        ItemOutcome::Finished(SampleFinish::Aborted) => (FinishReason::Aborted, None),
        ItemOutcome::Failed(failure) if failure.code() == FailureCode::DeadlineExceeded => {
            (FinishReason::Deadline, Some(failure))
        }
        ItemOutcome::Failed(failure) => (FinishReason::Failed, Some(failure)),
        ItemOutcome::Stopped(StopReason::Cancelled) => {
            (FinishReason::Cancelled, Some(ServiceError::Cancelled.failure()))
        }
        ItemOutcome::Stopped(StopReason::Aborted) => (FinishReason::Failed, Some(ServiceError::Draining.failure())),
        ItemOutcome::Stopped(StopReason::Deadline) => {
            match pool.unavailability().filter(|_| partial.is_waiting()) {
                // It did not take too long: there was no engine to take it.
                Some(unavailable) => (FinishReason::Failed, Some(unavailable.failure())),
                None => (FinishReason::Deadline, Some(ServiceError::Deadline(total).failure())),
            }
        }
    };
    let complete = matches!(reason, FinishReason::Stop | FinishReason::Length | FinishReason::Repetition);
    let keeps = complete || (item.keep_partial && reason != FinishReason::Failed);
    let Sampled { segments, engine, attempts, queued: waited, timings } = partial.end(keeps);
    let last_token = segments.last().and_then(|segment| segment.token_ids.last()).copied();
    let timings = GenerationTimings {
        queue_us: micros(queued + waited),
        engine_queue_us: timings.queue_us,
        prefill_us: timings.prefill_us,
        decode_us: timings.decode_us,
        total_us: micros(total),
    };
    Rollout {
        sample_id: item.sample_id,
        group_id: item.group_id,
        prompt_token_ids: item.prompt_token_ids,
        segments,
        finish_reason: reason.into(),
        stop_token_id: last_token.filter(|_| reason == FinishReason::Stop),
        parent_sample_id: item.parent_sample_id,
        sampling: item.sampling,
        log_probability_mode: pool.log_probability_mode().into(),
        engine: engine.as_ref().map(|engine| engine.name().to_owned()).unwrap_or_default(),
        engine_version: engine
            .as_ref()
            .and_then(|engine| engine.info())
            .map(|info| info.version.clone())
            .unwrap_or_default(),
        attempts,
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
