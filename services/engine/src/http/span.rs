//! A request in the trace of its sample.

use std::time::SystemTime;

use evenkeel_telemetry::{Span, TraceContext, record_span, spans_are_wanted};

/// Records the span of a request when it is dropped.
pub(super) struct RequestSpan {
    parent: TraceContext,
    id: String,
    began: SystemTime,
    prompts: usize,
    samples: usize,
}

impl RequestSpan {
    /// A request that begins now, of a caller with that context. `None` where it has none, or where spans are not
    /// exported.
    pub(super) fn begin(parent: Option<TraceContext>, id: &str, prompts: usize, samples: usize) -> Option<Self> {
        let parent = parent.filter(|_| spans_are_wanted())?;
        Some(Self { parent, id: id.to_owned(), began: SystemTime::now(), prompts, samples })
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        let span = Span::new("completion", self.parent.child(), self.began, SystemTime::now()).within(self.parent);
        let span = span.with("id", std::mem::take(&mut self.id));
        record_span(span.with("prompts", self.prompts as i64).with("samples", self.samples as i64));
    }
}
