//! The attempts at one sample. Its content follows from prompt, settings, seed and weights alone: a failed attempt leaves nothing behind,
//! and the next one begins with the same seed.
//!
//! This is the only layer that retries a sample. Clients of the service only send an item again if the service itself was lost.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_proto::append_sampled;
use evenkeel_proto::v1::{Failure, FailureCode, GenerateItem, Segment};
use evenkeel_rpc::error::ServiceError;
use evenkeel_rpc::items::ItemContext;
use evenkeel_rpc::retry::RetryPolicy;
use tokio::time::Instant;

use super::plan::Plan;
use crate::engine::{EngineError, EngineTimings, Fault, Finish, SampleOutcome, SampleRequest, Tokens};
use crate::pool::{EnginePool, Interruption, Lease, LeaseRequest, PooledEngine};
use crate::settings::{PauseSetting, StreamSetting};

/// Reason of a failure: the engine took too long.
const ENGINE_DEADLINE: &str = "ENGINE_DEADLINE";

/// Counts requests, so that each has an id of its own.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// The progress of a sample. It outlives the attempts, so that a sample that is stopped can answer with what it has.
#[derive(Default)]
pub(super) struct Progress {
    /// The response, without the tokens of the current attempt.
    pub(super) segments: Vec<Segment>,
    /// Tokens of the current attempt.
    pub(super) tokens: Tokens,
    /// Version that the current attempt samples from.
    pub(super) version: u64,
    /// Engine of the last attempt.
    pub(super) engine: Option<Arc<PooledEngine>>,
    pub(super) attempts: u32,
    /// Time spent without an engine.
    pub(super) queued: Duration,
    /// Since when it has no engine, while it has none.
    pub(super) waiting_since: Option<Instant>,
    pub(super) timings: EngineTimings,
    /// Tokens sampled before the current attempt.
    pub(super) sampled: u32,
}

impl Progress {
    /// Appends the tokens of the current attempt to the response.
    pub(super) fn keep(&mut self) {
        append_sampled(&mut self.segments, &self.tokens.ids, &self.tokens.log_probabilities, self.version);
        self.sampled += u32::try_from(self.tokens.len()).unwrap_or(u32::MAX);
        self.tokens.clear();
    }

    /// The sample has no engine from now on.
    fn begin_wait(&mut self) {
        self.waiting_since = Some(Instant::now());
    }

    fn end_wait(&mut self) {
        self.queued += self.waiting_since.take().map(|since| since.elapsed()).unwrap_or_default();
    }
}

/// Draws a sample into `progress`.
pub(super) async fn draw(
    pool: &Arc<EnginePool>,
    item: &GenerateItem,
    plan: &Plan,
    context: &ItemContext,
    progress: &mut Progress,
) -> Result<Finish, Failure> {
    let settings = pool.settings();
    let policy = RetryPolicy::new(settings.retry_initial, settings.retry_max);
    let mut retries = policy.with_max_attempts(settings.max_attempts).start();
    let mut avoid = None;
    progress.attempts = 1;
    loop {
        let tokens = plan.sampling.max_tokens - progress.sampled;
        let (group, version) = (item.group_id.clone(), item.policy_version);
        progress.begin_wait();
        let lease = pool.lease(LeaseRequest { tokens: tokens.into(), group, version, avoid }).await;
        let lease = lease.map_err(|error| error.failure())?;
        progress.end_wait();
        progress.engine = Some(Arc::clone(lease.engine()));
        progress.version = lease.session().weights().number;

        let attempt = attempt(settings.stream, item, plan, context, &lease, progress);
        let attempted = match item.engine_deadline_ms {
            Some(ms) => tokio::time::timeout(Duration::from_millis(ms), attempt).await,
            None => Ok(attempt.await),
        };
        let Ok(attempted) = attempted else {
            // Dropping the request has freed its place on the engine.
            let (engine, ms) = (lease.engine().name(), item.engine_deadline_ms.unwrap_or_default());
            let message = format!("engine {engine} had the sample for {ms} ms without ending it");
            return Err(Failure::new(FailureCode::DeadlineExceeded, ENGINE_DEADLINE, message));
        };
        let error = match attempted {
            Ok(AttemptEnd::Finished(finish)) => {
                lease.record_success(progress.tokens.len());
                progress.keep();
                return Ok(finish);
            }
            Ok(AttemptEnd::Paused(PauseSetting::Abort)) => {
                progress.keep();
                return Ok(Finish::Aborted);
            }
            Ok(AttemptEnd::Paused(_)) => {
                progress.keep();
                if progress.sampled == plan.sampling.max_tokens {
                    return Ok(Finish::Length);
                }
                continue;
            }
            Err(error) => error,
        };
        progress.tokens.clear();
        let engine = lease.engine().name().to_owned();
        match error.fault() {
            Fault::Request => {
                let message = format!("engine {engine}: {error}");
                return Err(Failure::new(FailureCode::InvalidArgument, "ENGINE_REFUSED", message));
            }
            Fault::Interruption => {}
            Fault::Engine | Fault::Connection => lease.record_failure(&error),
        }
        let Some(retry) = retries.next_retry() else {
            let attempts = progress.attempts;
            let message = format!("{attempts} attempts failed, the last one on engine {engine}: {error}");
            return Err(ServiceError::Unavailable { reason: "ENGINES_FAILED", message }.failure());
        };
        metrics::counter!("evenkeel_sample_retries_total", "kind" => error.kind()).increment(1);
        tracing::debug!(sample_id = item.sample_id, %engine, %error, attempt = progress.attempts, "retrying");
        avoid = Some(lease.engine().id());
        drop(lease);
        if error.fault() == Fault::Engine {
            progress.begin_wait();
            tokio::time::sleep(retry.pause).await;
            progress.end_wait();
        }
        progress.attempts += 1;
    }
}

/// The end of an attempt that did not fail.
enum AttemptEnd {
    Finished(Finish),
    /// The engine was paused for a weight update: the tokens so far are valid.
    Paused(PauseSetting),
}

async fn attempt(
    stream: StreamSetting,
    item: &GenerateItem,
    plan: &Plan,
    context: &ItemContext,
    lease: &Lease,
    progress: &mut Progress,
) -> Result<AttemptEnd, EngineError> {
    let session = lease.session();
    let sampling = plan.sampling.rest(progress.sampled);
    let token_ids = so_far(plan, item, progress);
    let request_id = format!("{}#{}", item.sample_id, REQUESTS.fetch_add(1, Ordering::Relaxed));
    let request = SampleRequest {
        request_id: &request_id,
        token_ids: &token_ids,
        sampling: &sampling,
        cache_salt: &session.weights().cache_salt(),
        traceparent: &context.trace.to_string(),
        stream: item.keep_partial || stream == StreamSetting::Always,
    };
    let sampling = lease.engine().client().sample(request, &mut progress.tokens);
    let sampled = tokio::select! {
        biased;
        sampled = sampling => sampled,
        interruption = session.interruption() => return match (interruption, session.pause_mode()) {
            (Interruption::Paused, Some(mode)) => {
                if !lease.engine().is_verified() {
                    progress.tokens.clear();
                }
                Ok(AttemptEnd::Paused(mode))
            }
            (Interruption::Paused, None) => {
                Err(EngineError::Interrupted { reason: "its engine was paused".to_owned() })
            }
            (Interruption::EngineLost(reason), _) => Err(EngineError::Interrupted { reason }),
        },
    };
    let SampleOutcome { finish, timings } = sampled?;
    lease.verify_weights().await?;
    progress.timings = timings;
    match (finish, session.pause_mode()) {
        (Finish::Aborted, Some(mode @ (PauseSetting::Abort | PauseSetting::Keep))) => Ok(AttemptEnd::Paused(mode)),
        // Another program paused the engine, or it is shutting down.
        (Finish::Aborted, _) => {
            Err(EngineError::invalid("finish_reason", "abort", "stop or length, since this service did not abort it"))
        }
        (finish, _) => Ok(AttemptEnd::Finished(finish)),
    }
}

/// The prompt and the response so far.
fn so_far<'a>(plan: &'a Plan, item: &GenerateItem, progress: &Progress) -> Cow<'a, [u32]> {
    if progress.sampled == 0 {
        return Cow::Borrowed(&plan.token_ids);
    }
    let mut token_ids = item.prompt_token_ids.clone();
    progress.segments.iter().for_each(|segment| token_ids.extend_from_slice(&segment.token_ids));
    Cow::Owned(token_ids)
}
