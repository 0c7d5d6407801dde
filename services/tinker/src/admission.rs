//! Room for requests and results: how many, and how many bytes. A body is counted before it is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::ApiError;

/// Bodies up to this size are always read, on as many connections as there may be. Among them are signs of life, and
/// requests for results, by which memory becomes free.
const SMALL: usize = 64 << 10;

/// What is in use, and how much there is.
#[derive(Debug, Clone)]
pub(crate) struct Admission(Arc<AdmissionCounts>);

#[derive(Debug)]
struct AdmissionCounts {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    max_requests: usize,
    max_bytes: usize,
    /// Bytes beyond `max_bytes` for bodies that are being read: the request that all others wait for comes in although
    /// they fill the rest.
    receiving: usize,
}

/// Room that is in use until it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    counts: Arc<AdmissionCounts>,
    requests: usize,
    bytes: usize,
}

impl Admission {
    /// Room for requests whose bodies have at most `max_body` bytes.
    pub(crate) fn new(max_requests: usize, max_bytes: usize, max_body: usize) -> Self {
        Self(Arc::new(AdmissionCounts {
            requests: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            max_requests,
            max_bytes,
            receiving: 2 * max_body,
        }))
    }

    /// Room for a body that is about to be read, of the length that its client declares.
    ///
    /// # Errors
    /// 429: there is none now.
    pub(crate) fn receive(&self, bytes: usize) -> Result<Room, ApiError> {
        let room = self.take(0, bytes);
        let total = self.0.bytes.load(Ordering::Relaxed);
        // Dropped, it gives the room back.
        if bytes <= SMALL || total <= self.0.max_bytes + self.0.receiving {
            Ok(room)
        } else {
            Err(ApiError::overloaded())
        }
    }

    /// Counts what was received among the requests that wait. `Err` has the room, where there is none for another.
    pub(crate) fn admit(&self, mut room: Room) -> Result<Room, Room> {
        let requests = 1 + self.0.requests.fetch_add(1, Ordering::Relaxed);
        let total = self.0.bytes.load(Ordering::Relaxed);
        if requests <= self.0.max_requests && total <= self.0.max_bytes {
            room.requests = 1;
            return Ok(room);
        }
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
        Err(room)
    }

    /// Counts a result, for which there is always room: its request was admitted.
    pub(crate) fn charge(&self, bytes: usize) -> Room {
        self.take(0, bytes)
    }

    fn take(&self, requests: usize, bytes: usize) -> Room {
        self.0.requests.fetch_add(requests, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        Room { counts: Arc::clone(&self.0), requests, bytes }
    }
}

impl Room {
    /// Gives back what a body was shorter than declared.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let unused = self.bytes.saturating_sub(bytes);
        self.counts.bytes.fetch_sub(unused, Ordering::Relaxed);
        self.bytes -= unused;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.counts.requests.fetch_sub(self.requests, Ordering::Relaxed);
        self.counts.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: usize = 1 << 20;

    fn admission(max_requests: usize) -> Admission {
        Admission::new(max_requests, 4 * BODY, BODY)
    }

    #[test]
    fn what_does_not_fit_is_refused_and_takes_nothing() {
        let admission = admission(2);
        let request = |bytes| admission.admit(admission.receive(bytes).unwrap());
        let first = request(3 * BODY).unwrap();
        assert!(request(2 * BODY).is_err());
        let second = request(BODY).unwrap();
        assert!(request(0).is_err(), "two requests at most");
        drop((first, second));
        assert!(request(4 * BODY).is_ok());
    }

    #[test]
    fn bodies_that_are_announced_and_do_not_come_take_no_more_than_their_room() {
        let admission = admission(9);
        let silent: Vec<Room> = std::iter::from_fn(|| admission.receive(BODY).ok()).take(99).collect();
        assert_eq!(silent.len(), 6);
        assert!(admission.receive(SMALL).is_ok(), "signs of life are read");
        drop(silent);
        assert!(admission.receive(BODY).is_ok());
    }

    #[test]
    fn where_memory_is_full_a_body_is_still_read() {
        let admission = admission(9);
        let _waiting = admission.admit(admission.receive(4 * BODY).unwrap()).unwrap();
        assert!(admission.receive(BODY).is_ok());
    }

    #[test]
    fn a_body_counts_as_long_as_it_is() {
        let admission = admission(9);
        let mut room = admission.receive(4 * BODY).unwrap();
        room.shrink_to(1);
        assert!(admission.admit(admission.receive(4 * BODY - 1).unwrap()).is_ok());
    }
}
