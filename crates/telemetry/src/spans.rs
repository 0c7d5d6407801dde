//! Spans for an OpenTelemetry collector, in the traces whose ids are passed between services.
//!
//! A span is recorded when it has ended, with its begin and end times. Without a collector nothing is kept. Spans that
//! the collector does not accept in time are dropped.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{Link, SpanId, SpanKind, Status};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanLinks, SpanProcessor};

use super::TraceContext;

static COLLECTOR: OnceLock<BatchSpanProcessor> = OnceLock::new();

/// How long sending the last spans may take.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Spans that wait to be sent; further ones are dropped. The spans of a step's samples may end within a second.
const MAX_WAITING: usize = 1 << 14;

/// A finished operation, as part of a trace.
#[derive(Debug, Clone)]
pub struct Span {
    /// Its trace and its own id.
    pub context: TraceContext,
    /// The parent span. `None` for the first of a trace.
    pub parent: Option<TraceContext>,
    pub name: Cow<'static, str>,
    pub began: SystemTime,
    pub ended: SystemTime,
    pub attributes: Vec<(&'static str, Value)>,
    /// Spans of other traces that belong to it: the prompts of a gradient, the step of a prompt.
    pub links: Vec<TraceContext>,
    /// Why it failed. `None` for success.
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

    /// The same within another one.
    #[must_use]
    pub fn within(self, parent: impl Into<Option<TraceContext>>) -> Self {
        Self { parent: parent.into(), ..self }
    }

    /// The same with an attribute.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.attributes.push((name, value.into()));
        self
    }

    /// The same with links to these.
    #[must_use]
    pub fn linked(self, links: impl IntoIterator<Item = TraceContext>) -> Self {
        Self { links: links.into_iter().collect(), ..self }
    }

    /// The same, failed for that reason if there is one.
    #[must_use]
    pub fn failed(self, failure: Option<String>) -> Self {
        Self { failure, ..self }
    }
}

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum SpansError {
    /// The endpoint is not a URL of a collector.
    #[error(
        "spans cannot be sent to `{endpoint}` (allowed: http://HOST:PORT of an OTLP collector over gRPC): {message}"
    )]
    Endpoint { endpoint: String, message: String },
    /// Exporting is already set up.
    #[error("a collector for spans is already set up")]
    Again,
}

/// Flushes the remaining spans when dropped.
#[derive(Debug)]
#[must_use]
pub struct SpansGuard(());

impl Drop for SpansGuard {
    fn drop(&mut self) {
        if let Some(collector) = COLLECTOR.get()
            && let Err(error) = collector.shutdown_with_timeout(FLUSH_TIMEOUT)
        {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

/// Exports the spans of this process, as service `evenkeel-SERVICE`, to an OTLP collector over gRPC. Call it once,
/// within a tokio runtime.
///
/// # Errors
/// A malformed endpoint; a second call. An unreachable collector is no error: its spans are dropped.
pub fn export_spans(service: &str, endpoint: &str) -> Result<SpansGuard, SpansError> {
    let refused = |message: String| SpansError::Endpoint { endpoint: endpoint.to_owned(), message };
    if !endpoint.starts_with("http://") {
        return Err(refused("it does not begin with http://".to_owned()));
    }
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
    let batches = BatchConfigBuilder::default().with_max_queue_size(MAX_WAITING).build();
    let processor = BatchSpanProcessor::builder(exporter.map_err(|error| refused(error.to_string()))?);
    let mut processor = processor.with_batch_config(batches).build();
    processor.set_resource(&Resource::builder_empty().with_service_name(format!("evenkeel-{service}")).build());
    COLLECTOR.set(processor).map_err(|_| SpansError::Again)?;
    Ok(SpansGuard(()))
}

/// Whether spans are exported. Otherwise callers need not build them.
pub fn spans_are_wanted() -> bool {
    COLLECTOR.get().is_some()
}

pub fn record_span(span: Span) {
    let Some(collector) = COLLECTOR.get() else { return };
    let attributes = span.attributes.into_iter().map(|(name, value)| KeyValue::new(name, value));
    let mut links = SpanLinks::default();
    links.links.extend(span.links.into_iter().map(|to| Link::new(to.span_context(), Vec::new(), 0)));
    collector.on_end(SpanData {
        span_context: span.context.span_context(),
        parent_span_id: span.parent.map_or(SpanId::INVALID, |parent| parent.span_context().span_id()),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: span.name,
        start_time: span.began,
        end_time: span.ended,
        attributes: attributes.collect(),
        dropped_attributes_count: 0,
        events: Default::default(),
        links,
        status: span.failure.map_or(Status::Unset, Status::error),
        instrumentation_scope: InstrumentationScope::builder("evenkeel").build(),
    });
}
