//! The attempts at one sample. The content follows from prompt, settings, seed and weights alone: a failed attempt
//! leaves nothing behind, and the next one begins with the same seed.
//!
//! This is the only layer that retries a sample. Clients of the service only send an item again if the service itself
//! was lost.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::{Failure, FailureCode, GenerateItem};
use evenkeel_rpc::error::{Reason, ServiceError};
use evenkeel_rpc::items::ItemContext;
use evenkeel_rpc::retry::RetryPolicy;
use evenkeel_telemetry::spans_are_wanted;

use super::partial::PartialSample;
use super::plan::Plan;
use crate::engine::{EngineClientError, EngineFault, SampleFinish, SampleOutcome, SampleRequest, opaque_request_id};
use crate::pool::{EngineId, EnginePool, EngineSlot, Interruption, SlotRequest};
use crate::settings::{PauseSetting, StreamSetting};

/// Draws a sample into `partial`.
pub(super) async fn draw(
    pool: &Arc<EnginePool>,
    item: &GenerateItem,
    plan: &Plan,
    context: &ItemContext,
    partial: &mut PartialSample,
) -> Result<SampleFinish, Failure> {
    let settings = pool.settings();
    let policy = RetryPolicy::new(settings.retry_initial, settings.retry_max);
    let mut retries = policy.with_max_attempts(settings.max_attempts).start();
    let mut avoid = None;
    let preferred = pool.named(&item.preferred_engine);
    // Between two attempts as well.
    let _wanted = item.policy_version.map(|version| pool.want(version));
    partial.begin_attempt();
    loop {
        let slot = take_slot(pool, item, plan, EngineChoice { preferred, avoid }, partial).await?;
        let attempt = attempt(settings.stream, item, plan, context, &slot, partial);
        let error = match within_deadline(item, &slot, attempt).await? {
            Ok(end) => match accept(end, plan, &slot, partial) {
                Some(finish) => return Ok(finish),
                None => continue,
            },
            Err(error) => error,
        };
        partial.discard();
        let engine = slot.engine().name();
        match error.fault() {
            EngineFault::Request | EngineFault::Weights => {
                let message = format!("engine {engine}: {error}");
                return Err(Failure::new(FailureCode::InvalidArgument, Reason::EngineRefused.as_str(), message));
            }
            EngineFault::Interruption => {}
            EngineFault::Engine | EngineFault::Connection => slot.record_failure(&error),
        }
        let Some(retry) = retries.next_retry() else {
            let attempts = partial.attempts();
            let message = format!("{attempts} attempts failed, the last one on engine {engine}: {error}");
            return Err(ServiceError::Unavailable { reason: Reason::EnginesFailed, message }.failure());
        };
        metrics::counter!("evenkeel_sample_retries_total", "kind" => error.kind()).increment(1);
        tracing::debug!(%engine, %error, attempt = partial.attempts(), "retrying");
        avoid = Some(slot.engine().id());
        drop(slot);
        if error.fault() == EngineFault::Engine {
            partial.begin_wait();
            tokio::time::sleep(retry.pause).await;
            partial.end_wait();
        }
        partial.begin_attempt();
    }
}

/// Which engines an attempt should be on, and not on.
#[derive(Debug, Clone, Copy)]
struct EngineChoice {
    /// The engine that the item names, if there is one of that name.
    preferred: Option<EngineId>,
    /// The engine of the attempt before.
    avoid: Option<EngineId>,
}

/// Waits for a slot on an engine.
async fn take_slot(
    pool: &Arc<EnginePool>,
    item: &GenerateItem,
    plan: &Plan,
    EngineChoice { preferred, avoid }: EngineChoice,
    partial: &mut PartialSample,
) -> Result<EngineSlot, Failure> {
    let tokens = (plan.sampling.max_tokens - partial.sampled()).into();
    let group = Some(item.group_id.clone()).filter(|group| !group.is_empty());
    partial.begin_wait();
    let request = SlotRequest { tokens, group, version: item.policy_version, avoid, preferred };
    let slot = pool.slot(request).await.map_err(|error| error.failure())?;
    if !item.preferred_engine.is_empty() && partial.attempts() == 1 {
        let engine = if preferred == Some(slot.engine().id()) { "preferred" } else { "other" };
        metrics::counter!("evenkeel_continued_samples_total", "engine" => engine).increment(1);
    }
    partial.end_wait();
    partial.assign(&slot);
    Ok(slot)
}

/// Runs an attempt for as long as the item lets an engine take. Dropping its request then frees its slot on the engine.
async fn within_deadline<T>(
    item: &GenerateItem,
    slot: &EngineSlot,
    attempt: impl Future<Output = T>,
) -> Result<T, Failure> {
    let Some(ms) = item.engine_deadline_ms else { return Ok(attempt.await) };
    tokio::time::timeout(Duration::from_millis(ms), attempt).await.map_err(|_| {
        let message = format!("engine {} did not finish the sample within {ms} ms", slot.engine().name());
        Failure::new(FailureCode::DeadlineExceeded, Reason::EngineDeadline.as_str(), message)
    })
}

/// Keeps the tokens of an attempt. `None` if the sample goes on in another attempt.
fn accept(end: AttemptEnd, plan: &Plan, slot: &EngineSlot, partial: &mut PartialSample) -> Option<SampleFinish> {
    match end {
        AttemptEnd::Finished(finish) => {
            slot.record_success(partial.unkept());
            partial.keep();
            Some(finish)
        }
        AttemptEnd::Paused(PauseSetting::Abort) => {
            partial.keep();
            Some(SampleFinish::Aborted)
        }
        AttemptEnd::Paused(PauseSetting::Keep | PauseSetting::Wait) => {
            partial.keep();
            (partial.sampled() == plan.sampling.max_tokens).then_some(SampleFinish::Length)
        }
    }
}

/// The end of an attempt that did not fail.
enum AttemptEnd {
    Finished(SampleFinish),
    /// The engine was paused for a weight update: the tokens so far are valid.
    Paused(PauseSetting),
}

async fn attempt(
    stream: StreamSetting,
    item: &GenerateItem,
    plan: &Plan,
    context: &ItemContext,
    slot: &EngineSlot,
    partial: &mut PartialSample,
) -> Result<AttemptEnd, EngineClientError> {
    let session = slot.session();
    let sampling = plan.sampling.rest(partial.sampled());
    partial.seed(sampling.seeded.then_some(sampling.seed));
    let token_ids = so_far(plan, item, partial);
    let request_id = opaque_request_id();
    tracing::debug!(request_id, sample = item.sample_id, engine = %slot.engine().name(), "asks for a sample");
    // The trace follows from what the sample is for, and is worth that only to whoever looks at traces.
    let traceparent = spans_are_wanted().then(|| context.trace.to_string());
    let request = SampleRequest {
        request_id: &request_id,
        token_ids: &token_ids,
        sampling: &sampling,
        adapter: slot.adapter(),
        cache_salt: &session.weights().cache_salt(),
        traceparent: traceparent.as_deref(),
        stream: item.keep_partial || stream == StreamSetting::Always,
    };
    let sampling = slot.engine().client().sample(request, partial.tokens_mut());
    let sampled = tokio::select! {
        biased;
        sampled = sampling => sampled,
        interruption = session.interruption() => return match (interruption, session.pause_mode()) {
            (Interruption::Paused, Some(mode)) => {
                if !slot.engine().is_verified() {
                    partial.discard();
                }
                Ok(AttemptEnd::Paused(mode))
            }
            (Interruption::Paused, None) => {
                Err(EngineClientError::Interrupted { reason: "its engine was paused".to_owned() })
            }
            (Interruption::EngineLost(reason), _) => Err(EngineClientError::Interrupted { reason }),
        },
    };
    let SampleOutcome { finish, timings } = sampled?;
    slot.verify_weights().await?;
    partial.set_timings(timings);
    match (finish, session.pause_mode()) {
        (SampleFinish::Aborted, Some(mode @ (PauseSetting::Abort | PauseSetting::Keep))) => {
            Ok(AttemptEnd::Paused(mode))
        }
        // Another program paused the engine, or it is shutting down.
        (SampleFinish::Aborted, _) => Err(EngineClientError::invalid(
            "finish_reason",
            "abort",
            "stop or length, since this service did not abort it",
        )),
        (finish, _) => Ok(AttemptEnd::Finished(finish)),
    }
}

/// The prompt and the response so far.
fn so_far<'a>(plan: &'a Plan, item: &GenerateItem, partial: &PartialSample) -> Cow<'a, [u32]> {
    if partial.sampled() == 0 {
        return Cow::Borrowed(&plan.token_ids);
    }
    let mut token_ids = item.prompt_token_ids.clone();
    token_ids.extend(partial.token_ids());
    Cow::Owned(token_ids)
}
