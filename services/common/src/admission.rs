//! Bounded queues that say so: a place is either there at once or the caller is told RESOURCE_EXHAUSTED.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::QueueStatus;
use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ServiceError;

/// The places of one queue. Clones share them.
#[derive(Debug, Clone)]
pub struct Admission {
    name: &'static str,
    capacity: usize,
    places: Arc<Semaphore>,
    retry_after: Option<Duration>,
    taken: Gauge,
}

/// A place that is taken; dropping it frees it.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
    taken: Gauge,
}

impl Admission {
    /// A queue of `capacity` places, at least one.
    pub fn new(name: &'static str, capacity: usize) -> Self {
        let capacity = capacity.clamp(1, Semaphore::MAX_PERMITS);
        let taken = metrics::gauge!("evenkeel_queue_items", "queue" => name);
        Self { name, capacity, places: Arc::new(Semaphore::new(capacity)), retry_after: None, taken }
    }

    /// Tells refused callers when to come back.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// A place, or [`ServiceError::QueueFull`].
    pub fn try_enter(&self) -> Result<Place, ServiceError> {
        match Arc::clone(&self.places).try_acquire_owned() {
            Ok(permit) => Ok(self.place(permit)),
            Err(_) => {
                metrics::counter!("evenkeel_queue_refused_total", "queue" => self.name).increment(1);
                Err(ServiceError::QueueFull {
                    queue: self.name,
                    capacity: self.capacity,
                    retry_after: self.retry_after,
                })
            }
        }
    }

    /// A place, as soon as there is one: for callers who are to be slowed down rather than refused.
    pub async fn enter(&self) -> Place {
        let permit = Arc::clone(&self.places).acquire_owned().await.expect("nobody closes the semaphore");
        self.place(permit)
    }

    fn place(&self, permit: OwnedSemaphorePermit) -> Place {
        self.taken.increment(1);
        Place { _permit: permit, taken: self.taken.clone() }
    }

    /// Places that are taken.
    pub fn taken(&self) -> usize {
        self.capacity - self.places.available_permits()
    }

    /// Places that there are.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The queue's state, `running` of the places being in work.
    pub fn status(&self, running: usize) -> QueueStatus {
        let taken = self.taken();
        QueueStatus {
            queued_items: taken.saturating_sub(running) as u64,
            running_items: running as u64,
            capacity_items: self.capacity as u64,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.decrement(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_than_fits_is_refused_by_name() {
        let queue = Admission::new("verify", 2);
        let places = (queue.try_enter().unwrap(), queue.try_enter().unwrap());
        assert_eq!(queue.try_enter().unwrap_err().to_string(), "queue `verify` is full, it takes 2 items");
        drop(places);
        assert!(queue.try_enter().is_ok());
    }

    #[tokio::test]
    async fn a_patient_caller_gets_the_next_place() {
        let queue = Admission::new("submit", 1);
        let place = queue.enter().await;
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.enter().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(place);
        waiting.await.unwrap();
        assert_eq!(queue.taken(), 0);
    }

    #[test]
    fn status_splits_taken_places() {
        let queue = Admission::new("verify", 5);
        let _places = [queue.try_enter().unwrap(), queue.try_enter().unwrap(), queue.try_enter().unwrap()];
        assert_eq!(queue.status(1), QueueStatus { queued_items: 2, running_items: 1, capacity_items: 5 });
    }
}
