//! Readers of published weights: how many there are at once, of all hosts and of one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use evenkeel_rpc::admission::Host;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Files that are read at once, over all agents; others wait.
const READERS: usize = 64;
/// Readers of one host at once, so that no agent keeps the others out.
const OF_A_HOST: usize = 8;

/// Places for readers. Clones share them.
#[derive(Clone)]
pub(super) struct Readers {
    all: Arc<Semaphore>,
    of_hosts: Arc<Mutex<HashMap<Host, Weak<Semaphore>>>>,
}

/// A reader's place, until it is dropped.
pub(super) struct ReadPermit {
    _places: [OwnedSemaphorePermit; 2],
}

impl Default for Readers {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(READERS)), of_hosts: Arc::default() }
    }
}

impl Readers {
    /// Waits for a place among those of the host, and then for one of all.
    pub(super) async fn acquire(&self, host: Host) -> ReadPermit {
        let of_host = place(self.of_host(host)).await;
        ReadPermit { _places: [of_host, place(Arc::clone(&self.all)).await] }
    }

    fn of_host(&self, host: Host) -> Arc<Semaphore> {
        let mut hosts = self.of_hosts.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever reads or waits keeps its host's.
        hosts.retain(|_, places| places.strong_count() > 0);
        if let Some(places) = hosts.get(&host).and_then(Weak::upgrade) {
            return places;
        }
        let places = Arc::new(Semaphore::new(OF_A_HOST));
        hosts.insert(host, Arc::downgrade(&places));
        places
    }
}

async fn place(places: Arc<Semaphore>) -> OwnedSemaphorePermit {
    places.acquire_owned().await.expect("nobody closes it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u8) -> Host {
        std::net::IpAddr::from([10, 0, 0, number]).into()
    }

    #[tokio::test]
    async fn a_host_that_takes_all_of_its_places_leaves_those_of_others() {
        let readers = Readers::default();
        let mut held = Vec::new();
        for _ in 0..OF_A_HOST {
            held.push(readers.acquire(host(1)).await);
        }
        let mut further = std::pin::pin!(readers.acquire(host(1)));
        tokio::select! {
            biased;
            _ = &mut further => panic!("it does not wait"),
            _ = readers.acquire(host(2)) => {}
        }
        held.pop();
        drop(further.await);
        drop(held);
        readers.of_host(host(3));
        assert_eq!(readers.of_hosts.lock().unwrap().len(), 1, "hosts without readers are forgotten");
    }
}
