//! Drawing one sample, on as many engines as it takes. What it contains follows from prompt, settings, seed and weights: an attempt
//! that failed leaves nothing behind, and the next one begins with the same seed.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_proto::SamplingSettings;
use evenkeel_proto::append_sampled;
use evenkeel_proto::v1::{Failure, FailureCode, GenerateItem, Segment};
use evenkeel_rpc::error::ServiceError;
use evenkeel_rpc::items::ItemContext;
use evenkeel_seeds::Stream;
use tokio::time::Instant;

use super::plan::Plan;
use crate::engine::{Blame, Draw, Ending, EngineError, EngineTimings, Finish, Tokens};
use crate::fleet::{Cut, Fleet, Lease, Want};
use crate::settings::{PauseSetting, StreamSetting};

/// The reason of a sample that took an engine too long.
const ENGINE_DEADLINE: &str = "ENGINE_DEADLINE";

/// Requests of this process, so that no two have one id.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// How far a sample has come. It outlives the attempt, so that a sample that is stopped can answer with it.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The response, without what the present attempt has.
    pub(super) segments: Vec<Segment>,
    /// Tokens of the present attempt.
    pub(super) tokens: Tokens,
    /// Version that the present attempt samples from.
    pub(super) version: u64,
    /// Engine of the last attempt.
    pub(super) engine: Option<usize>,
    pub(super) attempts: u32,
    /// Time without an engine.
    pub(super) queued: Duration,
    /// Since when it has none, while it has none.
    pub(super) waiting: Option<Instant>,
    pub(super) timings: EngineTimings,
    /// Tokens sampled before the present attempt.
    pub(super) sampled: u32,
}

impl Progress {
    /// What the present attempt has becomes part of the response.
    pub(super) fn keep(&mut self) {
        append_sampled(&mut self.segments, &self.tokens.ids, &self.tokens.log_probabilities, self.version);
        self.sampled += u32::try_from(self.tokens.len()).unwrap_or(u32::MAX);
        self.tokens.clear();
    }
}

/// Draws a sample into `progress`.
pub(super) async fn draw(
    fleet: &Arc<Fleet>,
    item: &GenerateItem,
    plan: &Plan,
    context: &ItemContext,
    progress: &mut Progress,
) -> Result<Finish, Failure> {
    let settings = &fleet.settings;
    let mut avoid = None;
    progress.attempts = 1;
    loop {
        let left = plan.sampling.max_tokens - progress.sampled;
        let (group, version) = (item.group_id.clone(), item.policy_version);
        progress.waiting = Some(Instant::now());
        let lease = fleet.acquire(Want { tokens: left.into(), group, version, avoid }).await;
        let lease = lease.map_err(|error| error.failure())?;
        progress.queued += progress.waiting.take().map(|since| since.elapsed()).unwrap_or_default();
        progress.engine = Some(lease.engine());
        progress.version = lease.session().target.version;

        let attempt = attempt(fleet, item, plan, context, &lease, progress);
        let attempted = match item.engine_deadline_ms {
            Some(ms) => tokio::time::timeout(Duration::from_millis(ms), attempt).await,
            None => Ok(attempt.await),
        };
        let Ok(attempted) = attempted else {
            // Dropping the request has freed its place on the engine.
            let (engine, ms) = (&lease.member().name, item.engine_deadline_ms.unwrap_or_default());
            let message = format!("engine {engine} had the sample for {ms} ms without ending it");
            return Err(Failure::new(FailureCode::DeadlineExceeded, ENGINE_DEADLINE, message));
        };
        let error = match attempted {
            Ok(Ended::Finished(finish)) => {
                fleet.succeeded(&lease, progress.tokens.len());
                progress.keep();
                return Ok(finish);
            }
            Ok(Ended::Interrupted(PauseSetting::Abort)) => {
                progress.keep();
                return Ok(Finish::Aborted);
            }
            Ok(Ended::Interrupted(_)) => {
                progress.keep();
                if progress.sampled == plan.sampling.max_tokens {
                    return Ok(Finish::Length);
                }
                continue;
            }
            Err(error) => error,
        };
        progress.tokens.clear();
        let engine = lease.member().name.clone();
        match error.blame() {
            Blame::Sample => {
                return Err(Failure::new(
                    FailureCode::InvalidArgument,
                    "ENGINE_REFUSED",
                    format!("engine {engine}: {error}"),
                ));
            }
            Blame::Nobody => {}
            Blame::Engine | Blame::Connection => fleet.failed(&lease, &error),
        }
        if progress.attempts >= settings.max_attempts {
            let message = format!(
                "begun {} times without a sample, the last time on engine {engine}: {error}",
                progress.attempts
            );
            return Err(ServiceError::Unavailable { reason: "ENGINES_FAILED", message }.failure());
        }
        metrics::counter!("evenkeel_sample_retries_total", "kind" => error.kind()).increment(1);
        tracing::debug!(sample_id = item.sample_id, %engine, %error, attempt = progress.attempts, "begun again");
        avoid = Some(lease.engine());
        drop(lease);
        if error.blame() == Blame::Engine {
            progress.waiting = Some(Instant::now());
            tokio::time::sleep(backoff(settings.retry_initial_ms, settings.retry_max_ms, progress.attempts)).await;
            progress.queued += progress.waiting.take().map(|since| since.elapsed()).unwrap_or_default();
        }
        progress.attempts += 1;
    }
}

/// How an attempt ended that did not fail.
enum Ended {
    Finished(Finish),
    /// The engine was paused for other weights: what it has so far holds.
    Interrupted(PauseSetting),
}

async fn attempt(
    fleet: &Fleet,
    item: &GenerateItem,
    plan: &Plan,
    context: &ItemContext,
    lease: &Lease,
    progress: &mut Progress,
) -> Result<Ended, EngineError> {
    let session = lease.session();
    let sampling = remaining(&plan.sampling, progress.sampled);
    let token_ids = so_far(plan, item, progress);
    let request_id = format!("{}#{}", item.sample_id, REQUESTS.fetch_add(1, Ordering::Relaxed));
    let draw = Draw {
        request_id: &request_id,
        token_ids: &token_ids,
        sampling: &sampling,
        cache_salt: &session.target.cache_salt(),
        traceparent: &context.trace.child().to_string(),
        stream: item.keep_partial || fleet.settings.stream == StreamSetting::Always,
    };
    let drawing = lease.member().engine.sample(draw, &mut progress.tokens);
    let drawn = tokio::select! {
        biased;
        drawn = drawing => drawn,
        cut = session.was_cut() => return match (cut, session.pausing()) {
            (Cut::Paused, Some(mode)) => {
                if !fleet.is_confirmed(lease.engine()) {
                    progress.tokens.clear();
                }
                Ok(Ended::Interrupted(mode))
            }
            (Cut::Paused, None) => Err(EngineError::TakenBack { reason: "its engine was paused".to_owned() }),
            (Cut::Lost(reason), _) => Err(EngineError::TakenBack { reason }),
        },
    };
    let Ending { finish, timings } = drawn?;
    fleet.confirm(lease).await?;
    progress.timings = timings;
    match (finish, session.pausing()) {
        (Finish::Aborted, Some(mode @ (PauseSetting::Abort | PauseSetting::Keep))) => Ok(Ended::Interrupted(mode)),
        // Somebody else paused it, or it is about to end.
        (Finish::Aborted, _) => {
            Err(EngineError::answer("finish_reason", "abort", "stop or length, since nobody here aborted"))
        }
        (finish, _) => Ok(Ended::Finished(finish)),
    }
}

/// Prompt and response up to now.
fn so_far<'a>(plan: &'a Plan, item: &GenerateItem, progress: &Progress) -> Cow<'a, [u32]> {
    if progress.sampled == 0 {
        return Cow::Borrowed(&plan.token_ids);
    }
    let mut token_ids = item.prompt_token_ids.clone();
    progress.segments.iter().for_each(|segment| token_ids.extend_from_slice(&segment.token_ids));
    Cow::Owned(token_ids)
}

/// Settings for the rest of a sample of which `sampled` tokens are there.
fn remaining(sampling: &SamplingSettings, sampled: u32) -> SamplingSettings {
    if sampled == 0 {
        return sampling.clone();
    }
    SamplingSettings {
        max_tokens: sampling.max_tokens - sampled,
        min_tokens: sampling.min_tokens.saturating_sub(sampled),
        // The same seed would draw the same random numbers as for the first tokens.
        seed: evenkeel_seeds::seed(sampling.seed, Stream::Continuation { tokens: sampled.into() }),
        ..sampling.clone()
    }
}

fn backoff(initial_ms: u64, max_ms: u64, attempts: u32) -> Duration {
    Duration::from_millis(initial_ms.saturating_mul(1 << (attempts - 1).min(20)).min(max_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_sample_has_its_own_seed_and_what_is_left_of_the_limits() {
        let sampling = SamplingSettings { min_tokens: 3, ..SamplingSettings::plain(10, 7) };
        assert_eq!(remaining(&sampling, 0), sampling);
        let rest = remaining(&sampling, 4);
        assert_eq!((rest.max_tokens, rest.min_tokens), (6, 0));
        assert_ne!(rest.seed, 7);
        assert_eq!(rest.seed, remaining(&sampling, 4).seed);
        assert_ne!(rest.seed, remaining(&sampling, 5).seed);
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses: Vec<u128> = (1..=5).map(|attempts| backoff(50, 300, attempts).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 300, 300]);
        assert_eq!(backoff(50, 300, u32::MAX).as_millis(), 300);
    }
}
