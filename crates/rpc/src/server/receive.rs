//! Messages on their way in: what is received of them is counted, and has an end.
//!
//! The transport gathers a message in memory until it is whole, and keeps that memory as long as the call is open. Both are invisible
//! behind it, so that the bodies of requests are looked at before they reach it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tonic::Status;

use super::decoded::{Broken, Scan};
use crate::admission::Taken;
use crate::error::ServiceError;

/// Flag and length in front of a message.
const PREFIX_BYTES: usize = 5;

/// Where in the sequence of messages the received bytes end.
#[derive(Debug, Default)]
struct Place {
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    /// Bytes of the message that were received, and that are missing.
    received: u64,
    missing: u64,
    /// What messages become, where that is known.
    scan: Option<Scan>,
}

/// The most that any one message has.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Most {
    /// Bytes that were received.
    received: u64,
    /// Bytes that it takes once it is decoded.
    decoded: u64,
}

impl Place {
    fn of(method: &str) -> Self {
        Self { scan: Scan::of(method), ..Self::default() }
    }

    /// Goes on by these bytes; what the largest message has of them and of those before.
    fn pass(&mut self, mut bytes: &[u8]) -> Result<Most, Broken> {
        let mut most = Most::default();
        while !bytes.is_empty() {
            if self.prefix_bytes < PREFIX_BYTES {
                let (now, later) = bytes.split_at(bytes.len().min(PREFIX_BYTES - self.prefix_bytes));
                self.prefix[self.prefix_bytes..][..now.len()].copy_from_slice(now);
                self.prefix_bytes += now.len();
                bytes = later;
                let [_, length @ ..] = self.prefix;
                (self.received, self.missing) = (0, u32::from_be_bytes(length).into());
                if let (PREFIX_BYTES, Some(scan)) = (self.prefix_bytes, &mut self.scan) {
                    scan.begin(self.missing);
                }
            } else {
                let length = usize::try_from(self.missing).unwrap_or(usize::MAX).min(bytes.len());
                self.received += length as u64;
                self.missing -= length as u64;
                let (now, later) = bytes.split_at(length);
                if let Some(scan) = &mut self.scan {
                    scan.pass(now)?;
                    most.decoded = most.decoded.max(scan.decoded());
                }
                bytes = later;
            }
            most.received = most.received.max(self.received);
            if self.prefix_bytes == PREFIX_BYTES && self.missing == 0 {
                self.prefix_bytes = 0;
            }
        }
        Ok(most)
    }

    fn is_within_message(&self) -> bool {
        self.prefix_bytes > 0
    }
}

/// The body of a request whose messages are counted and end in time.
pub(super) struct Receiving<B> {
    body: B,
    place: Place,
    /// Bytes of the largest message so far: the transport keeps its memory.
    largest: u64,
    /// As much as that, and what the message in progress becomes.
    held: Taken,
    max_decoded: u64,
    timeout: Duration,
    /// How long the message in progress was waited for, and since when.
    waited: Duration,
    waiting_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
    failed: bool,
}

impl<B> Receiving<B> {
    /// `held` is nothing of the budget that counts; no message of the method may take more than `max_decoded` bytes.
    pub(super) fn new(body: B, method: &str, held: Taken, max_decoded: u64, timeout: Duration) -> Self {
        Self {
            body,
            place: Place::of(method),
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

    fn take(&mut self, bytes: &[u8]) -> Result<(), ServiceError> {
        let was_within = self.place.is_within_message();
        let most = self.place.pass(bytes).map_err(|Broken| ServiceError::Malformed)?;
        if !self.place.is_within_message() || !was_within {
            self.waited = Duration::ZERO;
        }
        if most.decoded > self.max_decoded {
            return Err(ServiceError::Expands { most: self.max_decoded });
        }
        self.largest = self.largest.max(most.received);
        let holds = self.largest + most.decoded;
        if holds < self.held.amount() {
            self.held.resize(holds);
        }
        self.held.try_grow(holds - self.held.amount())
    }

    /// Whether the message in progress has been waited for too long.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        if !self.place.is_within_message() {
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

impl<B> HttpBody for Receiving<B>
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
            Poll::Ready(Some(Ok(frame))) => match frame.data_ref().map_or(Ok(()), |data| this.take(data)) {
                Ok(()) => return Poll::Ready(Some(Ok(frame))),
                Err(full) => full,
            },
            Poll::Pending if this.is_late(context) => ServiceError::Late { timeout: this.timeout },
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
    fn messages_are_told_apart_wherever_frames_end() {
        let bytes = [message(3), message(0), message(700), message(20)].concat();
        for size in [1, 2, 5, 6, 7, 64, bytes.len()] {
            let mut place = Place::default();
            let most = bytes.chunks(size).map(|chunk| place.pass(chunk).unwrap().received).max();
            assert_eq!((most, place.is_within_message()), (Some(700), false), "{size}");
            assert_eq!(place.pass(&message(10)[..9]), Ok(Most { received: 4, decoded: 0 }));
            assert!(place.is_within_message());
        }
    }
}
