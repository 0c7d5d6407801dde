//! When sessions were last heard of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// The sessions whose clients count as present.
#[derive(Clone, Default)]
pub(crate) struct Sessions(Arc<Mutex<HashMap<String, watch::Sender<Instant>>>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, id: &str) {
        self.lock().insert(id.to_owned(), watch::channel(Instant::now()).0);
    }

    pub(crate) fn end(&self, id: &str) {
        self.lock().remove(id);
    }

    /// Notes that a session was heard of; false if it has ended.
    pub(crate) fn heard(&self, id: &str) -> bool {
        self.lock().get(id).is_some_and(|seen| {
            seen.send_replace(Instant::now());
            true
        })
    }

    /// Those that were silent for longer.
    pub(crate) fn silent(&self, limit: Duration) -> Vec<String> {
        self.lock().iter().filter(|(_, seen)| seen.borrow().elapsed() >= limit).map(|(id, _)| id.clone()).collect()
    }

    /// Waits until a session is heard of again (true), or has been silent for `limit` or has ended (false).
    pub(crate) async fn is_heard_again(&self, id: &str, limit: Duration) -> bool {
        let Some(mut seen) = self.lock().get(id).map(watch::Sender::subscribe) else { return false };
        let left = limit.saturating_sub(seen.borrow_and_update().elapsed());
        matches!(tokio::time::timeout(left, seen.changed()).await, Ok(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_silent_session_is_not_waited_for_longer_than_its_limit() {
        let sessions = Sessions::default();
        sessions.begin("a");
        assert!(!sessions.is_heard_again("a", Duration::from_millis(20)).await);
        assert_eq!(sessions.silent(Duration::from_millis(20)), ["a"]);
        assert!(!sessions.is_heard_again("unknown", Duration::from_secs(9)).await);
    }

    #[tokio::test]
    async fn a_session_that_is_heard_of_is_present() {
        let sessions = Sessions::default();
        sessions.begin("a");
        let waiting = tokio::spawn({
            let sessions = sessions.clone();
            async move { sessions.is_heard_again("a", Duration::from_secs(60)).await }
        });
        tokio::task::yield_now().await;
        assert!(sessions.heard("a") && !sessions.heard("b"));
        assert!(waiting.await.unwrap());
        sessions.end("a");
        assert!(!sessions.heard("a"));
    }
}
