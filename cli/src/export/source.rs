//! Which weights of a run are exported.

use std::path::PathBuf;

use anyhow::Result;
use evenkeel_learner::{checkpoints_of, published_versions};
use evenkeel_proto::FieldError;
use evenkeel_recipe::Recipe;
use evenkeel_run::RunRecord;

/// Weights that a run still has.
pub(super) struct StoredWeights {
    pub(super) step: u64,
    /// A checkpoint, or a published version.
    pub(super) folder: PathBuf,
}

impl StoredWeights {
    /// The weights after a step: of its checkpoint, or as they were published. Without a step those of the newest
    /// checkpoint, or else the newest that were published.
    pub(super) fn find(run: &RunRecord, recipe: &Recipe, step: Option<u64>) -> Result<Self> {
        let mut checkpoints = checkpoints_of(&run.path.join("checkpoints"), &run.run_id)?;
        // Versions count supervised steps as well; the first published one comes after all of them.
        let mut published = published_versions(&run.path.join("weights"))?.into_iter();
        let published = published
            .by_ref()
            .filter_map(|(version, folder)| Some((version.checked_sub(recipe.warm_start.steps)?, folder)));
        let mut published: std::collections::BTreeMap<u64, PathBuf> = published.collect();
        let found = match step {
            Some(step) => checkpoints.remove_entry(&step).or_else(|| published.remove_entry(&step)),
            None => checkpoints.pop_last().or_else(|| published.pop_last()),
        };
        if let Some((step, folder)) = found {
            return Ok(Self { step, folder });
        }
        let mut exist: Vec<u64> = checkpoints.into_keys().chain(published.into_keys()).collect();
        exist.sort_unstable();
        exist.dedup();
        let exist: Vec<String> = exist.iter().map(u64::to_string).collect();
        Err(match step {
            Some(step) => {
                let allowed = format!("a step whose weights run `{}` still has: {}", run.run_id, exist.join(", "));
                FieldError::new("--step", step, allowed).into()
            }
            None => {
                let value = format!("{}, which has no weights", run.path.display());
                FieldError::new("RUN", value, "a run with a checkpoint or published weights").into()
            }
        })
    }
}
