//! The state of the engines as gauges.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use metrics::{counter, gauge};

use crate::pool::{EnginePool, EngineSnapshot, EngineState};
use crate::series::UPDATE_OUTCOMES;

/// Publishes the state of a pool.
#[derive(Default)]
pub(super) struct Gauges {
    /// Engines that were there the last time.
    engines: BTreeSet<String>,
}

impl Gauges {
    pub(super) fn publish(&mut self, pool: &Arc<EnginePool>) {
        gauge!("evenkeel_generation_waiting_samples").set(pool.waiting() as f64);
        gauge!("evenkeel_generation_asleep").set(f64::from(u8::from(pool.is_sleeping())));
        let mut before = mem::take(&mut self.engines);
        for (engine, snapshot) in pool.snapshot() {
            publish_engine(engine.name(), Some(&snapshot));
            if !before.remove(engine.name()) {
                begin_counters(engine.name());
            }
            self.engines.insert(engine.name().to_owned());
        }
        // An engine that is gone has nothing, in no state.
        before.iter().for_each(|name| publish_engine(name, None));
    }
}

/// Counters of an engine that is new: a rate has no first event without the zero before it.
fn begin_counters(name: &str) {
    for outcome in UPDATE_OUTCOMES {
        counter!("evenkeel_weight_updates_total", "engine" => name.to_owned(), "outcome" => *outcome).increment(0);
    }
}

fn publish_engine(name: &str, snapshot: Option<&EngineSnapshot>) {
    let set = |metric: &'static str, value: f64| gauge!(metric, "engine" => name.to_owned()).set(value);
    for &state in EngineState::ALL {
        let is = snapshot.is_some_and(|snapshot| snapshot.state == state);
        gauge!("evenkeel_engine_state", "engine" => name.to_owned(), "state" => state.label())
            .set(f64::from(u8::from(is)));
    }
    set("evenkeel_engine_in_flight_items", snapshot.map_or(0.0, |snapshot| snapshot.in_flight as f64));
    set("evenkeel_engine_in_flight_tokens", snapshot.map_or(0.0, |snapshot| snapshot.outstanding_tokens as f64));
    set("evenkeel_engine_tokens_per_second", snapshot.map_or(0.0, |snapshot| snapshot.tokens_per_second));
    if let Some(version) = snapshot.and_then(|snapshot| snapshot.reported_version) {
        set("evenkeel_engine_policy_version", version as f64);
    }
    let metrics = snapshot.and_then(|snapshot| snapshot.metrics);
    if metrics.is_some() || snapshot.is_none() {
        let metrics = metrics.unwrap_or_default();
        set("evenkeel_engine_running_requests", metrics.running as f64);
        set("evenkeel_engine_waiting_requests", metrics.waiting as f64);
        set("evenkeel_engine_cache_usage_ratio", metrics.cache_usage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_engine_has_updated_no_weights_and_failed_to_update_none() {
        let metrics = evenkeel_telemetry::install_metrics().unwrap();
        begin_counters("engine-of-this-test:1");
        let text = metrics.render();
        for outcome in ["updated", "failed"] {
            let line =
                format!("evenkeel_weight_updates_total{{engine=\"engine-of-this-test:1\",outcome=\"{outcome}\"}} 0");
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
