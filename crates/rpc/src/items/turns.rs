//! Turns at work, given to hosts in rotation, and to the clients of a host: whoever has a thousand items waiting, on however many
//! connections, delays the first of another by one of them.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::peer::{ClientId, Host};

/// So many items at once. Clones share them.
#[derive(Clone)]
pub(super) struct Turns(Arc<Mutex<State>>);

type Waiting = oneshot::Sender<Turn>;

struct State {
    free: usize,
    waiting: Rotation<Host, Rotation<ClientId, VecDeque<Waiting>>>,
}

/// An item's turn; dropping it gives it to the next.
pub(super) struct Turn(Option<Turns>);

impl std::fmt::Debug for Turn {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        text.write_str("Turn")
    }
}

/// What has items that wait.
trait Line: Default {
    /// The next that still waits.
    fn next(&mut self) -> Option<Waiting>;
    fn is_empty(&self) -> bool;
}

impl Line for VecDeque<Waiting> {
    fn next(&mut self) -> Option<Waiting> {
        std::iter::from_fn(|| self.pop_front()).find(|item| !item.is_closed())
    }

    fn is_empty(&self) -> bool {
        VecDeque::is_empty(self)
    }
}

/// Lines that are served one after the other, each once in a round.
struct Rotation<K, L> {
    order: VecDeque<K>,
    lines: HashMap<K, L>,
}

impl<K, L> Default for Rotation<K, L> {
    fn default() -> Self {
        Self { order: VecDeque::new(), lines: HashMap::new() }
    }
}

impl<K: Eq + Hash + Copy, L: Line> Rotation<K, L> {
    /// The line of one of them, which takes part from now on.
    fn line(&mut self, of: K) -> &mut L {
        self.lines.entry(of).or_insert_with(|| {
            self.order.push_back(of);
            L::default()
        })
    }
}

impl<K: Eq + Hash + Copy, L: Line> Line for Rotation<K, L> {
    fn next(&mut self) -> Option<Waiting> {
        while let Some(of) = self.order.pop_front() {
            let Some(line) = self.lines.get_mut(&of) else { continue };
            let next = line.next();
            if line.is_empty() {
                self.lines.remove(&of);
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
        self.lines.is_empty()
    }
}

impl Turns {
    pub(super) fn new(at_once: usize) -> Self {
        let state = State { free: at_once.max(1), waiting: Rotation::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next turn of a client. Whoever drops this no longer waits.
    pub(super) async fn take(&self, client: ClientId) -> Turn {
        let turn = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Turn(Some(self.clone()));
            }
            let (sender, turn) = oneshot::channel();
            let items = state.waiting.line(client.host()).line(client);
            if items.len() == items.capacity() {
                // Before it grows: items that were taken back leave nothing.
                items.retain(|item: &Waiting| !item.is_closed());
            }
            items.push_back(sender);
            turn
        };
        turn.await.expect("a sender is dropped by `give` alone, after it was used")
    }

    /// Gives a turn to the next item that still waits.
    fn give(&self) {
        let mut state = self.state();
        while let Some(next) = state.waiting.next() {
            match next.send(Turn(Some(self.clone()))) {
                Ok(()) => return,
                // Taken back at this very moment. The turn must not give itself while the state is locked.
                Err(mut turn) => drop(turn.0.take()),
            }
        }
        state.free += 1;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.0.take() {
            turns.give();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items in the order in which they get the one turn.
    async fn order(items: &[(ClientId, &'static str)], taken_back: &[&str]) -> Vec<&'static str> {
        let turns = Turns::new(1);
        let first = turns.take(ClientId::unseen()).await;
        let (log, mut entries) = tokio::sync::mpsc::unbounded_channel();
        let mut waiting = Vec::new();
        for &(client, name) in items {
            let (turns, log) = (turns.clone(), log.clone());
            let task = tokio::spawn(async move {
                let _turn = turns.take(client).await;
                log.send(name).unwrap();
            });
            tokio::task::yield_now().await;
            if taken_back.contains(&name) {
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
        assert_eq!(turns.state().free, 1, "every turn came back");
        assert!(turns.state().waiting.is_empty() && turns.state().waiting.order.is_empty());
        order
    }

    #[tokio::test]
    async fn a_client_with_many_items_delays_another_by_one() {
        let (many, one) = (ClientId::unseen(), ClientId::unseen());
        let items = [(many, "a"), (many, "b"), (many, "c"), (one, "x")];
        assert_eq!(order(&items, &[]).await, ["a", "x", "b", "c"]);
    }

    #[tokio::test]
    async fn many_connections_of_a_host_get_no_more_turns_than_one() {
        let host = "10.0.0.1".parse().unwrap();
        let [a, b, c] = [(); 3].map(|()| ClientId::at(host));
        let one = ClientId::at("10.0.0.2".parse().unwrap());
        let items = [(a, "a"), (b, "b"), (c, "c"), (a, "d"), (one, "x"), (one, "y")];
        assert_eq!(order(&items, &[]).await, ["a", "x", "b", "y", "c", "d"]);
    }

    #[tokio::test]
    async fn items_that_were_taken_back_get_no_turn() {
        let (many, one) = (ClientId::unseen(), ClientId::unseen());
        let items = [(many, "a"), (many, "b"), (one, "x"), (many, "c")];
        assert_eq!(order(&items, &["a", "x"]).await, ["b", "c"]);
    }
}
