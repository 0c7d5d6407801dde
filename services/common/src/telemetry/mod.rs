//! What a server says about itself: logs on stderr, metrics for Prometheus, and one trace from prompt to optimizer step.

mod logging;
mod prometheus;
mod trace;

pub use logging::{LogFormat, TelemetryConfig, TelemetryError, init_logging};
pub use prometheus::{DURATION_BUCKETS_SECONDS, MetricsHandle, install_metrics, metrics_router};
pub use trace::{TRACEPARENT, TraceContext};
