//! Room for requests and results: how many, and how many bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::ApiError;

/// What is in use, and how much there is.
#[derive(Debug, Clone)]
pub(crate) struct Admission(Arc<AdmissionCounts>);

#[derive(Debug)]
struct AdmissionCounts {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    max_requests: usize,
    max_bytes: usize,
}

/// Room that is in use until it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    counts: Arc<AdmissionCounts>,
    requests: usize,
    bytes: usize,
}

impl Admission {
    pub(crate) fn new(max_requests: usize, max_bytes: usize) -> Self {
        Self(Arc::new(AdmissionCounts {
            requests: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            max_requests,
            max_bytes,
        }))
    }

    /// Room for a request.
    ///
    /// # Errors
    /// 429: there is none now.
    pub(crate) fn admit(&self, bytes: usize) -> Result<Room, ApiError> {
        let room = self.take(1, bytes);
        let requests = self.0.requests.load(Ordering::Relaxed);
        let total = self.0.bytes.load(Ordering::Relaxed);
        // Dropped, it gives the room back.
        if requests <= self.0.max_requests && total <= self.0.max_bytes {
            Ok(room)
        } else {
            Err(ApiError::overloaded())
        }
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

impl Drop for Room {
    fn drop(&mut self) {
        self.counts.requests.fetch_sub(self.requests, Ordering::Relaxed);
        self.counts.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_and_takes_nothing() {
        let admission = Admission::new(2, 100);
        let first = admission.admit(60).unwrap();
        assert!(admission.admit(60).is_err());
        let second = admission.admit(40).unwrap();
        assert!(admission.admit(0).is_err(), "two requests at most");
        drop((first, second));
        assert!(admission.admit(100).is_ok());
    }
}
