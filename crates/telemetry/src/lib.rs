//! Observability of a process: logs on stderr, metrics for Prometheus, and one trace from prompt to optimizer step.
#![forbid(unsafe_code)]

mod labels;
mod logging;
mod process;
mod prometheus;
mod series;
mod spans;
mod trace;

pub use logging::{LogFormat, TelemetryError, TelemetrySettings, init_logging};
pub use process::{SERIES as PROCESS_SERIES, name_process, process_metrics};
pub use prometheus::{DURATION_BUCKETS_SECONDS, MetricsHandle, install_metrics, metrics_router, on_scrape};
pub use series::{Series, SeriesKind, Values, describe};
pub use spans::{Span, SpansError, SpansGuard, export_spans, record_span, spans_are_wanted};
pub use trace::{TRACEPARENT, TraceContext};
