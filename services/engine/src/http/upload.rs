//! The time limit of request bodies, so that a slow one does not occupy its connection for long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Sleep;
use tokio_stream::Stream;

/// Ends a body with an error if it has not arrived within the limit; its reader then refuses the request.
pub(super) async fn in_time(State(limit): State<Duration>, request: Request, next: Next) -> Response {
    if request.method() == Method::GET {
        return next.run(request).await;
    }
    let timed = |body: Body| {
        Body::from_stream(Timed { body: body.into_data_stream(), end: Box::pin(tokio::time::sleep(limit)), limit })
    };
    next.run(request.map(timed)).await
}

struct Timed {
    body: BodyDataStream,
    end: Pin<Box<Sleep>>,
    limit: Duration,
}

impl Stream for Timed {
    type Item = Result<Bytes, io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(part) = Pin::new(&mut self.body).poll_next(context) {
            return Poll::Ready(part.map(|part| part.map_err(io::Error::other)));
        }
        let limit = self.limit;
        self.end.as_mut().poll(context).map(|()| {
            let message = format!("the request body was not received within {} ms", limit.as_millis());
            Some(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
        })
    }
}
