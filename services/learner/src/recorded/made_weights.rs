//! Weights that a replayed step made, against those that the run published and kept.

use evenkeel_run::RECEIPT_FILE;

use super::error::{Deviation, ReplayError};
use super::replay::Replay;
use crate::checkpoint::differing_file;
use crate::error::Result;
use crate::publish::PublishOptions;

impl Replay {
    /// Compares the weights at hand, after a step, with their digest in the receipt. Returns whether there is one.
    ///
    /// # Errors
    /// [`ReplayError::Different`] for other weights; a folder that cannot be written.
    pub(super) fn has_recorded_weights(&self, step: u64) -> Result<bool, ReplayError> {
        let version = self.learner.version();
        let Some(expected) = self.run.weights(version) else { return Ok(false) };
        let found = self.digest(false)?;
        // Where engines do not reload a tied head, it is written out: other files of the same weights.
        let is_equal =
            found == expected || (self.learner.config().tie_word_embeddings && self.digest(true)? == expected);
        if is_equal {
            return Ok(true);
        }
        let origin = self.run.record().forked_from.as_ref().filter(|origin| step <= origin.step);
        let whose = origin.map_or_else(String::new, |origin| format!(" of run `{}`", origin.run_id));
        let what = format!(
            "the weights of version {version} have digest {found} now, and {expected} in {RECEIPT_FILE}{whose}"
        );
        let folder = self.weights.published_folder(version);
        let file = folder.map_or_else(|| RECEIPT_FILE.to_owned(), |folder| self.run.name_of(folder));
        Err(Deviation { file, what }.at(step))
    }

    /// Compares weights and moments at hand, after a step, with the checkpoint of that step, if it is there. Returns
    /// whether it is.
    ///
    /// # Errors
    /// [`ReplayError::Different`] for another checkpoint; one that cannot be read, a folder that cannot be written.
    pub(super) fn has_recorded_checkpoint(&self, step: u64) -> Result<bool, ReplayError> {
        let Some(kept) = self.weights.checkpoint(step) else { return Ok(false) };
        let written = self.settings.scratch.join("checkpoint");
        self.learner.save_checkpoint(&written, &[])?;
        let differing = differing_file(&written, kept);
        let removed = std::fs::remove_dir_all(&written).map_err(crate::LearnerError::file(&written));
        let Some(name) = differing? else { return Ok(removed.map(|()| true)?) };
        let what = "has other content than the step made".to_owned();
        Err(Deviation { file: format!("{}/{name}", self.run.name_of(kept)), what }.at(step))
    }

    /// The digest of the weights at hand as the run publishes them.
    fn digest(&self, write_out_head: bool) -> Result<String> {
        let options = PublishOptions::for_engines(self.settings.publish_type);
        let options = PublishOptions { write_out_head, ..options };
        // What was written goes with the staged folder.
        let (published, _staged) = self.learner.stage(&self.settings.scratch, options)?;
        Ok(published.digest)
    }
}
