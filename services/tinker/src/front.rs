//! What handlers share: the state that survives, the model in training, results, sessions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_host::sha256;
use serde_json::json;
use tokio::sync::mpsc;

use crate::Adapters;
use crate::admission::{Admission, Room};
use crate::backend::Backend;
use crate::error::{ApiError, Failure};
use crate::futures::Futures;
use crate::proof::Verdicts;
use crate::sampling::SampleJob;
use crate::sessions::{Sessions, session_of};
use crate::settings::TinkerSettings;
use crate::store::{ClientSession, Live, Model, StoredState, now, remove_folders};
use crate::training::Training;

/// How long a result that was fetched is kept in any case: its response may be on its way, or lost.
const LOST: Duration = Duration::from_secs(5);

pub(crate) struct Front {
    pub(crate) settings: TinkerSettings,
    pub(crate) backend: Backend,
    pub(crate) adapters: Adapters,
    pub(crate) architecture: String,
    pub(crate) context: u32,
    pub(crate) vocabulary: u32,
    pub(crate) has_tokenizer: bool,
    pub(crate) futures: Futures,
    pub(crate) admission: Admission,
    pub(crate) sessions: Sessions,
    /// What is known of the weights that engines have loaded.
    pub(crate) verdicts: Verdicts,
    pub(crate) samples: mpsc::UnboundedSender<SampleJob>,
    /// Requests for samples, by sampling session and number.
    pub(crate) sampled: Mutex<HashMap<(String, u64), SampleRequest>>,
    /// Requests to create or load a model, by its id.
    pub(crate) created: Mutex<HashMap<String, String>>,
    /// Held while a model is created, so that there is one at a time.
    pub(crate) creating: tokio::sync::Mutex<()>,
    active: Mutex<Option<Arc<Training>>>,
    state: Mutex<StoredState>,
    /// Held from a change until it is on the disk. The state itself can be read meanwhile.
    writing: Mutex<()>,
    /// Distinguishes ids of this start from those of others.
    start: String,
    ids: AtomicU64,
}

/// A request for samples that was taken.
pub(crate) struct SampleRequest {
    pub(crate) digest: String,
    pub(crate) id: String,
    pub(crate) samples: u32,
    /// The memory of this record.
    pub(crate) _room: Room,
}

impl SampleRequest {
    /// Bytes of memory that a record takes, in round numbers.
    pub(crate) const BYTES: usize = 512;

    /// What the client is told.
    pub(crate) fn answer(&self) -> serde_json::Value {
        let Self { id, samples, .. } = self;
        let sequences: Vec<String> = (0..*samples).map(|number| format!("{id}-{number}")).collect();
        json!({"request_id": id, "sample_sequence_ids": sequences})
    }
}

pub(crate) struct FrontParts {
    pub(crate) settings: TinkerSettings,
    pub(crate) backend: Backend,
    pub(crate) adapters: Adapters,
    pub(crate) architecture: String,
    pub(crate) context: u32,
    pub(crate) vocabulary: u32,
    pub(crate) has_tokenizer: bool,
    pub(crate) samples: mpsc::UnboundedSender<SampleJob>,
    pub(crate) state: StoredState,
}

impl Front {
    pub(crate) fn new(parts: FrontParts) -> Arc<Self> {
        let FrontParts {
            settings,
            backend,
            adapters,
            architecture,
            context,
            vocabulary,
            has_tokenizer,
            samples,
            state,
        } = parts;
        let admission =
            Admission::new(settings.max_requests, settings.max_memory.bytes_usize(), settings.max_body.bytes_usize());
        let sessions = Sessions::default();
        // Whoever was there when the server stopped has its time from now on.
        state.sessions.iter().filter(|(_, session)| !session.ended).for_each(|(id, _)| sessions.begin(id));
        let entropy = format!("{:?}{}", std::time::SystemTime::now(), std::process::id());
        let start = sha256(entropy)["sha256:".len()..][..12].to_owned();
        Arc::new(Self {
            futures: Futures::new(admission.clone()),
            admission,
            sessions,
            verdicts: Verdicts::default(),
            samples,
            sampled: Mutex::default(),
            created: Mutex::default(),
            creating: tokio::sync::Mutex::default(),
            active: Mutex::default(),
            state: Mutex::new(state),
            writing: Mutex::default(),
            start,
            ids: AtomicU64::new(0),
            settings,
            backend,
            adapters,
            architecture,
            context,
            vocabulary,
            has_tokenizer,
        })
    }

    /// An id that no start of this server gives out again.
    pub(crate) fn fresh_id(&self, what: &str) -> String {
        format!("{what}-{}-{}", self.start, self.ids.fetch_add(1, Ordering::Relaxed))
    }

    /// Room for a body that is about to be read. Results that were fetched make place first.
    ///
    /// # Errors
    /// 429: there is none now.
    pub(crate) fn receive(&self, bytes: usize) -> Result<Room, ApiError> {
        self.admission.receive(bytes).or_else(|_| {
            self.futures.forget_fetched(LOST);
            self.admission.receive(bytes)
        })
    }

    /// Counts a request that was received among those that wait. Results that were fetched make place first.
    ///
    /// # Errors
    /// 429: there are too many now.
    pub(crate) fn admit(&self, room: Room) -> Result<Room, ApiError> {
        let admitted = self.admission.admit(room).or_else(|room| {
            self.futures.forget_fetched(LOST);
            self.admission.admit(room)
        });
        admitted.map_err(|_| ApiError::overloaded())
    }

    /// Runs what writes or removes files, so that no thread of the runtime waits for a disk.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let front = Arc::clone(self);
        match tokio::task::spawn_blocking(move || work(&front)).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends, and this task with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, StoredState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what survives. It is on the disk when this returns, or else undone. Waits for the disk: handlers call it
    /// by way of [`blocking`](Self::blocking).
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut StoredState) -> T) -> Result<T, Failure> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (changed, content) = {
            let mut state = self.state();
            (change(&mut state), state.content())
        };
        let folder = &self.settings.folder;
        if let Err(error) = StoredState::write(folder, content) {
            match StoredState::read(folder) {
                Ok(before) => *self.state() = before,
                Err(error) => tracing::warn!(%error, "a change that is not on the disk is not undone"),
            }
            return Err(Failure::server(format!("the server cannot write its state: {error}")));
        }
        Ok(changed)
    }

    pub(crate) fn fresh_version(&self) -> Result<u64, Failure> {
        self.change(StoredState::fresh_version)
    }

    /// The model in training.
    pub(crate) fn active(&self) -> Option<Arc<Training>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a model into the place of the one in training.
    pub(crate) fn set_active(&self, training: Arc<Training>) {
        *self.active.lock().unwrap_or_else(PoisonError::into_inner) = Some(training);
    }

    /// Ends a model, for a reason that its clients are told.
    pub(crate) fn end_model(&self, model: &str, why: &str) {
        let ended = self.change(|state| {
            if let Some(model) = state.models.get_mut(model) {
                model.gone.get_or_insert_with(|| why.to_owned());
            }
        });
        if let Err(failure) = ended {
            tracing::warn!(error = failure.message, "the end of a model is not recorded");
        }
        let mut active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(training) = active.take_if(|training| training.model == model) {
            training.ended.cancel();
        }
    }

    /// Takes the model in training out of its place, as the server stops.
    pub(crate) fn take_active(&self) -> Option<Arc<Training>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn why_gone(&self, model: &str) -> String {
        let gone = self.state().models.get(model).and_then(|model| model.gone.clone());
        gone.unwrap_or_else(|| "the server stopped".to_owned())
    }

    /// Begins a session under that id, for which there is a place.
    pub(crate) fn begin_session(&self, id: &str) -> Result<(), Failure> {
        let session = ClientSession { created: now(), ended: false };
        let removed = self.change(|state| {
            state.prune();
            state.sessions.insert(id.to_owned(), session);
            state.tidy(self.settings.keep_samplers, None)
        });
        remove_folders(&removed.inspect_err(|_| self.sessions.end(id))?);
        Ok(())
    }

    /// Ends a session: its model, its results, and the weights that only it sampled from.
    pub(crate) fn end_session(&self, id: &str, why: &str) {
        self.sessions.end(id);
        if let Some(training) = self.active().filter(|training| training.session == id) {
            self.end_model(&training.model, why);
        }
        self.futures.forget_session(id);
        let removed = self.change(|state| {
            if let Some(session) = state.sessions.get_mut(id) {
                session.ended = true;
            }
            state.tidy(self.settings.keep_samplers, None)
        });
        remove_folders(&removed.unwrap_or_default());
        self.sampled.lock().unwrap_or_else(PoisonError::into_inner).retain(|(sampler, _), _| session_of(sampler) != id);
        self.created.lock().unwrap_or_else(PoisonError::into_inner).retain(|model, _| session_of(model) != id);
        tracing::info!(session = id, why, "session ended");
    }

    pub(crate) fn begin_model(
        &self,
        id: &str,
        session: &str,
        user_metadata: Option<serde_json::Value>,
    ) -> Result<(), Failure> {
        let created = now();
        let session = session.to_owned();
        let model = Model { session, created, updated: created, user_metadata, gone: None };
        self.change(|state| state.models.insert(id.to_owned(), model)).map(drop)
    }

    /// Notes when a model was last used. It is written with the next change.
    pub(crate) fn note_update(&self, model: &str) {
        if let Some(model) = self.state().models.get_mut(model) {
            model.updated = now();
        }
    }

    /// Records what was in memory when the server stopped.
    pub(crate) fn parked(&self, live: Option<Live>) {
        if let Err(failure) = self.change(|state| state.live = live) {
            tracing::warn!(error = failure.message, "the model in training is not recorded");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn front(folder: &Path) -> Arc<Front> {
        let settings = TinkerSettings { folder: folder.to_owned(), ..TinkerSettings::default() };
        let nobody = "http://127.0.0.1:1";
        Front::new(FrontParts {
            backend: Backend::connect(nobody, nobody, &settings).unwrap(),
            settings,
            adapters: Adapters { rank: 8, mlp: true, attention: true, head: false },
            architecture: String::new(),
            context: 8,
            vocabulary: 8,
            has_tokenizer: false,
            samples: mpsc::unbounded_channel().0,
            state: StoredState::default(),
        })
    }

    #[tokio::test]
    async fn a_session_that_ends_leaves_nothing_behind_and_takes_nothing_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let front = front(folder.path());
        // The name of the first begins that of the second.
        for session in ["session-1", "session-10"] {
            front.begin_session(session).unwrap();
            front.created.lock().unwrap().insert(format!("{session}:train:0"), "request-1".to_owned());
            let _room = front.admission.receive(1).unwrap();
            let request = SampleRequest { digest: String::new(), id: "request-2".to_owned(), samples: 1, _room };
            front.sampled.lock().unwrap().insert((format!("{session}:sample:0"), 1), request);
        }
        front.end_session("session-1", "it ended");
        assert_eq!(front.created.lock().unwrap().keys().collect::<Vec<_>>(), ["session-10:train:0"]);
        let sampled = front.sampled.lock().unwrap();
        assert_eq!(sampled.keys().map(|(sampler, _)| sampler).collect::<Vec<_>>(), ["session-10:sample:0"]);
    }
}
