//! Admission to bounded queues: a reservation succeeds at once or fails with RESOURCE_EXHAUSTED.
//!
//! A queue counts items or bytes. No client gets all of it: a client that holds seven times what is free gets no more.
//! So a single client leaves an eighth to others, the next one an eighth of that, and two greedy clients end with seven
//! fifteenths each. Queues of up to seven items are too small for that. A client is a connection. By the same rule all
//! connections of one host together leave a sixteenth to other hosts.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_proto::v1::QueueStatus;
use metrics::Gauge;

use crate::error::ServiceError;
pub use crate::error::Unit;
pub use crate::peer::{ClientId, Host};
use crate::series::QUEUE_REFUSED;

/// A client may hold this many times what is free.
const CLIENT_SHARE: u64 = 7;
/// The clients of one host together may hold this many times what is free.
const HOST_SHARE: u64 = 15;

/// The reservations of one queue. Clones share them.
#[derive(Debug, Clone)]
pub struct Admission(Arc<Queue>);

#[derive(Debug)]
struct Queue {
    name: &'static str,
    unit: Unit,
    capacity: u64,
    state: Mutex<Reserved>,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct Reserved {
    reserved: u64,
    by_client: HashMap<ClientId, u64>,
    by_host: HashMap<Host, u64>,
}

/// A reserved part of a queue; dropping it frees it.
#[derive(Debug)]
pub struct Reservation {
    queue: Arc<Queue>,
    client: ClientId,
    amount: u64,
}

impl Admission {
    /// A queue with that capacity in items or bytes, at least 1.
    pub fn new(name: &'static str, unit: Unit, capacity: usize) -> Self {
        let gauge = match unit {
            Unit::Items => metrics::gauge!("evenkeel_queue_items", "queue" => name),
            Unit::Bytes => metrics::gauge!("evenkeel_queue_bytes", "queue" => name),
        };
        QUEUE_REFUSED.begin(&[("queue", name), ("unit", unit.name())]);
        let capacity = (capacity as u64).max(1);
        Self(Arc::new(Queue { name, unit, capacity, state: Mutex::default(), gauge }))
    }

    /// Reserves an amount for a client.
    ///
    /// # Errors
    /// [`ServiceError::QueueFull`], or [`ServiceError::ClientQuotaExceeded`] if only this client gets no more.
    pub fn try_reserve(&self, client: ClientId, amount: usize) -> Result<Reservation, ServiceError> {
        let mut reserved = Reservation { queue: Arc::clone(&self.0), client, amount: 0 };
        reserved.try_grow(amount as u64)?;
        Ok(reserved)
    }

    /// An empty reservation, to be resized.
    pub fn empty(&self, client: ClientId) -> Reservation {
        Reservation { queue: Arc::clone(&self.0), client, amount: 0 }
    }

    pub fn reserved(&self) -> u64 {
        self.0.state().reserved
    }

    /// The state of the queue; `running` of its items are running.
    pub fn status(&self, running: usize) -> QueueStatus {
        QueueStatus {
            queued_items: self.reserved().saturating_sub(running as u64),
            running_items: running as u64,
            capacity_items: self.0.capacity,
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, Reserved> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, state: &mut Reserved, client: ClientId, before: u64, after: u64) {
        state.reserved = state.reserved - before + after;
        replace(&mut state.by_client, client, before, after);
        replace(&mut state.by_host, client.host(), before, after);
        self.gauge.set(state.reserved as f64);
    }
}

/// Changes the amount that a client or host holds, and forgets those that hold nothing.
fn replace<K: Eq + Hash + Copy>(held: &mut HashMap<K, u64>, by: K, before: u64, after: u64) {
    let amount = held.entry(by).or_default();
    *amount = *amount - before + after;
    if *amount == 0 {
        held.remove(&by);
    }
}

impl Reservation {
    /// Reserves more.
    ///
    /// # Errors
    /// As [`Admission::try_reserve`]; the reservation stays as it was.
    pub fn try_grow(&mut self, by: u64) -> Result<(), ServiceError> {
        let queue = &*self.queue;
        let mut state = queue.state();
        let free = queue.capacity.saturating_sub(state.reserved);
        let held = state.by_client.get(&self.client).copied().unwrap_or(0);
        let of_host = state.by_host.get(&self.client.host()).copied().unwrap_or(0);
        let name = queue.name;
        let unit = queue.unit;
        let capacity = queue.capacity;
        let refused = if by > free {
            Some(ServiceError::QueueFull { queue: name, unit, capacity, retry_after: None })
        } else if held >= CLIENT_SHARE.saturating_mul(free) && by > 0 {
            Some(ServiceError::ClientQuotaExceeded { queue: name, unit, capacity, held })
        } else if of_host >= HOST_SHARE.saturating_mul(free) && by > 0 {
            Some(ServiceError::ClientQuotaExceeded { queue: name, unit, capacity, held: of_host })
        } else {
            None
        };
        if let Some(refused) = refused {
            metrics::counter!("evenkeel_queue_refused_total", "queue" => name, "unit" => unit.name()).increment(1);
            return Err(refused);
        }
        queue.change(&mut state, self.client, self.amount, self.amount + by);
        self.amount += by;
        Ok(())
    }

    /// Sets the amount, even beyond the capacity: for results, which cannot be refused.
    pub fn resize(&mut self, amount: u64) {
        self.queue.change(&mut self.queue.state(), self.client, self.amount, amount);
        self.amount = amount;
    }

    pub fn amount(&self) -> u64 {
        self.amount
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_by_its_name() {
        let queue = Admission::new("verify", Unit::Items, 2);
        let client = ClientId::anonymous();
        let reserved = (queue.try_reserve(client, 1).unwrap(), queue.try_reserve(client, 1).unwrap());
        let refused = |queue: &Admission| queue.try_reserve(client, 1).unwrap_err().to_string();
        assert_eq!(refused(&queue), "queue `verify` is full, its capacity is 2 items");
        drop(reserved);
        assert!(queue.try_reserve(client, 1).is_ok());
        let bytes = Admission::new("verify", Unit::Bytes, 100);
        let error = bytes.try_reserve(client, 101).unwrap_err().to_string();
        assert_eq!(error, "queue `verify` is full, its capacity is 100 bytes");
    }

    #[test]
    fn no_client_gets_all_and_new_clients_get_some() {
        let queue = Admission::new("verify", Unit::Items, 800);
        let greedy = |client| {
            let mut held = Vec::new();
            loop {
                match queue.try_reserve(client, 1) {
                    Ok(one) => held.push(one),
                    Err(refused) => return (held, refused),
                }
            }
        };
        let (first, refused) = greedy(ClientId::anonymous());
        assert_eq!(first.len(), 700);
        let message = "this client holds 700 of the 800 items of queue `verify`, the rest is kept for others";
        assert_eq!(refused.to_string(), message);
        let mut others = Vec::new();
        for _ in 0..3 {
            let (held, _) = greedy(ClientId::anonymous());
            assert!(!held.is_empty());
            others.push(held);
        }
        drop((first, others));
        assert_eq!(queue.reserved(), 0);
        assert!(queue.0.state().by_client.is_empty(), "clients that hold nothing are forgotten");
    }

    #[test]
    fn a_host_leaves_something_to_others_however_many_connections_it_has() {
        let queue = Admission::new("verify", Unit::Items, 800);
        let greedy = |address: &str| {
            let address = address.parse().unwrap();
            let mut held = Vec::new();
            // A hundred connections, each of which takes what it gets.
            for _ in 0..100 {
                let client = ClientId::at(address);
                held.extend(std::iter::from_fn(|| queue.try_reserve(client, 1).ok()));
            }
            held
        };
        let first = greedy("10.0.0.1");
        assert_eq!(first.len(), 750);
        let mut others = Vec::new();
        for address in ["10.0.0.2", "2001:db8::1"] {
            let held = greedy(address);
            assert!(!held.is_empty(), "{address}");
            others.push(held);
        }
        assert!(queue.try_reserve(ClientId::at("2001:db8::ffff".parse().unwrap()), 1).is_err(), "the same network");
        drop((first, others));
        assert!(queue.0.state().by_host.is_empty(), "hosts that hold nothing are forgotten");
    }

    #[test]
    fn a_single_client_may_reserve_the_whole_capacity_at_once() {
        let queue = Admission::new("verify", Unit::Bytes, 1000);
        let large = queue.try_reserve(ClientId::anonymous(), 1000).unwrap();
        assert!(queue.try_reserve(ClientId::anonymous(), 1).is_err());
        drop(large);
        assert_eq!(queue.reserved(), 0);
    }

    #[test]
    fn results_count_beyond_the_capacity() {
        let queue = Admission::new("verify", Unit::Bytes, 100);
        let mut result = queue.empty(ClientId::anonymous());
        result.resize(150);
        assert!(queue.try_reserve(ClientId::anonymous(), 1).is_err());
        result.resize(10);
        assert!(queue.try_reserve(ClientId::anonymous(), 1).is_ok());
    }

    #[test]
    fn the_status_separates_running_from_queued_items() {
        let queue = Admission::new("verify", Unit::Items, 5);
        let _reservations = [0; 3].map(|_| queue.try_reserve(ClientId::anonymous(), 1).unwrap());
        assert_eq!(queue.status(1), QueueStatus { queued_items: 2, running_items: 1, capacity_items: 5 });
    }
}
