//! Spans of finished operations, in the traces whose ids are passed between services.
//!
//! A span is recorded when it has ended, with its begin and end times. Where nobody takes spans nothing is kept.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::SystemTime;

use super::TraceContext;

type Taking = Box<dyn Fn(Span) + Send + Sync>;

static TAKING: OnceLock<Taking> = OnceLock::new();

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum SpanValue {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl From<bool> for SpanValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for SpanValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for SpanValue {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<String> for SpanValue {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for SpanValue {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

/// A finished operation, as part of a trace.
#[derive(Debug, Clone)]
pub struct Span {
    /// Trace of the span, and its own id.
    pub context: TraceContext,
    /// The parent span. `None` for the first of a trace.
    pub parent: Option<TraceContext>,
    pub name: Cow<'static, str>,
    pub began: SystemTime,
    pub ended: SystemTime,
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// Linked spans of other traces: the prompts of a gradient, the step of a prompt.
    pub links: Vec<TraceContext>,
    /// Why the operation failed. `None` for success.
    pub failure: Option<String>,
}

impl Span {
    /// A span that succeeded, the first of its trace.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        context: TraceContext,
        began: SystemTime,
        ended: SystemTime,
    ) -> Self {
        let attributes = Vec::new();
        let links = Vec::new();
        Self { context, parent: None, name: name.into(), began, ended, attributes, links, failure: None }
    }

    /// Puts the span within another one.
    #[must_use]
    pub fn within(self, parent: impl Into<Option<TraceContext>>) -> Self {
        Self { parent: parent.into(), ..self }
    }

    /// Adds an attribute to the span.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<SpanValue>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    /// Adds links to other spans.
    #[must_use]
    pub fn linked(self, links: impl IntoIterator<Item = TraceContext>) -> Self {
        Self { links: links.into_iter().collect(), ..self }
    }

    /// Marks the span as failed for that reason, if there is one.
    #[must_use]
    pub fn failed(self, failure: Option<String>) -> Self {
        Self { failure, ..self }
    }
}

/// Has `take` get all spans of this process from now on. It must be fast. False if something else has them already.
pub fn take_spans(take: impl Fn(Span) + Send + Sync + 'static) -> bool {
    TAKING.set(Box::new(take)).is_ok()
}

/// Whether anybody takes spans. Otherwise callers need not build them.
pub fn spans_are_wanted() -> bool {
    TAKING.get().is_some()
}

/// Gives a span to the function that takes spans, if one is set.
pub fn record_span(span: Span) {
    if let Some(take) = TAKING.get() {
        take(span);
    }
}
