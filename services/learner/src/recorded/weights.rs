//! The weights that a run still has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evenkeel_run::RunRecord;

use crate::error::Result;
use crate::{checkpoints_of, published_versions};

/// Weights that a run still has, from which its steps can be done again.
#[derive(Clone, Debug, Default)]
pub struct StoredWeights {
    /// Folders of checkpoints by the step after which they were written.
    checkpoints: BTreeMap<u64, PathBuf>,
    /// Folders of published weights by their version.
    published: BTreeMap<u64, PathBuf>,
    /// Whether step 1 began with the weights of the model's folder.
    starts_from_model: bool,
}

/// Where the weights before a step come from.
pub(super) enum Source {
    Checkpoint(PathBuf),
    Published(PathBuf),
    /// Before the first step.
    Model,
}

impl StoredWeights {
    /// Looks for them in the directory of a run.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn find(record: &RunRecord) -> Result<Self> {
        let folder = record.path.join("checkpoints");
        let mut checkpoints = checkpoints_of(&folder, &record.run_id)?;
        // A fork begins with a checkpoint of its origin.
        if let Some(origin) = &record.forked_from
            && let Some(first) = checkpoints_of(&folder, &origin.run_id)?.remove(&origin.step)
        {
            checkpoints.entry(origin.step).or_insert(first);
        }
        Ok(Self {
            checkpoints,
            published: published_versions(&record.path.join("weights"))?,
            starts_from_model: record.warm_start.is_empty() && record.forked_from.is_none(),
        })
    }

    /// Leaves out checkpoints, as those that were rounded.
    #[must_use]
    pub fn without_checkpoints(self) -> Self {
        Self { checkpoints: BTreeMap::new(), ..self }
    }

    /// Leaves out published weights, as those that were rounded.
    #[must_use]
    pub fn without_published(self) -> Self {
        Self { published: BTreeMap::new(), ..self }
    }

    /// The state from right before a step with the optimizer's moments, which later steps can follow.
    pub(super) fn before(&self, step: u64) -> Option<Source> {
        let done = step.checked_sub(1)?;
        match self.checkpoints.get(&done) {
            Some(folder) => Some(Source::Checkpoint(folder.clone())),
            None => (done == 0 && self.starts_from_model).then_some(Source::Model),
        }
    }

    /// The published weights of a version, which have no moments.
    pub(super) fn published(&self, version: u64) -> Option<Source> {
        self.published.get(&version).cloned().map(Source::Published)
    }

    /// The last step up to this one that [`before`](Self::before) knows.
    pub(super) fn nearest(&self, step: u64) -> Option<u64> {
        self.starts(step).next()
    }

    /// The steps before which [`before`](Self::before) knows the state, up to this one, the last one first.
    pub(super) fn starts(&self, step: u64) -> impl Iterator<Item = u64> {
        let after_checkpoints = self.checkpoints.range(..step).rev().map(|(done, _)| done + 1);
        let from_model = self.starts_from_model && !self.checkpoints.contains_key(&0);
        after_checkpoints.chain(from_model.then_some(1))
    }

    /// The folder of a published version.
    pub(super) fn published_folder(&self, version: u64) -> Option<&Path> {
        self.published.get(&version).map(PathBuf::as_path)
    }

    /// The checkpoint that was written after a step.
    pub(super) fn checkpoint(&self, step: u64) -> Option<&Path> {
        self.checkpoints.get(&step).map(PathBuf::as_path)
    }

    /// What there is, for an error.
    pub(super) fn described(&self) -> String {
        let list = |numbers: Vec<String>| if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
        let steps = list(self.checkpoints.keys().map(u64::to_string).collect());
        let versions = list(self.published.keys().map(u64::to_string).collect());
        format!("usable checkpoints: {steps}; usable published versions: {versions}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(checkpoints: &[u64], starts_from_model: bool) -> StoredWeights {
        let checkpoints = checkpoints.iter().map(|step| (*step, PathBuf::from(step.to_string()))).collect();
        StoredWeights { checkpoints, starts_from_model, ..StoredWeights::default() }
    }

    #[test]
    fn the_nearest_state_before_a_step_is_that_of_the_last_checkpoint_or_the_start() {
        let nearest = |checkpoints: &[u64], step| stored(checkpoints, true).nearest(step);
        assert_eq!(
            [nearest(&[2, 4], 5), nearest(&[2, 4], 4), nearest(&[2, 4], 2), nearest(&[], 3)],
            [Some(5), Some(3), Some(1), Some(1)]
        );
        assert_eq!(stored(&[4], false).nearest(4), None, "the weights after the warm start were not kept");
        assert!(matches!(stored(&[4], false).before(5), Some(Source::Checkpoint(_))));
        assert!(matches!(stored(&[4], true).before(1), Some(Source::Model)));
        assert!(stored(&[4], false).before(1).is_none() && stored(&[4], true).before(4).is_none());
        let starts = |checkpoints: &[u64], starts_from_model| -> Vec<u64> {
            stored(checkpoints, starts_from_model).starts(5).collect()
        };
        assert_eq!((starts(&[2, 4, 6], true), starts(&[0, 2], true)), (vec![5, 3, 1], vec![3, 1]));
        assert_eq!(starts(&[2], false), [3]);
    }
}
