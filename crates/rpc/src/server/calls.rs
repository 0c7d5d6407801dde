//! The layer around every call: trace context, metrics, limits on received messages, and the end of streams that never
//! end by themselves.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use metrics::Gauge;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::Instrument;

use super::connections::{CallGuard, ConnectionHandle};
use super::receive::ReceivingBody;
use super::schema::Schema;
use crate::BoxFuture;
use crate::admission::Admission;
use crate::error::ServiceError;
use crate::peer::ClientId;
use evenkeel_telemetry::{Span, TRACEPARENT, TraceContext, record_span, spans_are_wanted};

/// Built-in services whose streams never end by themselves: a health watcher would delay every drain.
const ENDLESS_PREFIXES: [&str; 2] = ["/grpc.health.v1.", "/grpc.reflection.v1"];

/// Also served on health-only connections.
const HEALTH_PREFIX: &str = "/grpc.health.v1.";

#[derive(Debug, Clone)]
pub(super) struct CallLayer {
    /// Ends endless streams.
    pub(super) draining: CancellationToken,
    /// Memory of messages being received.
    pub(super) receiving: Admission,
    /// Largest decoded size of a message in bytes.
    pub(super) max_decoded: u64,
    /// Time limit of a message, from its first byte to its last.
    pub(super) message_timeout: Duration,
}

impl<S> Layer<S> for CallLayer {
    type Service = CallService<S>;

    fn layer(&self, inner: S) -> CallService<S> {
        CallService { inner, layer: self.clone() }
    }
}

#[derive(Debug, Clone)]
pub(super) struct CallService<S> {
    inner: S,
    layer: CallLayer,
}

impl<S> Service<Request<Body>> for CallService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let endless = ENDLESS_PREFIXES.iter().any(|prefix| path.starts_with(prefix));
        let abort = endless.then(|| Box::pin(self.layer.draining.clone().cancelled_owned()));
        let mut record = CallRecord::start(path.trim_start_matches('/'));
        let connection = request.extensions().get::<ConnectionHandle>();
        record.call = connection.map(ConnectionHandle::call);
        if connection.is_some_and(ConnectionHandle::is_health_only) && !path.starts_with(HEALTH_PREFIX) {
            let status = Status::from(ServiceError::ConnectionsFull);
            record.code = Some(status.code());
            return Box::pin(std::future::ready(Ok(status.into_http())));
        }
        let client = connection.map_or_else(ClientId::anonymous, ConnectionHandle::client);
        let given =
            request.headers().get(TRACEPARENT).and_then(|value| value.to_str().ok()?.parse::<TraceContext>().ok());
        let context = given.map_or_else(TraceContext::root, TraceContext::child);
        record.span = given.filter(|_| spans_are_wanted()).map(|parent| (parent, context, SystemTime::now()));
        let span = tracing::info_span!("call", method = %record.method, trace_id = %context.trace_id());
        let held = self.layer.receiving.empty(client);
        let max_decoded = self.layer.max_decoded;
        let timeout = self.layer.message_timeout;
        let request =
            request.map(|body| Body::new(ReceivingBody::new(body, &record.method, held, max_decoded, timeout)));
        let response = client.scope(context.scope(self.inner.call(request))).instrument(span);
        Box::pin(async move {
            let response = response.await?;
            Ok(response.map_with_headers(|headers, body| {
                let mut record = record;
                // An error without a body is in the headers.
                record.read_status(headers);
                Body::new(ObservedBody { body, record, abort })
            }))
        })
    }
}

trait MapWithHeaders {
    fn map_with_headers(self, map: impl FnOnce(&HeaderMap, Body) -> Body) -> Self;
}

impl MapWithHeaders for Response<Body> {
    fn map_with_headers(self, map: impl FnOnce(&HeaderMap, Body) -> Body) -> Self {
        let (parts, body) = self.into_parts();
        let body = map(&parts.headers, body);
        Self::from_parts(parts, body)
    }
}

/// What is recorded of a call, at the latest when it is dropped.
struct CallRecord {
    method: String,
    started: Instant,
    in_flight: Gauge,
    /// The status, once it was seen. A call that is dropped before was cancelled by its client.
    code: Option<Code>,
    /// Keeps the connection in use.
    call: Option<CallGuard>,
    /// The span of its caller, its own, and when it began, where spans are exported and the caller named one.
    span: Option<(TraceContext, TraceContext, SystemTime)>,
}

impl CallRecord {
    fn start(method: &str) -> Self {
        // Unknown names come from clients: as labels they could be any number.
        let method = if Schema::known().has_method(method) { method } else { "unknown" }.to_owned();
        let in_flight = metrics::gauge!("evenkeel_grpc_calls_in_flight", "method" => method.clone());
        in_flight.increment(1);
        Self { method, started: Instant::now(), in_flight, code: None, call: None, span: None }
    }

    fn read_status(&mut self, headers: &HeaderMap) {
        self.code = Status::from_header_map(headers).map(|status| status.code()).or(self.code);
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        self.in_flight.decrement(1);
        let code = self.code.unwrap_or(Code::Cancelled);
        let method = std::mem::take(&mut self.method);
        // Unauthorized callers write no spans either.
        if let Some((parent, context, began)) = self.span.filter(|_| code != Code::Unauthenticated) {
            let failure = (code != Code::Ok).then(|| format!("{code:?}"));
            record_span(Span::new(method.clone(), context, began, SystemTime::now()).within(parent).failed(failure));
        }
        let code = format!("{code:?}");
        metrics::counter!("evenkeel_grpc_calls_total", "method" => method.clone(), "code" => code).increment(1);
        metrics::histogram!("evenkeel_grpc_call_seconds", "method" => method).record(self.started.elapsed());
    }
}

/// A response body that reads its trailers.
struct ObservedBody {
    body: Body,
    record: CallRecord,
    abort: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl HttpBody for ObservedBody {
    type Data = <Body as HttpBody>::Data;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                if let Some(Ok(frame)) = &frame
                    && let Some(trailers) = frame.trailers_ref()
                {
                    self.record.read_status(trailers);
                }
                Poll::Ready(frame)
            }
            Poll::Pending => {
                let Some(abort) = &mut self.abort else { return Poll::Pending };
                if abort.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.abort = None;
                self.body = Body::empty();
                self.record.code = Some(Code::Unavailable);
                let mut trailers = HeaderMap::new();
                let status = Status::unavailable("the server drains");
                Poll::Ready(Some(status.add_header(&mut trailers).map(|()| Frame::trailers(trailers))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
