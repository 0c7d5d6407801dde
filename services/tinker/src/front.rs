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
use crate::sampling::SampleJob;
use crate::sessions::Sessions;
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
    pub(crate) samples: mpsc::UnboundedSender<SampleJob>,
    /// Requests for samples, by sampling session and number.
    pub(crate) sampled: Mutex<HashMap<(String, u64), SampleRequest>>,
    /// Requests to create or load a model, by its id.
    pub(crate) created: Mutex<HashMap<String, String>>,
    /// Held while a model is created, so that there is one at a time.
    pub(crate) creating: tokio::sync::Mutex<()>,
    active: Mutex<Option<Arc<Training>>>,
    state: Mutex<StoredState>,
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
        let admission = Admission::new(settings.max_requests, settings.max_memory.bytes_usize());
        let sessions = Sessions::default();
        // Whoever was there when the server stopped has its time from now on.
        state.sessions.iter().filter(|(_, session)| !session.ended).for_each(|(id, _)| sessions.begin(id));
        let entropy = format!("{:?}{}", std::time::SystemTime::now(), std::process::id());
        let start = sha256(entropy)["sha256:".len()..][..12].to_owned();
        Arc::new(Self {
            futures: Futures::new(admission.clone()),
            admission,
            sessions,
            samples,
            sampled: Mutex::default(),
            created: Mutex::default(),
            creating: tokio::sync::Mutex::default(),
            active: Mutex::default(),
            state: Mutex::new(state),
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

    /// Room for a request. Results that were fetched make place first.
    ///
    /// # Errors
    /// 429: there is none now.
    pub(crate) fn admit(&self, bytes: usize) -> Result<Room, ApiError> {
        self.admission.admit(bytes).or_else(|_| {
            self.futures.forget_fetched(LOST);
            self.admission.admit(bytes)
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, StoredState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what survives. It is on the disk when this returns.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut StoredState) -> T) -> Result<T, Failure> {
        let mut state = self.state();
        let changed = change(&mut state);
        let written = state.write(&self.settings.folder);
        written.map_err(|error| Failure::server(format!("the server cannot write its state: {error}")))?;
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

    pub(crate) fn begin_session(&self) -> Result<String, Failure> {
        let id = self.fresh_id("session");
        let session = ClientSession { created: now(), ended: false };
        self.change(|state| {
            state.prune();
            state.sessions.insert(id.clone(), session)
        })?;
        self.sessions.begin(&id);
        Ok(id)
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
            let mut removed = Vec::new();
            state.samplers.retain(|_, sampler| {
                let is_removed = sampler.is_ephemeral && sampler.session == id;
                removed.extend(sampler.weights.clone().filter(|_| is_removed));
                !is_removed
            });
            state.unused(removed)
        });
        remove_folders(&removed.unwrap_or_default());
        self.sampled.lock().unwrap_or_else(PoisonError::into_inner).retain(|(sampler, _), _| !sampler.starts_with(id));
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
