//! Stored weights and moments in place of the current ones.

use std::path::Path;

use candle_core::{Device, Tensor};
use evenkeel_model::kernels::Moment;

use super::Trainer;
use crate::error::{LearnerError, Result};
use crate::memory::MemoryPhase;
use crate::optimizer::UpdateCounts;
use crate::terms::{LossTerms, TermStates};

/// Stored weights and moments, which are read one by one: there is no room for a second copy of all of them.
pub(crate) trait StoredState {
    /// Folder with the stored state.
    fn folder(&self) -> &Path;
    /// The fp32 weights of a parameter, by its number among those that are trained.
    fn weights(&self, parameter: usize, device: &Device) -> Result<Tensor>;
    /// A moment of a parameter in fp32.
    fn moment(&self, moment: Moment, parameter: usize, device: &Device) -> Result<Tensor>;
}

/// What belongs to them.
pub(crate) struct StoredCounters {
    pub(crate) optimizer: UpdateCounts,
    pub(crate) version: u64,
    pub(crate) seed: u64,
    /// The states of the loss's terms; one that has none here begins afresh.
    pub(crate) terms: TermStates,
}

impl Trainer {
    /// Replaces weights and moments by stored ones, one by one.
    ///
    /// # Errors
    /// A failure of a file or of the device. Then weights and moments are those of no step, and nothing can be done
    /// with them until a checkpoint has been restored completely.
    pub(crate) fn restore(&mut self, stored: &dyn StoredState, numbers: StoredCounters) -> Result<()> {
        let restored = self.replace(stored, numbers);
        self.explained(MemoryPhase::Restoring, restored)
    }

    fn replace(&mut self, stored: &dyn StoredState, numbers: StoredCounters) -> Result<()> {
        let terms = self.restored_terms(stored, &numbers.terms)?;
        self.model.discard_gradients();
        self.partially_loaded = Some(stored.folder().to_owned());
        let device = self.parameters().device().clone();
        let moments_device = self.optimizer.moments().device(&device);
        // Also the moments of other ranks, which may come with them.
        for id in 0..self.parameters().trained_specs().len() {
            self.model.parameters_mut().trained_values_mut()[id] = stored.weights(id, &device)?;
            for moment in Moment::ALL {
                self.optimizer.moments_mut().set(moment, id, stored.moment(moment, id, &moments_device)?)?;
            }
        }
        self.optimizer.set_counts(numbers.optimizer);
        self.terms = terms;
        self.version = numbers.version;
        self.skipped = 0;
        self.set_seed(numbers.seed);
        (self.partially_loaded, self.is_torn) = (None, false);
        Ok(())
    }

    /// The terms of the loss with stored states.
    ///
    /// # Errors
    /// A state that no term can have.
    pub(super) fn restored_terms(&self, stored: &dyn StoredState, states: &TermStates) -> Result<LossTerms> {
        let terms = self.settings.loss_terms().with_states(states);
        terms.map_err(|reason| LearnerError::checkpoint(stored.folder(), reason))
    }

    /// Gives the weights another version: a caller that returns to earlier weights keeps versions apart in this way.
    pub(crate) fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    /// Begins with fresh moments, whatever was done before.
    pub(crate) fn restart_optimizer(&mut self) -> Result<()> {
        self.optimizer.restart(self.model.parameters())
    }

    /// Refuses to work with what a partially loaded folder, or an exchange that failed, has left.
    ///
    /// # Errors
    /// What it was, and what to do.
    pub(crate) fn check_whole(&self) -> Result<()> {
        match &self.partially_loaded {
            None if self.is_torn => Err(LearnerError::Torn),
            None => Ok(()),
            Some(folder) => Err(LearnerError::checkpoint(
                folder,
                "was only partially loaded: load a checkpoint, or reset the learner, before anything else",
            )),
        }
    }
}
