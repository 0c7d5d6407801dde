//! Bodies of requests, of which no more is kept than a limit.

use axum::body::Body;
use bytes::Bytes;
use tokio_stream::StreamExt as _;

/// A request's body as far as it is kept.
#[derive(Debug, PartialEq, Eq)]
pub enum ReceivedBody {
    Whole(Bytes),
    /// A body above the limit, and how long it was.
    Longer {
        beginning: Bytes,
        bytes: u64,
    },
}

/// Reads a body and keeps `limit` bytes of it. The rest of a longer one is read and forgotten, so that its client sees
/// the answer instead of a connection that is reset. The time limit is that of the port.
///
/// # Errors
/// The connection ended, or the time was over.
pub async fn read_up_to(body: Body, limit: usize) -> Result<ReceivedBody, axum::Error> {
    let mut kept = Vec::new();
    let mut bytes = 0;
    let mut parts = body.into_data_stream();
    while let Some(part) = parts.next().await {
        let part = part?;
        bytes += part.len() as u64;
        kept.extend_from_slice(&part[..part.len().min(limit - kept.len())]);
    }
    let beginning = Bytes::from(kept);
    let is_whole = beginning.len() as u64 == bytes;
    Ok(if is_whole { ReceivedBody::Whole(beginning) } else { ReceivedBody::Longer { beginning, bytes } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_a_body_that_is_too_long_the_beginning_is_kept() {
        let read = async |text: &'static str| read_up_to(Body::from(text), 3).await.unwrap();
        assert_eq!(read("abc").await, ReceivedBody::Whole(Bytes::from_static(b"abc")));
        let beginning = Bytes::from_static(b"abc");
        assert_eq!(read("abcde").await, ReceivedBody::Longer { beginning, bytes: 5 });
    }
}
