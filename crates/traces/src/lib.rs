//! Sends the spans of this process to an OpenTelemetry collector. Only programs that are to trace need this crate: the
//! services record spans with `evenkeel-telemetry`, which keeps none where nobody takes them.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use evenkeel_errors::shown::without_credentials;
use evenkeel_telemetry::{Span, SpanValue, TraceContext, take_spans};
use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanLinks, SpanProcessor};

/// How long sending the last spans may take.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Spans that wait to be sent; further ones are dropped. The spans of a step's samples may end within a second.
const MAX_WAITING: usize = 1 << 14;

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum SpansError {
    /// The endpoint is not a URL of a collector. It is shown without a name and password.
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
pub struct SpansGuard(Arc<BatchSpanProcessor>);

impl Drop for SpansGuard {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown_with_timeout(FLUSH_TIMEOUT) {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

/// Exports the spans of this process, as service `evenkeel-SERVICE`, to an OTLP collector over gRPC. Call it once,
/// within a tokio runtime. Spans that the collector does not accept in time are dropped.
///
/// # Errors
/// A malformed endpoint; a second call. An unreachable collector is no error: its spans are dropped.
pub fn export_spans(service: &str, endpoint: &str) -> Result<SpansGuard, SpansError> {
    let refused = |message: String| SpansError::Endpoint { endpoint: endpoint.to_owned(), message };
    if without_credentials(endpoint) != endpoint || (!endpoint.contains("://") && endpoint.contains('@')) {
        let message = "a name and password in it would not be sent; use the variable OTEL_EXPORTER_OTLP_HEADERS";
        return Err(SpansError::Endpoint { endpoint: "http://***@...".to_owned(), message: message.to_owned() });
    }
    if !endpoint.starts_with("http://") {
        return Err(refused("it does not begin with http://".to_owned()));
    }
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
    let batches = BatchConfigBuilder::default().with_max_queue_size(MAX_WAITING).build();
    let processor = BatchSpanProcessor::builder(exporter.map_err(|error| refused(error.to_string()))?);
    let mut processor = processor.with_batch_config(batches).build();
    processor.set_resource(&Resource::builder_empty().with_service_name(format!("evenkeel-{service}")).build());
    let processor = Arc::new(processor);
    let collector = Arc::clone(&processor);
    if take_spans(move |span| collector.on_end(span_data(span))) {
        Ok(SpansGuard(processor))
    } else {
        Err(SpansError::Again)
    }
}

fn span_data(span: Span) -> SpanData {
    let attributes = span.attributes.into_iter().map(|(name, value)| KeyValue::new(name, attribute(value)));
    let mut links = SpanLinks::default();
    links.links.extend(span.links.into_iter().map(|to| Link::new(span_context(to), Vec::new(), 0)));
    SpanData {
        span_context: span_context(span.context),
        parent_span_id: span.parent.map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.span_bytes())),
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
    }
}

fn attribute(value: SpanValue) -> Value {
    match value {
        SpanValue::Bool(value) => value.into(),
        SpanValue::Int(value) => value.into(),
        SpanValue::Float(value) => value.into(),
        SpanValue::Text(value) => value.into(),
    }
}

fn span_context(context: TraceContext) -> SpanContext {
    let trace = TraceId::from_bytes(context.trace_bytes());
    let span = SpanId::from_bytes(context.span_bytes());
    let flags = if context.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
    SpanContext::new(trace, span, flags, false, TraceState::default())
}
