//! A step in its trace, with its parts one after the other.

use std::time::{Duration, SystemTime};

use evenkeel_telemetry::{Span, TraceContext, record_span, spans_are_wanted};

use super::step_metrics::StepTimes;

/// Records the span of a warm-start step that ends now.
pub(super) fn record_warm_start_step(
    run_id: &str,
    step: u64,
    policy_version: u64,
    context: TraceContext,
    took: Duration,
) {
    if spans_are_wanted() {
        let ended = SystemTime::now();
        record_span(whole("warm-start step", run_id, step, policy_version, context, (ended - took, ended)));
    }
}

/// Records the spans of a step that ends now. Those of the learner and of calls are its children as well.
pub(super) fn record_step(run_id: &str, step: u64, policy_version: u64, context: TraceContext, times: StepTimes) {
    if !spans_are_wanted() {
        return;
    }
    let ended = SystemTime::now();
    let mut began = ended - times.step;
    record_span(whole("step", run_id, step, policy_version, context, (began, ended)));
    let parts = [
        ("sampling", times.generation),
        ("last verdicts", times.reward),
        ("rest of the training", times.update_actor),
        ("weight update", times.update_weights),
    ];
    for (name, took) in parts.into_iter().filter(|(_, took)| *took > Duration::ZERO) {
        record_span(Span::new(name, context.child(), began, began + took).within(context));
        began += took;
    }
}

fn whole(
    name: &'static str,
    run_id: &str,
    step: u64,
    policy_version: u64,
    context: TraceContext,
    (began, ended): (SystemTime, SystemTime),
) -> Span {
    Span::new(name, context, began, ended)
        .with("run", run_id.to_owned())
        .with("step", step as i64)
        .with("policy_version", policy_version as i64)
}
