//! Looks after every engine: is it alive, has it the right weights, may it come back. What has the wrong weights is given the right
//! ones.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_rpc::deadline::Deadline;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Control, Fleet, Standing};
use crate::engine::EngineError;
use crate::settings::PauseSetting;
use crate::weights::{Switch, Target, parse, switch};

/// Broken connections in a row after which an engine is lost: the first may be an old one that the engine closed.
const BROKEN: u32 = 2;
/// How often the fleet as a whole is looked at.
const FLEET_INTERVAL: Duration = Duration::from_millis(200);

/// Looks after one engine until `stop`.
pub(crate) fn look_after(fleet: &Arc<Fleet>, engine: usize, stop: &CancellationToken) {
    let (fleet, stop) = (Arc::clone(fleet), stop.clone());
    tokio::spawn(async move { stop.run_until_cancelled(keep(&fleet, engine)).await });
}

/// Looks after the fleet as a whole until `stop`.
pub(crate) fn watch(fleet: &Arc<Fleet>, stop: &CancellationToken) {
    let (fleet, stop) = (Arc::clone(fleet), stop.clone());
    tokio::spawn(async move {
        let look = async {
            let mut ticks = tokio::time::interval(FLEET_INTERVAL);
            loop {
                ticks.tick().await;
                fleet.expire();
                record(&fleet);
            }
        };
        stop.run_until_cancelled(look).await
    });
}

async fn keep(fleet: &Fleet, engine: usize) {
    let mut pause = Duration::from_millis(fleet.engine_settings().health_interval_ms);
    let member = fleet.member(engine);
    loop {
        tokio::select! {
            () = member.kick.notified() => {}
            // One that has left is asked nothing until its address is back.
            () = tokio::time::sleep(pause), if !fleet.has_left(engine) => {}
        }
        pause = examine(fleet, engine).await;
    }
}

/// Looks at an engine once and says when to look again.
async fn examine(fleet: &Fleet, engine: usize) -> Duration {
    let settings = fleet.engine_settings();
    let usual = Duration::from_millis(settings.health_interval_ms);
    let member = fleet.member(engine);
    // Somebody changes its weights just now and will say how it went.
    let Ok(mut control) = member.control.try_lock() else { return usual };
    match look(fleet, engine, &mut control).await {
        Ok(()) => {
            (control.unanswered, control.attempts) = (0, 0);
            usual
        }
        Err(error) => {
            control.unanswered = control.unanswered.saturating_add(1);
            let patience = match &error {
                EngineError::Transport { .. } => BROKEN,
                EngineError::Timeout { .. } => settings.health_failures,
                // It says clearly that it cannot.
                _ => 1,
            };
            if control.unanswered >= patience {
                give_up(fleet, engine, &mut control, &error);
            }
            let doubled = settings.probe_initial_ms.saturating_mul(1 << control.attempts.min(20));
            control.attempts = control.attempts.saturating_add(1);
            Duration::from_millis(doubled.min(settings.probe_max_ms))
        }
    }
}

fn give_up(fleet: &Fleet, engine: usize, control: &mut Control, error: &EngineError) {
    let (standing, _) = fleet.standing(engine);
    if standing == Standing::Leaving && matches!(error, EngineError::Transport { .. }) {
        // A server that ends takes no new connections, and still finishes what it has.
        return;
    }
    if standing.is_usable() {
        tracing::warn!(engine = fleet.member(engine).name, %error, "engine given up");
    }
    // Where it does not say what its weights are, nobody knows what it comes back with.
    control.applied = None;
    let standing = if standing == Standing::Stale { Standing::Stale } else { Standing::Open };
    fleet.lose(engine, standing, &error.to_string());
}

async fn look(fleet: &Fleet, engine: usize, control: &mut Control) -> Result<(), EngineError> {
    let member = fleet.member(engine);
    fleet.adopt(engine).await?;
    if !control.looked && member.info.get().is_some_and(|info| info.found_paused) {
        control.tainted = true;
    }
    control.looked = true;
    let connections = member.engine.connections();
    member.engine.health().await?;
    let says = member.engine.weights().await?;
    let max_waiting = fleet.engine_settings().max_waiting;
    if max_waiting > 0 {
        // An engine without metrics, or with ones that cannot be read now, is bounded by `max_in_flight` alone.
        let demand = member.engine.demand().await.ok().flatten();
        fleet.hears(engine, demand, max_waiting.into());
    }
    let (standing, target) = fleet.standing(engine);
    if matches!(standing, Standing::Paused | Standing::Leaving) {
        return Ok(());
    }
    if fleet.rests() {
        // Asleep until somebody says otherwise.
        return Ok(());
    }
    if control.has(&target, says.as_deref()) {
        member.wake(control).await?;
        fleet.confirmed_up_to(engine, connections);
        if !standing.is_usable() {
            bring_back(fleet, engine, &target).await;
        }
        return Ok(());
    }
    fleet.heard(engine, says.as_deref().and_then(parse).map(|(version, _)| version));
    if standing != Standing::Stale {
        let expected = target.label.as_deref().unwrap_or("those that it began with").to_owned();
        let error = EngineError::Weights { says: says.unwrap_or_default(), expected };
        tracing::warn!(engine = member.name, %error, "engine is stale");
        fleet.lose(engine, Standing::Stale, &error.to_string());
    }
    if target.path.is_empty() {
        // What the engines began with cannot be given; the next update can.
        return Ok(());
    }
    let plan = Switch {
        target: Arc::clone(&target),
        mode: PauseSetting::Abort,
        clear_cache: true,
        deadline: Deadline::after(Duration::from_millis(fleet.settings.weights.update_timeout_ms)),
    };
    let report = switch(fleet, engine, control, &plan).await;
    match report.failure {
        None => Ok(()),
        Some(failure) => Err(EngineError::TakenBack { reason: failure.to_string() }),
    }
}

/// A living engine with the right weights may sample again, on probation. One that failed at its samples has to draw one first.
async fn bring_back(fleet: &Fleet, engine: usize, target: &Target) {
    let member = fleet.member(engine);
    let (must_prove, resting) = fleet.proof(engine);
    if must_prove {
        if resting.is_some_and(|until| until > Instant::now()) {
            return;
        }
        // A busy engine may let it wait: that is no reason to take back what it has.
        if let Err(error) = member.engine.samples().await {
            tracing::debug!(engine = member.name, %error, "engine does not sample yet");
            return;
        }
    }
    fleet.admit(engine, Standing::Suspect, target);
    tracing::info!(engine = member.name, "engine is back");
}

/// The fleet's gauges.
fn record(fleet: &Fleet) {
    for (member, seat) in fleet.lines() {
        let gauge = |name: &'static str, value: f64| metrics::gauge!(name, "engine" => member.name.clone()).set(value);
        gauge("evenkeel_engine_in_flight_items", seat.in_flight as f64);
        gauge("evenkeel_engine_in_flight_tokens", seat.tokens as f64);
        gauge("evenkeel_engine_tokens_per_second", seat.tokens_per_second);
        if let Some(demand) = seat.demand {
            gauge("evenkeel_engine_running_requests", demand.running as f64);
            gauge("evenkeel_engine_waiting_requests", demand.waiting as f64);
            gauge("evenkeel_engine_cache_usage", demand.cache_usage);
        }
        gauge("evenkeel_engine_usable", f64::from(u8::from(seat.standing.is_usable())));
        gauge("evenkeel_engine_stale", f64::from(u8::from(seat.standing == Standing::Stale)));
    }
}
