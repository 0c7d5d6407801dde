//! Checkpoints and samplers: what is kept, found, and removed once its time is over.

use std::sync::PoisonError;

use crate::error::Failure;
use crate::front::Front;
use crate::store::{Checkpoint, CheckpointKind, Sampler, Weights, remove_folders};

impl Front {
    /// Keeps a checkpoint, in the place of an earlier one of that path.
    pub(crate) fn keep_checkpoint(&self, path: String, checkpoint: Checkpoint) -> Result<(), Failure> {
        let removed = self.change(|state| {
            let earlier = state.checkpoints.insert(path, checkpoint);
            state.unused(earlier.and_then(|earlier| earlier.weights).into_iter().collect())
        })?;
        remove_folders(&removed);
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
            state.unused(removed)
        })?;
        remove_folders(&removed);
        Ok(())
    }

    /// Deletes a checkpoint; `None` where there is none.
    pub(crate) fn delete_checkpoint(&self, path: &str) -> Result<Option<()>, Failure> {
        let deleted = self.change(|state| {
            let checkpoint = state.checkpoints.remove(path)?;
            let weights = state.unused(checkpoint.weights.clone().into_iter().collect());
            Some((checkpoint.folder, weights))
        })?;
        let Some((folder, weights)) = deleted else { return Ok(None) };
        if let Some(folder) = folder
            && let Err(error) = std::fs::remove_dir_all(&folder)
        {
            tracing::warn!(path = %folder.display(), %error, "a checkpoint's folder is not removed");
        }
        remove_folders(&weights);
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
