//! Bounded queues that say so: what is asked for is there at once, or the caller gets RESOURCE_EXHAUSTED.
//!
//! A queue counts items or bytes. No client gets all of it: who holds seven times what is free gets no more, so that one client leaves
//! an eighth to others, the next an eighth of that, and two who go on asking end with seven fifteenths each. Queues of up to seven items
//! have too few for that. A client is a connection. All connections from one host together leave a sixteenth to other hosts, by the same
//! rule, however many they are.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_proto::v1::QueueStatus;
use metrics::Gauge;

use crate::error::ServiceError;
pub use crate::error::Unit;
pub use crate::peer::{ClientId, Host};

/// A client may hold so many times what is free.
const SHARE: u64 = 7;
/// All clients of one host may.
const HOST_SHARE: u64 = 15;

/// One queue, as far as it is full. Clones are the same.
#[derive(Debug, Clone)]
pub struct Admission(Arc<Queue>);

#[derive(Debug)]
struct Queue {
    name: &'static str,
    unit: Unit,
    capacity: u64,
    state: Mutex<State>,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct State {
    taken: u64,
    by_client: HashMap<ClientId, u64>,
    by_host: HashMap<Host, u64>,
}

/// A part of a queue that is taken; dropping it frees it.
#[derive(Debug)]
pub struct Taken {
    queue: Arc<Queue>,
    client: ClientId,
    amount: u64,
}

impl Admission {
    /// A queue of that many items or bytes, at least one.
    pub fn new(name: &'static str, unit: Unit, capacity: usize) -> Self {
        let gauge = match unit {
            Unit::Items => metrics::gauge!("evenkeel_queue_items", "queue" => name),
            Unit::Bytes => metrics::gauge!("evenkeel_queue_bytes", "queue" => name),
        };
        let capacity = (capacity as u64).max(1);
        Self(Arc::new(Queue { name, unit, capacity, state: Mutex::default(), gauge }))
    }

    /// Takes that much for a client.
    ///
    /// # Errors
    /// [`ServiceError::QueueFull`], or [`ServiceError::ShareTaken`] where only this client gets no more.
    pub fn try_take(&self, client: ClientId, amount: usize) -> Result<Taken, ServiceError> {
        let mut taken = Taken { queue: Arc::clone(&self.0), client, amount: 0 };
        taken.try_grow(amount as u64)?;
        Ok(taken)
    }

    /// Nothing yet, to be resized.
    pub fn nothing(&self, client: ClientId) -> Taken {
        Taken { queue: Arc::clone(&self.0), client, amount: 0 }
    }

    /// How much is taken.
    pub fn taken(&self) -> u64 {
        self.0.state().taken
    }

    /// The queue's state, `running` of the items being in work.
    pub fn status(&self, running: usize) -> QueueStatus {
        QueueStatus {
            queued_items: self.taken().saturating_sub(running as u64),
            running_items: running as u64,
            capacity_items: self.0.capacity,
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, state: &mut State, client: ClientId, before: u64, after: u64) {
        state.taken = state.taken - before + after;
        replace(&mut state.by_client, client, before, after);
        replace(&mut state.by_host, client.host(), before, after);
        self.gauge.set(state.taken as f64);
    }
}

/// Another part of what somebody holds. Who holds nothing is forgotten.
fn replace<K: Eq + Hash + Copy>(held: &mut HashMap<K, u64>, by: K, before: u64, after: u64) {
    let amount = held.entry(by).or_default();
    *amount = *amount - before + after;
    if *amount == 0 {
        held.remove(&by);
    }
}

impl Taken {
    /// Takes more of the queue.
    ///
    /// # Errors
    /// Those of [`Admission::try_take`]; what was taken stays as it was.
    pub fn try_grow(&mut self, by: u64) -> Result<(), ServiceError> {
        let queue = &*self.queue;
        let mut state = queue.state();
        let free = queue.capacity.saturating_sub(state.taken);
        let held = state.by_client.get(&self.client).copied().unwrap_or(0);
        let of_host = state.by_host.get(&self.client.host()).copied().unwrap_or(0);
        let (name, unit, capacity) = (queue.name, queue.unit, queue.capacity);
        let refused = if by > free {
            Some(ServiceError::QueueFull { queue: name, unit, capacity, retry_after: None })
        } else if held >= SHARE.saturating_mul(free) && by > 0 {
            Some(ServiceError::ShareTaken { queue: name, unit, capacity, held })
        } else if of_host >= HOST_SHARE.saturating_mul(free) && by > 0 {
            Some(ServiceError::ShareTaken { queue: name, unit, capacity, held: of_host })
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

    /// Makes it as large as what it stands for has become, also beyond what there is: for results, which cannot be refused. Others
    /// wait the longer.
    pub fn resize(&mut self, amount: u64) {
        self.queue.change(&mut self.queue.state(), self.client, self.amount, amount);
        self.amount = amount;
    }

    /// How much it is.
    pub fn amount(&self) -> u64 {
        self.amount
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_than_fits_is_refused_by_name() {
        let queue = Admission::new("verify", Unit::Items, 2);
        let client = ClientId::unseen();
        let taken = (queue.try_take(client, 1).unwrap(), queue.try_take(client, 1).unwrap());
        let refused = |queue: &Admission| queue.try_take(client, 1).unwrap_err().to_string();
        assert_eq!(refused(&queue), "queue `verify` is full, it takes 2 items");
        drop(taken);
        assert!(queue.try_take(client, 1).is_ok());
        let bytes = Admission::new("verify", Unit::Bytes, 100);
        let error = bytes.try_take(client, 101).unwrap_err().to_string();
        assert_eq!(error, "queue `verify` is full, it takes 100 bytes");
    }

    #[test]
    fn no_client_takes_all_and_whoever_comes_new_finds_something() {
        let queue = Admission::new("verify", Unit::Items, 800);
        let greedy = |client| {
            let mut held = Vec::new();
            loop {
                match queue.try_take(client, 1) {
                    Ok(one) => held.push(one),
                    Err(refused) => return (held, refused),
                }
            }
        };
        let (first, refused) = greedy(ClientId::unseen());
        assert_eq!(first.len(), 700);
        let message = "this client holds 700 of the 800 items of queue `verify`, the rest is kept for others";
        assert_eq!(refused.to_string(), message);
        let mut others = Vec::new();
        for _ in 0..3 {
            let (held, _) = greedy(ClientId::unseen());
            assert!(!held.is_empty());
            others.push(held);
        }
        drop((first, others));
        assert_eq!(queue.taken(), 0);
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
                held.extend(std::iter::from_fn(|| queue.try_take(client, 1).ok()));
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
        assert!(queue.try_take(ClientId::at("2001:db8::ffff".parse().unwrap()), 1).is_err(), "the same network");
        drop((first, others));
        assert!(queue.0.state().by_host.is_empty(), "hosts that hold nothing are forgotten");
    }

    #[test]
    fn a_single_large_amount_fits_where_it_fits_at_all() {
        let queue = Admission::new("verify", Unit::Bytes, 1000);
        let large = queue.try_take(ClientId::unseen(), 1000).unwrap();
        assert!(queue.try_take(ClientId::unseen(), 1).is_err());
        drop(large);
        assert_eq!(queue.taken(), 0);
    }

    #[test]
    fn results_are_counted_beyond_what_there_is() {
        let queue = Admission::new("verify", Unit::Bytes, 100);
        let mut result = queue.nothing(ClientId::unseen());
        result.resize(150);
        assert!(queue.try_take(ClientId::unseen(), 1).is_err());
        result.resize(10);
        assert!(queue.try_take(ClientId::unseen(), 1).is_ok());
    }

    #[test]
    fn status_splits_taken_places() {
        let queue = Admission::new("verify", Unit::Items, 5);
        let _places = [0; 3].map(|_| queue.try_take(ClientId::unseen(), 1).unwrap());
        assert_eq!(queue.status(1), QueueStatus { queued_items: 2, running_items: 1, capacity_items: 5 });
    }
}
