//! Results of long operations, which clients ask for until they are there. A result that was fetched is kept for a
//! while, since its response may have been lost; one that was not is kept until its session ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::admission::{Admission, Room};
use crate::error::Failure;

/// Bytes of memory that a result takes besides its content, in round numbers.
const ENTRY: usize = 1024;

/// What an operation came to.
#[derive(Debug, Clone)]
pub(crate) enum OperationOutcome {
    Json(Value),
    Protobuf(Bytes),
    Failed(Failure),
}

impl OperationOutcome {
    fn bytes(&self) -> usize {
        match self {
            Self::Json(_) => ENTRY,
            Self::Failed(Failure { message, .. }) => ENTRY + message.len(),
            Self::Protobuf(bytes) => ENTRY + bytes.len(),
        }
    }

    /// A failure as clients read it.
    pub(crate) fn failure(failure: &Failure) -> Value {
        let mut body = json!({"error": failure.message, "category": failure.category.name()});
        if let Some(reason) = failure.reason {
            body["reason"] = reason.into();
        }
        body
    }
}

struct Entry {
    session: String,
    outcome: watch::Sender<Option<Arc<OperationOutcome>>>,
    /// The memory of the request, then of the result.
    room: Option<Room>,
    fetched: Option<Instant>,
}

/// The results, by request ids.
#[derive(Clone)]
pub(crate) struct Futures(Arc<Mutex<HashMap<String, Entry>>>, Admission);

/// An operation that will have an outcome.
pub(crate) struct Promise {
    id: String,
    futures: Futures,
}

impl Futures {
    pub(crate) fn new(admission: Admission) -> Self {
        Self(Arc::default(), admission)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a request with that id, or its result.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    /// Begins an operation of a session, which holds `room`.
    pub(crate) fn promise(&self, id: String, session: &str, room: Room) -> Promise {
        let (outcome, _) = watch::channel(None);
        let entry = Entry { session: session.to_owned(), outcome, room: Some(room), fetched: None };
        self.lock().insert(id.clone(), entry);
        Promise { id, futures: self.clone() }
    }

    /// Waits for an outcome for at most `hold`. `Err` where there is no such request; `Ok(None)` where it is not done
    /// yet.
    pub(crate) async fn retrieve(&self, id: &str, hold: Duration) -> Result<Option<Arc<OperationOutcome>>, ()> {
        let mut outcome = self.lock().get(id).ok_or(())?.outcome.subscribe();
        let done = tokio::time::timeout(hold, outcome.wait_for(Option::is_some)).await;
        match done {
            Ok(Ok(outcome)) => {
                let outcome = outcome.clone();
                if let Some(entry) = self.lock().get_mut(id) {
                    entry.fetched.get_or_insert_with(Instant::now);
                }
                Ok(outcome)
            }
            // Its session ended meanwhile.
            Ok(Err(_)) => Err(()),
            Err(_) => Ok(None),
        }
    }

    /// Forgets what was fetched longer ago than that.
    pub(crate) fn forget_fetched(&self, keep: Duration) {
        self.lock().retain(|_, entry| entry.fetched.is_none_or(|fetched| fetched.elapsed() < keep));
    }

    /// Forgets the results of a session that has ended. What is still to come has no one to ask for it.
    pub(crate) fn forget_session(&self, session: &str) {
        self.lock().retain(|_, entry| entry.session != session || entry.outcome.borrow().is_none());
        for entry in self.lock().values_mut().filter(|entry| entry.session == session) {
            // Swept once it is there.
            entry.fetched = Some(Instant::now());
        }
    }

    fn complete(&self, id: &str, outcome: OperationOutcome) {
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(id) {
            // The request is not needed any more.
            entry.room = None;
            entry.room = Some(self.1.charge(outcome.bytes()));
            entry.outcome.send_replace(Some(Arc::new(outcome)));
        }
    }
}

impl Promise {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Hands the outcome over.
    pub(crate) fn complete(self, outcome: OperationOutcome) {
        self.futures.complete(&self.id, outcome);
    }

    pub(crate) fn settle(self, result: Result<OperationOutcome, Failure>) {
        self.complete(result.unwrap_or_else(OperationOutcome::Failed));
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let unanswered = self.futures.lock().get(&self.id).is_some_and(|entry| entry.outcome.borrow().is_none());
        if unanswered {
            self.futures.complete(&self.id, OperationOutcome::Failed(Failure::server("the operation was dropped")));
        }
    }
}
