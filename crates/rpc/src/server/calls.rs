//! Around every call: its place in the trace, its metrics, and an end for streams that would otherwise outlive the server.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use metrics::Gauge;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};
use tracing::Instrument;

use super::connections::{Call, Peer};
use super::receive::Receiving;
use super::schema::Schema;
use crate::admission::Admission;
use crate::error::ServiceError;
use crate::peer::ClientId;
use evenkeel_telemetry::{TRACEPARENT, TraceContext};

/// Services of the transport's own whose streams never end by themselves: who watches health would hold up every drain.
const ENDLESS_PREFIXES: [&str; 2] = ["/grpc.health.v1.", "/grpc.reflection.v1"];

/// Answered by a server that is full, too.
const HEALTH_PREFIX: &str = "/grpc.health.v1.";

/// Observes calls.
#[derive(Debug, Clone)]
pub(super) struct CallLayer {
    /// When endless streams end.
    pub(super) draining: CancellationToken,
    /// Bytes of messages on their way in.
    pub(super) receiving: Admission,
    /// Bytes that a message may take once it is decoded.
    pub(super) max_decoded: u64,
    /// How long a message may take from its first byte to its last.
    pub(super) message_timeout: Duration,
}

impl<S> Layer<S> for CallLayer {
    type Service = CallService<S>;

    fn layer(&self, inner: S) -> CallService<S> {
        CallService { inner, layer: self.clone() }
    }
}

/// The observed service.
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
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let endless = ENDLESS_PREFIXES.iter().any(|prefix| path.starts_with(prefix));
        let cut = endless.then(|| Box::pin(self.layer.draining.clone().cancelled_owned()));
        let mut record = Record::begin(path.trim_start_matches('/'));
        let peer = peer(request.extensions());
        record.call = peer.map(Peer::call);
        if peer.is_some_and(Peer::is_health_only) && !path.starts_with(HEALTH_PREFIX) {
            let status = Status::from(ServiceError::ConnectionsFull);
            record.code = Some(status.code());
            return Box::pin(std::future::ready(Ok(status.into_http())));
        }
        let client = peer.map_or_else(ClientId::unseen, Peer::client);
        let given =
            request.headers().get(TRACEPARENT).and_then(|value| value.to_str().ok()?.parse::<TraceContext>().ok());
        let context = given.map_or_else(TraceContext::root, TraceContext::child);
        let span = tracing::info_span!("call", method = %record.method, trace_id = %context.trace_id());
        let held = self.layer.receiving.nothing(client);
        let (max_decoded, timeout) = (self.layer.max_decoded, self.layer.message_timeout);
        let request = request.map(|body| Body::new(Receiving::new(body, &record.method, held, max_decoded, timeout)));
        let response = client.scope(context.scope(self.inner.call(request))).instrument(span);
        Box::pin(async move {
            let response = response.await?;
            Ok(response.map_with_headers(|headers, body| {
                let mut record = record;
                // A refusal travels in the headers, without a body.
                record.see(headers);
                Body::new(Observed { body, record, cut })
            }))
        })
    }
}

/// The connection that a call came on.
fn peer(extensions: &http::Extensions) -> Option<&Peer> {
    if let Some(info) = extensions.get::<tonic::transport::server::TlsConnectInfo<Peer>>() {
        return Some(info.get_ref());
    }
    extensions.get()
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
struct Record {
    method: String,
    begun: Instant,
    in_flight: Gauge,
    /// The status, once it was seen. A call that is dropped before was cancelled by its client.
    code: Option<Code>,
    /// Keeps the connection in use.
    call: Option<Call>,
}

impl Record {
    fn begin(method: &str) -> Self {
        // Others come from outside and could be any number of names.
        let method = if Schema::known().has_method(method) { method } else { "unknown" }.to_owned();
        let in_flight = metrics::gauge!("evenkeel_grpc_calls_in_flight", "method" => method.clone());
        in_flight.increment(1);
        Self { method, begun: Instant::now(), in_flight, code: None, call: None }
    }

    fn see(&mut self, headers: &HeaderMap) {
        self.code = Status::from_header_map(headers).map(|status| status.code()).or(self.code);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.in_flight.decrement(1);
        let code = format!("{:?}", self.code.unwrap_or(Code::Cancelled));
        let method = std::mem::take(&mut self.method);
        metrics::counter!("evenkeel_grpc_calls_total", "method" => method.clone(), "code" => code).increment(1);
        metrics::histogram!("evenkeel_grpc_call_seconds", "method" => method).record(self.begun.elapsed());
    }
}

/// A response body whose trailers are read on their way.
struct Observed {
    body: Body,
    record: Record,
    cut: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl HttpBody for Observed {
    type Data = <Body as HttpBody>::Data;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                if let Some(Ok(frame)) = &frame
                    && let Some(trailers) = frame.trailers_ref()
                {
                    self.record.see(trailers);
                }
                Poll::Ready(frame)
            }
            Poll::Pending => {
                let Some(cut) = &mut self.cut else { return Poll::Pending };
                if cut.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.cut = None;
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
