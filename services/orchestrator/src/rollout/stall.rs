//! A service that holds items and ends none of them, not even in failure.

use std::time::{Duration, Instant};

use crate::error::RunError;

/// How long a service has held items without ending one.
#[derive(Debug)]
pub(super) struct Stall {
    service: &'static str,
    endpoint: String,
    /// Longest time that one item may take, and what is waited beyond it.
    limit: Duration,
    since: Option<Instant>,
}

impl Stall {
    pub(super) fn new(service: &'static str, endpoint: String, item_ms: u64, wait_ms: u64) -> Self {
        Self { service, endpoint, limit: Duration::from_millis(item_ms.saturating_add(wait_ms)), since: None }
    }

    /// An item ended, one way or the other.
    pub(super) fn ended(&mut self) {
        self.since = None;
    }

    /// Looks at how many items the service holds.
    ///
    /// # Errors
    /// [`RunError::ServiceLost`] once it has held some for too long and ended none.
    pub(super) fn watch(&mut self, held: usize) -> Result<(), RunError> {
        if held == 0 {
            self.since = None;
            return Ok(());
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited < self.limit {
            return Ok(());
        }
        Err(RunError::ServiceLost {
            service: self.service,
            endpoint: self.endpoint.clone(),
            waited_ms: waited.as_millis() as u64,
            message: format!("it holds {held} samples and has ended none of them"),
        })
    }
}
