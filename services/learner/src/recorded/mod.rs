//! Steps of a run, done again from its files.
//!
//! [`RecordedRun`] reads the groups of a step as the learner got them: its rollouts with their tokens, in the order of
//! `prompts.jsonl`. [`Replay`] finds weights from before the step, does the step and compares everything that the run
//! recorded of it, so that a [`ReplayedStep`] is the recorded one or says what differs. [`RuleEffect`] is what an
//! aggregation rule would have done with the same groups. A [`Recomputation`] goes from a checkpoint to a step, and has
//! everything compared that follows from it: updates, weights, checkpoints, sampled tokens. Nothing in the directory of
//! the run is written.

mod difference;
mod draws;
mod effect;
mod error;
mod groups;
mod made_weights;
mod recompute;
mod replay;
mod run;
mod weights;

pub use difference::{Agreement, Precision};
pub use draws::{Drawing, DrawnAgain};
pub use effect::{RuleEffect, SampleEffect};
pub use error::ReplayError;
pub use groups::SentSamples;
pub use recompute::{Recomputation, RecomputedStep};
pub use replay::{Replay, ReplaySettings, ReplayedStep};
pub use run::{RecordedRun, RecordedStep};
pub use weights::StoredWeights;
