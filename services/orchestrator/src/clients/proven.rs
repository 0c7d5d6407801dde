//! What the generation service says of its engines' weights.

/// The scores of one engine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProvenEngine {
    /// Name of the engine.
    pub(crate) name: String,
    /// What it found.
    pub(crate) scores: EngineScores,
    /// Whether digests of all its tensors are those of the published folder.
    pub(crate) is_exact: bool,
}

/// Log-probabilities of given tokens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EngineScores {
    /// Of each sequence those of every token but the first, at temperature 1.
    pub(crate) prompt: Vec<Vec<f32>>,
}
