//! Limits on messages while they are received: memory and time.
//!
//! The transport buffers a message until it is complete and keeps the buffer as long as the call is open. It reports
//! neither, so this body wraps that of the request and counts.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tonic::Status;

use super::decoded_size::{MalformedMessage, SizeScanner};
use crate::admission::Reservation;
use crate::error::ServiceError;

/// The prefix of a message: flag and length.
const PREFIX_BYTES: usize = 5;

/// Splits the received bytes into messages.
#[derive(Debug, Default)]
struct MessageFramer {
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    /// Received and missing bytes of the current message.
    received: u64,
    missing: u64,
    is_plain: bool,
    /// Estimates decoded sizes, if the messages of the method are known.
    scan: Option<SizeScanner>,
}

/// Sizes of the largest message in bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Largest {
    received: u64,
    /// In memory once it is decoded.
    decoded: u64,
}

impl MessageFramer {
    fn of(method: &str) -> Self {
        Self { scan: SizeScanner::of(method), ..Self::default() }
    }

    /// Consumes bytes; returns the sizes of the largest message among them, including its earlier bytes.
    fn advance(&mut self, mut bytes: &[u8]) -> Result<Largest, MalformedMessage> {
        let mut largest = Largest::default();
        while !bytes.is_empty() {
            if self.prefix_bytes < PREFIX_BYTES {
                let (now, later) = bytes.split_at(bytes.len().min(PREFIX_BYTES - self.prefix_bytes));
                self.prefix[self.prefix_bytes..][..now.len()].copy_from_slice(now);
                self.prefix_bytes += now.len();
                bytes = later;
                let [_, length @ ..] = self.prefix;
                (self.received, self.missing) = (0, u32::from_be_bytes(length).into());
                // The transport refuses compressed messages.
                self.is_plain = self.prefix[0] == 0;
                if let (PREFIX_BYTES, Some(scan)) = (self.prefix_bytes, &mut self.scan) {
                    scan.begin(self.missing);
                }
            } else {
                let length = usize::try_from(self.missing).unwrap_or(usize::MAX).min(bytes.len());
                self.received += length as u64;
                self.missing -= length as u64;
                let (now, later) = bytes.split_at(length);
                if let Some(scan) = self.scan.as_mut().filter(|_| self.is_plain) {
                    scan.advance(now)?;
                    largest.decoded = largest.decoded.max(scan.decoded());
                }
                bytes = later;
            }
            largest.received = largest.received.max(self.received);
            if self.prefix_bytes == PREFIX_BYTES && self.missing == 0 {
                self.prefix_bytes = 0;
            }
        }
        Ok(largest)
    }

    fn is_within_message(&self) -> bool {
        self.prefix_bytes > 0
    }
}

/// A request body that enforces the limits.
pub(super) struct ReceivingBody<B> {
    body: B,
    framer: MessageFramer,
    /// Size of the largest message so far in bytes: the transport keeps its buffer.
    largest: u64,
    /// Reserves that, plus the decoded size of the message in progress.
    held: Reservation,
    max_decoded: u64,
    timeout: Duration,
    /// How long the message in progress was waited for, and the start of the current wait.
    waited: Duration,
    waiting_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    failed: bool,
}

impl<B> ReceivingBody<B> {
    /// `held` is an empty reservation of the budget for received messages; `max_decoded` limits the decoded size of a
    /// message in bytes.
    pub(super) fn new(body: B, method: &str, held: Reservation, max_decoded: u64, timeout: Duration) -> Self {
        Self {
            body,
            framer: MessageFramer::of(method),
            largest: 0,
            held,
            max_decoded,
            timeout,
            waited: Duration::ZERO,
            waiting_since: None,
            timer: None,
            failed: false,
        }
    }

    fn account(&mut self, bytes: &[u8]) -> Result<(), ServiceError> {
        let was_within = self.framer.is_within_message();
        let largest = self.framer.advance(bytes).map_err(|MalformedMessage| ServiceError::Malformed)?;
        if !self.framer.is_within_message() || !was_within {
            self.waited = Duration::ZERO;
        }
        if largest.decoded > self.max_decoded {
            return Err(ServiceError::DecodedMessageTooLarge { most: self.max_decoded });
        }
        self.largest = self.largest.max(largest.received);
        let holds = self.largest + largest.decoded;
        if holds < self.held.amount() {
            self.held.resize(holds);
        }
        self.held.try_grow(holds - self.held.amount())
    }

    /// Whether the message in progress has exceeded its time limit.
    fn poll_timeout(&mut self, context: &mut Context<'_>) -> bool {
        if !self.framer.is_within_message() {
            self.timer = None;
            return false;
        }
        let now = Instant::now();
        self.waiting_since = Some(now);
        if self.waited >= self.timeout {
            return true;
        }
        let end = now + self.timeout.saturating_sub(self.waited);
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        timer.as_mut().reset(end);
        timer.as_mut().poll(context).is_ready()
    }
}

impl<B> HttpBody for ReceivingBody<B>
where
    B: HttpBody<Data = Bytes, Error = Status> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.failed {
            return Poll::Ready(None);
        }
        if let Some(since) = this.waiting_since.take() {
            this.waited += since.elapsed();
        }
        let failed = match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => match frame.data_ref().map_or(Ok(()), |data| this.account(data)) {
                Ok(()) => return Poll::Ready(Some(Ok(frame))),
                Err(full) => full,
            },
            Poll::Pending if this.poll_timeout(context) => ServiceError::MessageTimeout { timeout: this.timeout },
            other => return other,
        };
        this.failed = true;
        Poll::Ready(Some(Err(failed.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.failed || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: u32) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(length.to_be_bytes());
        bytes.resize(bytes.len() + length as usize, 7);
        bytes
    }

    #[test]
    fn messages_are_split_wherever_frames_end() {
        let bytes = [message(3), message(0), message(700), message(20)].concat();
        for size in [1, 2, 5, 6, 7, 64, bytes.len()] {
            let mut framer = MessageFramer::default();
            let largest = bytes.chunks(size).map(|chunk| framer.advance(chunk).unwrap().received).max();
            assert_eq!((largest, framer.is_within_message()), (Some(700), false), "{size}");
            assert_eq!(framer.advance(&message(10)[..9]), Ok(Largest { received: 4, decoded: 0 }));
            assert!(framer.is_within_message());
        }
    }
}
