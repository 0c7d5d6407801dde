//! What the generation service says of its engines' weights.

/// The scores of one engine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProvenEngine {
    /// Its name.
    pub(crate) name: String,
    /// What it found.
    pub(crate) scores: EngineScores,
}

/// Log-probabilities of given tokens, and of a few that the engine sampled itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EngineScores {
    /// Of every token but the first of each sequence, at temperature 1.
    pub(crate) prompt: Vec<f32>,
    /// The token that it sampled after each sequence.
    pub(crate) sampled: Vec<Sampled>,
    /// Whether log-probabilities of its samples are those of temperature 1.
    pub(crate) raw: bool,
}

/// A sampled token with its log-probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampled {
    pub(crate) id: u32,
    pub(crate) log_probability: f32,
}
