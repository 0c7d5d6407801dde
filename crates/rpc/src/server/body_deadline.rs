//! The time limit of request bodies, so that a slow one does not occupy its connection and memory for long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Sleep;

/// Ends a body with an error if it has not arrived within the limit; its reader then refuses the request.
pub(super) async fn in_time(State(limit): State<Duration>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let timed = |body| Body::new(TimedBody { body, end: Box::pin(tokio::time::sleep(limit)), limit });
    next.run(request.map(timed)).await
}

struct TimedBody {
    body: Body,
    end: Pin<Box<Sleep>>,
    limit: Duration,
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Poll::Ready(part) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(part.map(|part| part.map_err(io::Error::other)));
        }
        let limit = self.limit;
        self.end.as_mut().poll(context).map(|()| {
            let message = format!("the request body was not received within {} ms", limit.as_millis());
            Some(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
