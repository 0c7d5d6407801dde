//! What handlers share: the state that survives, the model in training, results, sessions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_files::sha256;
use tokio::sync::mpsc;

use crate::Adapters;
use crate::admission::Admission;
use crate::backend::Backend;
use crate::error::Failure;
use crate::futures::Futures;
use crate::sampling::SampleJob;
use crate::sessions::Sessions;
use crate::settings::TinkerSettings;
use crate::store::{Checkpoint, CheckpointKind, Live, Model, Sampler, Session, State, Weights, now};
use crate::training::Training;

/// The front.
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
    /// Requests for samples, by sampling session and number: digest of the content and id.
    pub(crate) sampled: Mutex<HashMap<(String, u64), (String, String, Vec<String>)>>,
    /// Requests to create or load a model, by its id.
    pub(crate) created: Mutex<HashMap<String, String>>,
    /// Held while a model is created, so that there is one at a time.
    pub(crate) creating: tokio::sync::Mutex<()>,
    active: Mutex<Option<Arc<Training>>>,
    state: Mutex<State>,
    /// Distinguishes ids of this start from those of others.
    start: String,
    ids: AtomicU64,
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
    pub(crate) state: State,
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

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what survives. It is on the disk when this returns.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> Result<T, Failure> {
        let mut state = self.state();
        let changed = change(&mut state);
        let written = state.write(&self.settings.folder);
        written.map_err(|error| Failure::server(format!("the server cannot write its state: {error}")))?;
        Ok(changed)
    }

    pub(crate) fn fresh_version(&self) -> Result<u64, Failure> {
        self.change(State::fresh_version)
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
        let session = Session { created: now(), ended: false };
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
            unused(state, removed)
        });
        self.remove(removed.unwrap_or_default());
        self.sampled.lock().unwrap_or_else(PoisonError::into_inner).retain(|(sampler, _), _| !sampler.starts_with(id));
        tracing::info!(session = id, why, "session ended");
    }

    /// Removes folders of weights.
    fn remove(&self, weights: Vec<Weights>) {
        for weights in weights {
            if let Err(error) = std::fs::remove_dir_all(&weights.path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(path = weights.path, %error, "weights are not removed");
            }
        }
    }

    pub(crate) fn begin_model(
        &self,
        id: &str,
        session: &str,
        user_metadata: Option<serde_json::Value>,
    ) -> Result<(), Failure> {
        let (created, session) = (now(), session.to_owned());
        let model = Model { session, created, updated: created, user_metadata, gone: None };
        self.change(|state| state.models.insert(id.to_owned(), model)).map(drop)
    }

    /// Notes when a model was last used. It is written with the next change.
    pub(crate) fn note_update(&self, model: &str) {
        if let Some(model) = self.state().models.get_mut(model) {
            model.updated = now();
        }
    }

    pub(crate) fn keep_checkpoint(&self, path: String, checkpoint: Checkpoint) -> Result<(), Failure> {
        self.change(|state| state.checkpoints.insert(path, checkpoint)).map(drop)
    }

    /// The run and the name of a checkpoint to load.
    pub(crate) fn training_checkpoint(&self, path: &str) -> Result<(String, String), Failure> {
        let state = self.state();
        match state.checkpoints.get(path).filter(|checkpoint| !checkpoint.is_expired()) {
            Some(Checkpoint { kind: CheckpointKind::Training, run_id, name, .. }) => Ok((run_id.clone(), name.clone())),
            Some(_) => {
                Err(Failure::user(format!("path is {path:?}, allowed: a checkpoint of save_weights, to be trained on")))
            }
            None => Err(Failure::user(format!("there is no checkpoint {path:?} (any more)"))),
        }
    }

    /// The weights of a checkpoint for sampling.
    pub(crate) fn sampler_checkpoint(&self, path: &str) -> Result<Weights, Failure> {
        let state = self.state();
        match state.checkpoints.get(path).filter(|checkpoint| !checkpoint.is_expired()) {
            Some(Checkpoint { weights: Some(weights), .. }) => Ok(weights.clone()),
            Some(_) => {
                Err(Failure::user(format!("model_path is {path:?}, allowed: a checkpoint of save_weights_for_sampler")))
            }
            None => Err(Failure::user(format!("there is no checkpoint {path:?} (any more)"))),
        }
    }

    /// Keeps what a session samples from; of weights without a name the newest.
    pub(crate) fn keep_sampler(&self, id: String, sampler: Sampler) -> Result<(), Failure> {
        let most = self.settings.keep_samplers;
        let removed = self.change(|state| {
            let session = sampler.session.clone();
            state.samplers.insert(id, sampler);
            let of_session = |sampler: &Sampler| sampler.is_ephemeral && sampler.session == session;
            let mut oldest: Vec<(u64, String)> = state
                .samplers
                .iter()
                .filter(|(_, sampler)| of_session(sampler))
                .filter_map(|(id, sampler)| Some((sampler.weights.as_ref()?.version, id.clone())))
                .collect();
            oldest.sort_unstable();
            let beyond = oldest.len().saturating_sub(most);
            let removed = oldest.into_iter().take(beyond).filter_map(|(_, id)| state.samplers.remove(&id)?.weights);
            let removed = removed.collect();
            unused(state, removed)
        })?;
        self.remove(removed);
        Ok(())
    }

    /// Deletes a checkpoint; `None` where there is none.
    pub(crate) fn delete_checkpoint(&self, path: &str) -> Result<Option<()>, Failure> {
        let deleted = self.change(|state| {
            let checkpoint = state.checkpoints.remove(path)?;
            let weights = unused(state, checkpoint.weights.clone().into_iter().collect());
            Some((checkpoint.folder, weights))
        })?;
        let Some((folder, weights)) = deleted else { return Ok(None) };
        if let Some(folder) = folder
            && let Err(error) = std::fs::remove_dir_all(&folder)
        {
            tracing::warn!(path = %folder.display(), %error, "a checkpoint's folder is not removed");
        }
        self.remove(weights);
        Ok(Some(()))
    }

    /// What time makes obsolete: silent sessions, results that were fetched, checkpoints that expired.
    pub(crate) fn sweep(&self) {
        for session in self.sessions.silent(self.settings.session_expiry) {
            self.end_session(
                &session,
                "its session ended: the client was silent for session_expiry; load a checkpoint to go on",
            );
        }
        self.futures.forget_fetched(self.settings.keep_results);
        let expired = |(path, checkpoint): (&String, &Checkpoint)| checkpoint.is_expired().then(|| path.clone());
        let expired: Vec<String> = self.state().checkpoints.iter().filter_map(expired).collect();
        for path in expired {
            if let Err(failure) = self.delete_checkpoint(&path) {
                tracing::warn!(path, error = failure.message, "an expired checkpoint is not deleted");
            }
        }
    }

    /// Records what was in memory when the server stopped.
    pub(crate) fn parked(&self, live: Option<Live>) {
        if let Err(failure) = self.change(|state| state.live = live) {
            tracing::warn!(error = failure.message, "the model in training is not recorded");
        }
    }
}

/// Those weights that nothing refers to any more.
fn unused(state: &State, weights: Vec<Weights>) -> Vec<Weights> {
    let of_samplers = state.samplers.values().filter_map(|sampler| sampler.weights.as_ref());
    let of_checkpoints = state.checkpoints.values().filter_map(|checkpoint| checkpoint.weights.as_ref());
    let used: Vec<&Weights> = of_samplers.chain(of_checkpoints).chain(&state.base).collect();
    let used: Vec<u64> = used.into_iter().map(|weights| weights.version).collect();
    weights.into_iter().filter(|weights| !used.contains(&weights.version)).collect()
}
