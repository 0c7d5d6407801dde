//! When sessions were last heard of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tokio::sync::watch;

use crate::error::ApiError;

/// Sessions at once. A client that has ended leaves its place when it counts as gone.
const MAX_SESSIONS: usize = 1024;

/// The session that a model or a sampling session is of, by its id: `SESSION:train:0`, `SESSION:sample:3`.
pub(crate) fn session_of(id: &str) -> &str {
    id.split(':').next().unwrap_or_default()
}

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

    /// Begins a session, unless there are too many.
    ///
    /// # Errors
    /// 429.
    pub(crate) fn begin_another(&self, id: &str) -> Result<(), ApiError> {
        if self.lock().len() >= MAX_SESSIONS {
            let message = format!(
                "{MAX_SESSIONS} sessions are open: finish one, or wait until a silent one expires (session_expiry)"
            );
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, message));
        }
        self.begin(id);
        Ok(())
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

    /// Ids of the sessions that were silent for at least `limit`.
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

    #[test]
    fn there_are_only_so_many_and_one_that_ends_makes_room() {
        let sessions = Sessions::default();
        (0..MAX_SESSIONS).for_each(|number| sessions.begin_another(&number.to_string()).unwrap());
        assert_eq!(sessions.begin_another("more").unwrap_err().status, StatusCode::TOO_MANY_REQUESTS);
        sessions.end("0");
        assert!(sessions.begin_another("more").is_ok());
    }

    #[test]
    fn sessions_are_told_apart_by_their_whole_name() {
        assert_eq!(session_of("session-a-1:sample:3"), "session-a-1");
        assert_eq!(session_of("session-a-12:train:0"), "session-a-12");
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
