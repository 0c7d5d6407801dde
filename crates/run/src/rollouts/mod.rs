//! The samples of training steps: `rollouts/step-N.jsonl.zst`, a file for each step and a JSON object for each sample.
//!
//! A step counts from 1 here, as `training/global_step` does: step 41 is the one after which 41 are done.

mod folder;
mod not_trained;
mod rollout;
mod thinning;

pub use folder::{
    RolloutFolder, RolloutReader, list_rollouts, read_rollouts, rollout_file, rollout_name, thinned_rollouts,
};
pub use not_trained::NotTrained;
#[cfg(test)]
pub(crate) use rollout::tests::rollout as example;
pub use rollout::{Rollout, RolloutSegment, TurnPrompt, encode_rollouts};
