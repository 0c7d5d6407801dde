//! The verification of a sample in its trace.

use std::time::{Duration, SystemTime};

use evenkeel_proto::Label;
use evenkeel_proto::v1::Verdict;
use evenkeel_rpc::items::ItemContext;
use evenkeel_telemetry::{Span, record_span, spans_are_wanted};

/// Records the span of a verdict that was reached now, after judging for `elapsed`. It begins with the wait in the
/// queue.
pub(crate) fn record_span_of(task: &'static str, verdict: &Verdict, context: &ItemContext, elapsed: Duration) {
    if !spans_are_wanted() {
        return;
    }
    let ended = SystemTime::now();
    let began = ended - elapsed;
    let whole = Span::new("verify", context.trace, began - context.queued, ended)
        .within(context.parent)
        .with("id", verdict.id.clone())
        .with("task", task)
        .with("outcome", verdict.outcome().label())
        .with("reason", verdict.reason_code.clone());
    record_span(whole);
    record_span(Span::new("judge", context.trace.child(), began, ended).within(context.trace));
}
