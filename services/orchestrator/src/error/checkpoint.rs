//! Why a checkpoint is refused.

/// Why the run cannot go on from a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The state of the run in it cannot be used.
    #[error("the state of the run in checkpoint {path} {problem}")]
    State {
        /// Folder of the checkpoint, as the learner sees it.
        path: String,
        /// What is wrong with it.
        problem: StateProblem,
    },
    /// The checkpoint does not name weights that the next steps are sampled with.
    #[error(
        "the checkpoint after step {step} does not name the weights after step {weights}, which step {sampled} is \
        sampled with"
    )]
    WeightsUnnamed {
        /// The last step before it.
        step: u64,
        /// The step that made the weights.
        weights: u64,
        /// The step that needs them, counted from 1 as well.
        sampled: u64,
    },
    /// The checkpoint has prompts without a step, which data order would skip.
    #[error(
        "the checkpoint after step {step} is from a run in order of completion, whose prompt {prompt} is in no step \
         yet: continue with pipeline.order = \"completion\""
    )]
    PromptsWaiting {
        /// GRPO steps before it.
        step: u64,
        /// The first of the prompts.
        prompt: u64,
    },
}

/// What is wrong with the state of a run in a checkpoint, to follow its name.
#[derive(Debug, thiserror::Error)]
pub enum StateProblem {
    /// No state of a run.
    #[error("was not written by this program: {0}")]
    Foreign(#[source] serde_json::Error),
    /// Another version of the program wrote it.
    #[error("has format {found}, allowed: {allowed}")]
    Format {
        /// The format that was found.
        found: u32,
        /// The one that this version reads.
        allowed: u32,
    },
    /// A state of another run.
    #[error("belongs to a run with other settings")]
    Identity,
}
