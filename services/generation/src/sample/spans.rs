//! The generation of a sample in its trace: its wait in this service, and its phases in the engine.

use std::time::{Duration, SystemTime};

use evenkeel_proto::Label;
use evenkeel_proto::v1::Rollout;
use evenkeel_telemetry::{Span, TraceContext, record_span, spans_are_wanted};

/// Records the spans of a generation that ends now. `context` is its own, `parent` the one that its item named.
pub(super) fn record_spans(rollout: &Rollout, context: TraceContext, parent: Option<TraceContext>) {
    if spans_are_wanted() {
        spans(rollout, context, parent, SystemTime::now()).into_iter().for_each(record_span);
    }
}

/// The whole, followed by its phases as children: the last phase ends with it.
fn spans(rollout: &Rollout, context: TraceContext, parent: Option<TraceContext>, ended: SystemTime) -> Vec<Span> {
    let timings = rollout.timings.unwrap_or_default();
    let began = ended - Duration::from_micros(timings.total_us);
    let tokens: usize = rollout.segments.iter().map(|segment| segment.token_ids.len()).sum();
    let failure = rollout.failure.as_ref().map(|failure| format!("{}: {}", failure.reason, failure.message));
    let mut whole = Span::new("generate", context, began, ended)
        .within(parent)
        .with("sample_id", rollout.sample_id.clone())
        .with("group_id", rollout.group_id.clone())
        .with("engine", rollout.engine.clone())
        .with("attempts", i64::from(rollout.attempts))
        .with("tokens", tokens as i64)
        .with("finish_reason", rollout.finish_reason().label())
        .failed(failure);
    if let Some(version) = rollout.segments.last().and_then(|segment| segment.policy_version) {
        whole = whole.with("policy_version", version as i64);
    }
    let part = |name, began, ended| Span::new(name, context.child(), began, ended).within(context);
    let mut spans = vec![whole];
    if timings.queue_us > 0 {
        spans.push(part("queue", began, began + Duration::from_micros(timings.queue_us)));
    }
    // Engines report durations, not times: the phases end with the generation, in this order.
    let mut until = ended;
    for (name, took_us) in
        [("decode", timings.decode_us), ("prefill", timings.prefill_us), ("engine queue", timings.engine_queue_us)]
    {
        if took_us > 0 {
            let since = until - Duration::from_micros(took_us);
            spans.push(part(name, since, until));
            until = since;
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{FinishReason, GenerationTimings};

    use super::*;

    fn names(timings: GenerationTimings) -> Vec<(String, u128, u128)> {
        let rollout = Rollout {
            sample_id: "a".into(),
            finish_reason: FinishReason::Stop.into(),
            timings: Some(timings),
            ..Rollout::default()
        };
        let parent = TraceContext::root();
        let ended = SystemTime::now();
        let context = parent.child();
        let spans = spans(&rollout, context, Some(parent), ended);
        assert_eq!((spans[0].parent, spans[0].context), (Some(parent), context));
        assert!(
            spans[1..].iter().all(|span| span.parent == Some(context) && span.context.trace_id() == parent.trace_id())
        );
        let since = |at: SystemTime| at.duration_since(spans[0].began).unwrap().as_micros();
        spans.iter().map(|span| (span.name.to_string(), since(span.began), since(span.ended))).collect()
    }

    #[test]
    fn a_generation_has_a_span_for_each_known_phase() {
        let timings =
            GenerationTimings { queue_us: 10, engine_queue_us: 20, prefill_us: 30, decode_us: 40, total_us: 110 };
        let expected = [
            ("generate", 0, 110),
            ("queue", 0, 10),
            ("decode", 70, 110),
            ("prefill", 40, 70),
            ("engine queue", 20, 40),
        ];
        assert_eq!(names(timings), expected.map(|(name, began, ended)| (name.to_owned(), began, ended)));
    }

    #[test]
    fn a_phase_that_the_engine_does_not_report_has_no_span() {
        assert_eq!(
            names(GenerationTimings { total_us: 50, ..GenerationTimings::default() }),
            [("generate".to_owned(), 0, 50)]
        );
    }
}
