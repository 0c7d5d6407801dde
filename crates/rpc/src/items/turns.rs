//! Turns at work, given to clients in rotation: whoever has a thousand items waiting delays the first of another by one of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::peer::ClientId;

/// So many items at once. Clones share them.
#[derive(Clone)]
pub(super) struct Turns(Arc<Mutex<State>>);

struct State {
    free: usize,
    /// Clients with waiting items, each once.
    rotation: VecDeque<ClientId>,
    waiting: HashMap<ClientId, VecDeque<oneshot::Sender<Turn>>>,
}

/// An item's turn; dropping it gives it to the next.
pub(super) struct Turn(Option<Turns>);

impl std::fmt::Debug for Turn {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        text.write_str("Turn")
    }
}

impl Turns {
    pub(super) fn new(at_once: usize) -> Self {
        let state = State { free: at_once.max(1), rotation: VecDeque::new(), waiting: HashMap::new() };
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
            let State { rotation, waiting, .. } = &mut *state;
            let items = waiting.entry(client).or_insert_with(|| {
                rotation.push_back(client);
                VecDeque::new()
            });
            if items.len() == items.capacity() {
                // Before it grows: items that were taken back leave nothing.
                items.retain(|item: &oneshot::Sender<Turn>| !item.is_closed());
            }
            items.push_back(sender);
            turn
        };
        turn.await.expect("a sender is dropped by `give` alone, after it was used")
    }

    /// Gives a turn to the next item that still waits.
    fn give(&self) {
        let mut state = self.state();
        while let Some(client) = state.rotation.pop_front() {
            let Some(items) = state.waiting.get_mut(&client) else { continue };
            let next = std::iter::from_fn(|| items.pop_front()).find(|item| !item.is_closed());
            if items.is_empty() {
                state.waiting.remove(&client);
            } else {
                state.rotation.push_back(client);
            }
            let Some(next) = next else { continue };
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
        assert!(turns.state().waiting.is_empty() && turns.state().rotation.is_empty());
        order
    }

    #[tokio::test]
    async fn a_client_with_many_items_delays_another_by_one() {
        let (many, one) = (ClientId::unseen(), ClientId::unseen());
        let items = [(many, "a"), (many, "b"), (many, "c"), (one, "x")];
        assert_eq!(order(&items, &[]).await, ["a", "x", "b", "c"]);
    }

    #[tokio::test]
    async fn items_that_were_taken_back_get_no_turn() {
        let (many, one) = (ClientId::unseen(), ClientId::unseen());
        let items = [(many, "a"), (many, "b"), (one, "x"), (many, "c")];
        assert_eq!(order(&items, &["a", "x"]).await, ["b", "c"]);
    }
}
