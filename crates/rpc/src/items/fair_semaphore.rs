//! A semaphore that is fair to hosts, and to the clients of each host. A host with a thousand waiting items, on however
//! many connections, delays the first item of another host by one item only.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::peer::{ClientId, Host};

/// Limits how many items run at once. Clones share the permits.
#[derive(Clone)]
pub(super) struct FairSemaphore(Arc<Mutex<State>>);

type Waiting = oneshot::Sender<FairPermit>;

struct State {
    free: usize,
    waiting: RoundRobin<Host, RoundRobin<ClientId, VecDeque<Waiting>>>,
}

/// The permit to run one item; dropping it passes it on to the next item.
pub(super) struct FairPermit(Option<FairSemaphore>);

impl std::fmt::Debug for FairPermit {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        text.write_str("FairPermit")
    }
}

/// Items that wait for a permit.
trait WaitQueue: Default {
    /// The next item that is still waiting.
    fn next(&mut self) -> Option<Waiting>;
    fn is_empty(&self) -> bool;
}

impl WaitQueue for VecDeque<Waiting> {
    fn next(&mut self) -> Option<Waiting> {
        std::iter::from_fn(|| self.pop_front()).find(|item| !item.is_closed())
    }

    fn is_empty(&self) -> bool {
        VecDeque::is_empty(self)
    }
}

/// Queues that are served in turn.
struct RoundRobin<K, L> {
    order: VecDeque<K>,
    queues: HashMap<K, L>,
}

impl<K, L> Default for RoundRobin<K, L> {
    fn default() -> Self {
        Self { order: VecDeque::new(), queues: HashMap::new() }
    }
}

impl<K: Eq + Hash + Copy, L: WaitQueue> RoundRobin<K, L> {
    /// The queue of `of`, which joins the rotation if it is new.
    fn queue(&mut self, of: K) -> &mut L {
        self.queues.entry(of).or_insert_with(|| {
            self.order.push_back(of);
            L::default()
        })
    }
}

impl<K: Eq + Hash + Copy, L: WaitQueue> WaitQueue for RoundRobin<K, L> {
    fn next(&mut self) -> Option<Waiting> {
        while let Some(of) = self.order.pop_front() {
            let Some(queue) = self.queues.get_mut(&of) else { continue };
            let next = queue.next();
            if queue.is_empty() {
                self.queues.remove(&of);
            } else {
                self.order.push_back(of);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }

    fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}

impl FairSemaphore {
    pub(super) fn new(permits: usize) -> Self {
        let state = State { free: permits.max(1), waiting: RoundRobin::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit. Dropping the future gives up the place in the queue.
    pub(super) async fn acquire(&self, client: ClientId) -> FairPermit {
        let permit = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return FairPermit(Some(self.clone()));
            }
            let (sender, permit) = oneshot::channel();
            let items = state.waiting.queue(client.host()).queue(client);
            if items.len() == items.capacity() {
                // Cancelled items must not make the queue grow.
                items.retain(|item: &Waiting| !item.is_closed());
            }
            items.push_back(sender);
            permit
        };
        permit.await.expect("`release` sends a permit before it drops a sender")
    }

    /// Passes a permit on to the next waiting item.
    fn release(&self) {
        let mut state = self.state();
        while let Some(next) = state.waiting.next() {
            match next.send(FairPermit(Some(self.clone()))) {
                Ok(()) => return,
                // Cancelled just now. The permit must not release itself while the state is locked.
                Err(mut permit) => drop(permit.0.take()),
            }
        }
        state.free += 1;
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        if let Some(semaphore) = self.0.take() {
            semaphore.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items in the order in which they get the only permit.
    async fn order(items: &[(ClientId, &'static str)], cancelled: &[&str]) -> Vec<&'static str> {
        let semaphore = FairSemaphore::new(1);
        let first = semaphore.acquire(ClientId::anonymous()).await;
        let (log, mut entries) = tokio::sync::mpsc::unbounded_channel();
        let mut waiting = Vec::new();
        for &(client, name) in items {
            let semaphore = semaphore.clone();
            let log = log.clone();
            let task = tokio::spawn(async move {
                let _permit = semaphore.acquire(client).await;
                log.send(name).unwrap();
            });
            tokio::task::yield_now().await;
            if cancelled.contains(&name) {
                task.abort();
            } else {
                waiting.push(task);
            }
        }
        tokio::task::yield_now().await;
        drop((first, log));
        let mut order = Vec::new();
        while let Some(name) = entries.recv().await {
            order.push(name);
        }
        assert_eq!(semaphore.state().free, 1, "every permit came back");
        assert!(semaphore.state().waiting.is_empty() && semaphore.state().waiting.order.is_empty());
        order
    }

    #[tokio::test]
    async fn a_client_with_many_items_delays_another_by_one() {
        let many = ClientId::anonymous();
        let one = ClientId::anonymous();
        let items = [(many, "a"), (many, "b"), (many, "c"), (one, "x")];
        assert_eq!(order(&items, &[]).await, ["a", "x", "b", "c"]);
    }

    #[tokio::test]
    async fn many_connections_of_a_host_get_no_more_permits_than_one() {
        let host = "10.0.0.1".parse().unwrap();
        let [a, b, c] = [(); 3].map(|()| ClientId::at(host));
        let one = ClientId::at("10.0.0.2".parse().unwrap());
        let items = [(a, "a"), (b, "b"), (c, "c"), (a, "d"), (one, "x"), (one, "y")];
        assert_eq!(order(&items, &[]).await, ["a", "x", "b", "y", "c", "d"]);
    }

    #[tokio::test]
    async fn cancelled_items_get_no_permit() {
        let many = ClientId::anonymous();
        let one = ClientId::anonymous();
        let items = [(many, "a"), (many, "b"), (one, "x"), (many, "c")];
        assert_eq!(order(&items, &["a", "x"]).await, ["b", "c"]);
    }
}
