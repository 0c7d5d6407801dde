//! Checkpoints and samplers: what is kept, found, and removed once its time is over.

use std::path::Path;
use std::sync::PoisonError;

use crate::error::Failure;
use crate::front::Front;
use crate::store::{Checkpoint, CheckpointKind, Sampler, Weights, remove_folder, remove_folders};

impl Front {
    /// Keeps a checkpoint, in the place of an earlier one of that path, whose files are removed.
    pub(crate) fn keep_checkpoint(&self, path: String, checkpoint: Checkpoint) -> Result<(), Failure> {
        let (kept, new) = (checkpoint.folder.clone(), checkpoint.weights.clone());
        let changed = self.change(|state| {
            let earlier = state.checkpoints.insert(path, checkpoint);
            let (folder, weights) = earlier.map_or((None, None), |earlier| (earlier.folder, earlier.weights));
            (folder, state.tidy(self.settings.keep_samplers, weights))
        });
        let (folder, weights) = changed.inspect_err(|_| self.discard(kept.as_deref(), new))?;
        // Saved by the same run it is the same folder.
        if let Some(folder) = folder.filter(|folder| kept.as_ref() != Some(folder)) {
            remove_folder(&folder);
        }
        remove_folders(&weights);
        Ok(())
    }

    pub(crate) fn has_checkpoint(&self, path: &str) -> bool {
        self.state().checkpoints.get(path).is_some_and(|checkpoint| !checkpoint.is_expired())
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
        let new = sampler.weights.clone();
        let removed = self.change(|state| {
            state.samplers.insert(id, sampler);
            state.tidy(self.settings.keep_samplers, None)
        });
        remove_folders(&removed.inspect_err(|_| self.discard(None, new))?);
        Ok(())
    }

    /// Removes the files of what could not be recorded, unless something else has them.
    fn discard(&self, folder: Option<&Path>, weights: Option<Weights>) {
        let state = self.state();
        let has_folder = state.checkpoints.values().any(|checkpoint| checkpoint.folder.as_deref() == folder);
        let used = state.used();
        drop(state);
        if let Some(folder) = folder.filter(|_| !has_folder) {
            remove_folder(folder);
        }
        remove_folders(&weights.into_iter().filter(|weights| !used.contains(&weights.version)).collect::<Vec<_>>());
    }

    /// Deletes a checkpoint; `None` where there is none.
    pub(crate) fn delete_checkpoint(&self, path: &str) -> Result<Option<()>, Failure> {
        let deleted = self.change(|state| {
            let checkpoint = state.checkpoints.remove(path)?;
            Some((checkpoint.folder, state.tidy(self.settings.keep_samplers, checkpoint.weights)))
        })?;
        let Some((folder, weights)) = deleted else { return Ok(None) };
        if let Some(folder) = folder {
            remove_folder(&folder);
        }
        remove_folders(&weights);
        Ok(Some(()))
    }

    /// What time makes obsolete: silent sessions, results that were fetched, checkpoints that expired.
    pub(crate) fn sweep(&self) {
        for session in self.sessions.silent(self.settings.session_expiry) {
            self.end_session(
                &session,
                "its session ended: the client was silent for session_expiry; load a checkpoint to continue",
            );
        }
        self.futures.forget_fetched(self.settings.keep_results);
        let mut sampled = self.sampled.lock().unwrap_or_else(PoisonError::into_inner);
        sampled.retain(|_, request| self.futures.has(&request.id));
        drop(sampled);
        let expired = |(path, checkpoint): (&String, &Checkpoint)| checkpoint.is_expired().then(|| path.clone());
        let expired: Vec<String> = self.state().checkpoints.iter().filter_map(expired).collect();
        for path in expired {
            if let Err(failure) = self.delete_checkpoint(&path) {
                tracing::warn!(path, error = failure.message, "an expired checkpoint is not deleted");
            }
        }
    }
}
