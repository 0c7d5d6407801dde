//! Ids of requests to engines.

use evenkeel_telemetry::TraceContext;

/// A random id of a request to an engine, 32 hex digits. An engine that could tell training, evaluation and proof
/// apart by it could behave in those that are checked; this service's log says what each id is for.
pub(crate) fn opaque_request_id() -> String {
    TraceContext::root().trace_id()
}
