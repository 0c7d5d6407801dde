//! A prompt in its trace, from its first sample to the step that trains on it.

use std::time::SystemTime;

use evenkeel_proto::Label;
use evenkeel_telemetry::{Span, TraceContext, record_span, spans_are_wanted};

use super::group_request::GroupRequest;
use super::sample::Sample;
use super::sampled_group::SampledGroup;

/// The trace of a prompt: the span that those of its samples are children of.
pub(super) fn trace_of_prompt(run_id: &str, request: &GroupRequest) -> TraceContext {
    TraceContext::for_id(run_id, &request.id.to_string())
}

/// Records the span of a sample that ends now, as a child of its prompt's.
pub(super) fn record_sample(sample: &Sample, prompt: TraceContext, context: TraceContext, began: SystemTime) {
    if !spans_are_wanted() {
        return;
    }
    let mut span = Span::new("sample", context, began, SystemTime::now())
        .within(prompt)
        .with("sample_id", sample.id.clone())
        .with("verdict", sample.verdict())
        .with("tokens", sample.tokens as i64)
        .with("finish_reason", sample.finish_reason.label())
        .failed(sample.failure().map(str::to_owned));
    if let Some(rewards) = sample.rewards() {
        span = span.with("reward", rewards.raw);
    }
    record_span(span);
}

/// Records the span of a prompt whose samples are finished. It links to the step that trained on it: `None` where none
/// did.
pub(crate) fn record_prompt(run_id: &str, group: &SampledGroup, step: Option<TraceContext>) {
    if !spans_are_wanted() {
        return;
    }
    let request = group.request();
    let (began, ended) = group.sampled();
    let correct = group.samples().iter().filter(|sample| sample.correct() == Some(true)).count();
    let span = Span::new("prompt", trace_of_prompt(run_id, request), began, ended)
        .with("run", run_id.to_owned())
        .with("group_id", request.id.to_string())
        .with("step", request.id.step as i64)
        .with("data_source", group.data_source().to_owned())
        .with("samples", group.samples().len() as i64)
        .with("correct", correct as i64)
        .with("trained", step.is_some());
    record_span(span.linked(step));
}
