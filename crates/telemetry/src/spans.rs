//! Spans for an OpenTelemetry collector: what a trace id that is carried from service to service leads to.
//!
//! Whoever did something hands over when it began and ended; nothing is kept where no collector was named. What the collector cannot
//! take in time is dropped, never waited for.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_otlp::WithExportConfig;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanData, SpanProcessor};

use super::TraceContext;

static COLLECTOR: OnceLock<BatchSpanProcessor> = OnceLock::new();

/// How long the last spans may take to be sent.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Something that was done, as a part of a trace.
#[derive(Debug, Clone)]
pub struct Span {
    /// Its own place.
    pub context: TraceContext,
    /// Where it belongs. `None` where it begins its trace.
    pub parent: Option<TraceContext>,
    /// What was done.
    pub name: &'static str,
    /// When.
    pub began: SystemTime,
    /// Until when.
    pub ended: SystemTime,
    /// What is to be known about it.
    pub attributes: Vec<(&'static str, Value)>,
    /// Why it failed. `None` where it did not.
    pub failure: Option<String>,
}

/// Why there is no collector.
#[derive(Debug, thiserror::Error)]
pub enum SpansError {
    /// The endpoint cannot be one.
    #[error(
        "no spans can be sent to `{endpoint}` (allowed: http://HOST:PORT of an OTLP collector over gRPC): {message}"
    )]
    Endpoint {
        /// What was asked for.
        endpoint: String,
        /// Why not.
        message: String,
    },
    /// It was set up before.
    #[error("a collector for spans was set up before")]
    Again,
}

/// Sends what is left when it goes.
#[derive(Debug)]
#[must_use]
pub struct SpansGuard(());

impl Drop for SpansGuard {
    fn drop(&mut self) {
        if let Some(collector) = COLLECTOR.get()
            && let Err(error) = collector.shutdown_with_timeout(LAST_WORDS)
        {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

/// Sends the spans of this process, which is `service`, to an OTLP collector over gRPC. Once, within a runtime.
///
/// # Errors
/// An endpoint that cannot be one; a second call. A collector that is not there is no error: its spans are dropped.
pub fn export_spans(service: &str, endpoint: &str) -> Result<SpansGuard, SpansError> {
    let refused = |message: String| SpansError::Endpoint { endpoint: endpoint.to_owned(), message };
    if !endpoint.starts_with("http://") {
        return Err(refused("it does not begin with http://".to_owned()));
    }
    let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic().with_endpoint(endpoint).build();
    let mut processor = BatchSpanProcessor::builder(exporter.map_err(|error| refused(error.to_string()))?).build();
    processor.set_resource(&Resource::builder_empty().with_service_name(format!("evenkeel-{service}")).build());
    COLLECTOR.set(processor).map_err(|_| SpansError::Again)?;
    Ok(SpansGuard(()))
}

/// Whether anybody wants spans: making them can be spared otherwise.
pub fn spans_are_wanted() -> bool {
    COLLECTOR.get().is_some()
}

/// Hands a span over.
pub fn record_span(span: Span) {
    let Some(collector) = COLLECTOR.get() else { return };
    let (trace, id) = ids(span.context);
    let attributes = span.attributes.into_iter().map(|(name, value)| KeyValue::new(name, value));
    collector.on_end(SpanData {
        span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::default()),
        parent_span_id: span.parent.map_or(SpanId::INVALID, |parent| ids(parent).1),
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: Cow::Borrowed(span.name),
        start_time: span.began,
        end_time: span.ended,
        attributes: attributes.collect(),
        dropped_attributes_count: 0,
        events: Default::default(),
        links: Default::default(),
        status: span.failure.map_or(Status::Unset, Status::error),
        instrumentation_scope: InstrumentationScope::builder("evenkeel").build(),
    });
}

fn ids(context: TraceContext) -> (TraceId, SpanId) {
    (TraceId::from_bytes(context.trace.get().to_be_bytes()), SpanId::from_bytes(context.span.get().to_be_bytes()))
}
