//! One engine from one set of weights to another. In this order: its samples come back, it is paused, loads, says what it has, is
//! believed or not, and samples again. It samples again in the end whatever failed; only then it gets no samples.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::error::ServiceError;
use tokio::time::Instant;

use super::target::{Target, parse};
use crate::engine::{Engine, EngineError, EnginePause, Wake};
use crate::fleet::{Control, Cut, Fleet, Standing};
use crate::settings::PauseSetting;

/// How often an engine is told to sample again before it is left alone.
const RESUME_ATTEMPTS: u32 = 4;
/// Pause between two of them.
const RESUME_PAUSE: Duration = Duration::from_millis(100);

/// What is to be done.
#[derive(Debug, Clone)]
pub(crate) struct Switch {
    pub(crate) target: Arc<Target>,
    pub(crate) mode: PauseSetting,
    pub(crate) clear_cache: bool,
    pub(crate) deadline: Deadline,
}

/// What became of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// The version that the engine says to have in the end.
    pub(crate) version: Option<u64>,
    /// It samples again.
    pub(crate) resumed: bool,
    /// `None` where it has the new weights.
    pub(crate) failure: Option<ServiceError>,
    pub(crate) paused: Duration,
    pub(crate) load: Duration,
}

/// Does it. The caller holds the engine's control.
pub(crate) async fn switch(fleet: &Fleet, engine: usize, control: &mut Control, plan: &Switch) -> Report {
    let member = fleet.member(engine);
    fleet.session(engine).begin_pause(plan.mode);
    let mut report = Report::default();
    let mut begun = Instant::now();
    let steps = steps(fleet, engine, control, plan, &mut report, &mut begun);
    let result = match plan.deadline.run(steps).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(ServiceError::Unavailable { reason: "ENGINE_FAILED", message: error.to_string() }),
        Err(deadline) => Err(deadline),
    };
    let resumed = match member.wake(control).await {
        Ok(()) => resume(&*member.engine).await,
        Err(error) => Err(error),
    };
    report.resumed = resumed.is_ok();
    report.paused = begun.elapsed();
    let failed_to_resume =
        resumed.map_err(|error| ServiceError::Unavailable { reason: "NOT_RESUMED", message: error.to_string() });
    match result.and(failed_to_resume) {
        Ok(()) => {
            control.applied = Some(Arc::clone(&plan.target));
            (control.tainted, control.looked) = (false, true);
            report.version = Some(plan.target.version);
            fleet.admit(engine, Standing::Healthy, &plan.target);
            tracing::info!(
                engine = member.name,
                version = plan.target.version,
                load_ms = report.load.as_millis() as u64,
                "weights changed"
            );
        }
        Err(failure) => {
            control.applied = None;
            fleet.lose(engine, Standing::Stale, &format!("weights not changed: {failure}"));
            report.version = said(&*member.engine).await;
            tracing::warn!(engine = member.name, version = plan.target.version, %failure, "weights not changed");
            report.failure = Some(failure);
        }
    }
    let outcome = if report.failure.is_none() { "updated" } else { "failed" };
    metrics::counter!("evenkeel_weight_updates_total", "engine" => member.name.clone(), "outcome" => outcome)
        .increment(1);
    metrics::histogram!("evenkeel_weight_update_paused_seconds", "engine" => member.name.clone()).record(report.paused);
    report
}

async fn steps(
    fleet: &Fleet,
    engine: usize,
    control: &mut Control,
    plan: &Switch,
    report: &mut Report,
    begun: &mut Instant,
) -> Result<(), EngineError> {
    let member = fleet.member(engine);
    let target = &plan.target;
    let dies = dies(fleet, engine);
    let stop = async {
        if plan.mode == PauseSetting::Wait {
            fleet.idle(engine).await;
        }
        *begun = Instant::now();
        // Samples that go on under new weights are aborted as well: what they have comes back, and is continued as a new request.
        let mode = if plan.mode == PauseSetting::Wait { EnginePause::Wait } else { EnginePause::Abort };
        member.engine.pause(mode, plan.clear_cache).await
    };
    if control.asleep.is_some() {
        // It has no sample, and takes none. Its cache stays away until the weights are there.
        member.engine.wake(Wake::Weights).await?;
        control.asleep = Some(Wake::Cache);
    } else {
        tokio::select! {
            stopped = stop => stopped?,
            error = dies => return Err(error),
        }
    }
    let settle = Duration::from_millis(fleet.settings.weights.settle_ms);
    if tokio::time::timeout(settle, fleet.idle(engine)).await.is_err() {
        // Requests that reached it only after the pause wait there for its end.
        fleet.session(engine).cut(Cut::Paused);
        fleet.idle(engine).await;
    }
    let loading = Instant::now();
    control.tainted = true;
    member.engine.load(&target.path).await?;
    report.load = loading.elapsed();
    let label = target.label.as_deref().unwrap_or_default();
    if member.engine.name_weights(label).await? {
        let says = member.engine.weights().await?;
        if says.is_some() && !target.is(says.as_deref()) {
            return Err(EngineError::Weights { says: says.unwrap_or_default(), expected: label.to_owned() });
        }
    }
    Ok(())
}

/// Ends with an error once the engine has left too many questions unanswered. Nobody else asks while its control is held.
pub(super) async fn dies(fleet: &Fleet, engine: usize) -> EngineError {
    let (settings, member) = (fleet.engine_settings(), fleet.member(engine));
    let mut unanswered = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(settings.health_interval_ms)).await;
        match member.engine.health().await {
            Ok(()) => unanswered = 0,
            Err(error) => {
                unanswered += 1;
                if unanswered >= settings.health_failures {
                    return error;
                }
            }
        }
    }
}

/// Has its own time: it is done also where the deadline has passed.
async fn resume(engine: &dyn Engine) -> Result<(), EngineError> {
    let mut attempt = 1;
    loop {
        match engine.resume().await {
            Ok(()) => return Ok(()),
            Err(error) if attempt == RESUME_ATTEMPTS || error.is_missing_route() => return Err(error),
            Err(error) => tracing::debug!(engine = engine.endpoint(), %error, attempt, "not resumed"),
        }
        attempt += 1;
        tokio::time::sleep(RESUME_PAUSE).await;
    }
}

/// The version that an engine says to have. `None` where it does not say or does not answer.
async fn said(engine: &dyn Engine) -> Option<u64> {
    let label = engine.weights().await.ok()??;
    parse(&label).map(|(version, _)| version)
}
