//! What trust asks of a run: scores of given tokens, by the learner and by every engine.

use std::future::Future;
use std::time::Duration;

use crate::engine_type::EngineType;
use crate::fault::{SamplerFault, WeightsFault};

/// Log-probabilities, of each sequence those of all tokens but the first.
pub type TokenScores = Vec<Vec<f32>>;

/// Scores tokens with the learner's model.
pub trait LearnerScorer: Sync {
    /// Why a run ends here: a fault that was found, or a reason of the run's own.
    type Error: From<WeightsFault> + From<SamplerFault>;

    /// Log-probabilities of these sequences at temperature 1 under published weights.
    fn score(
        &self,
        sequences: &[Vec<u32>],
        weights: &PublishedWeights,
    ) -> impl Future<Output = Result<Result<TokenScores, NotScored>, Self::Error>> + Send;

    /// Log-probabilities under the weights that the learner has in memory, which are of this version and not rounded.
    fn score_in_memory(
        &self,
        sequences: &[Vec<u32>],
        version: u64,
    ) -> impl Future<Output = Result<TokenScores, Self::Error>> + Send;

    /// The learner's view of each token of these responses under published weights, where tokens are drawn from that
    /// distribution.
    fn view(
        &self,
        responses: &[PromptedResponse<'_>],
        weights: &PublishedWeights,
        distribution: &SampledDistribution,
    ) -> impl Future<Output = Result<Result<LearnerView, NotScored>, Self::Error>> + Send;
}

/// Scores tokens on every engine.
pub trait EngineScorer: Sync {
    /// Why a run ends here.
    type Error;

    /// Log-probabilities of these sequences at temperature 1, by all engines that have the weights to be proven.
    fn score(&self, sequences: &[Vec<u32>]) -> impl Future<Output = Result<Vec<EngineScores>, Self::Error>> + Send;
}

/// What one engine says of given tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineScores {
    /// Name of the engine.
    pub engine: String,
    /// The log-probabilities that the engine computes.
    pub scores: TokenScores,
    /// Whether the digests of all tensors in the engine are those of the published folder.
    pub is_exact: bool,
    /// Whether the engine names an arithmetic of f32.
    pub is_f32: bool,
}

/// Why the learner has no scores under these weights, although nothing has failed: in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotScored(pub String);

/// Weights made of published tensors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublishedWeights {
    /// Version of the tensors.
    pub version: u64,
    /// A group that is taken from another version: one contrast.
    pub replaced: Option<ReplacedGroup>,
    /// The type that the tensors are rounded to first; `None` for that in which they were published.
    pub rounded_to: Option<EngineType>,
}

impl PublishedWeights {
    /// The tensors of a version as they were published.
    pub fn of(version: u64) -> Self {
        Self { version, ..Self::default() }
    }
}

/// A group of tensors that is taken from another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplacedGroup {
    /// Tensors that are exchanged.
    pub group: TensorGroup,
    /// Version of the weights that the tensors are taken from.
    pub version: u64,
}

/// A group of tensors that the learner trains.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TensorGroup {
    /// The adapters, all of them, where the learner trains these: without them there is the base model.
    Adapters,
    /// Tensors by the learner's name for them, such as `embeddings`.
    Named(String),
}

/// A prompt with its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptedResponse<'a> {
    /// Context; at least one id.
    pub prompt: &'a [u32],
    /// At least one id.
    pub response: &'a [u32],
    /// Tokens that the learner is to draw again.
    pub seeded: &'a [SeededRun],
    /// The first tokens that were drawn without the end tokens.
    pub early: usize,
}

/// Tokens of a response that were drawn one after the other by the random numbers of a seed, from its first on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeededRun {
    /// Index of the first.
    pub first: usize,
    /// How many, at least 1.
    pub count: usize,
    /// The seed that the engine was given.
    pub seed: u64,
}

/// The distribution that responses are drawn from.
#[derive(Debug, Clone, PartialEq)]
pub struct SampledDistribution {
    /// Divides the logits; above 0.
    pub temperature: f32,
    /// Probability of the likeliest tokens that are kept; 1 for all.
    pub top_p: f32,
    /// Number of the likeliest tokens that are kept; 0 for all.
    pub top_k: u32,
    /// Share of the likeliest token's probability below which none is kept; 0 for all.
    pub min_p: f32,
    /// Tokens that end a response.
    pub end_token_ids: Vec<u32>,
}

impl SampledDistribution {
    /// The model's own, of which the likeliest token is taken at temperature 0, whatever is truncated.
    pub(crate) fn whole(&self) -> Self {
        Self { temperature: 1.0, top_p: 1.0, top_k: 0, min_p: 0.0, end_token_ids: self.end_token_ids.clone() }
    }

    /// Whether some tokens are never drawn.
    pub(crate) fn is_truncated(&self) -> bool {
        self.top_p < 1.0 || self.top_k > 0 || self.min_p > 0.0
    }
}

/// Responses as the learner sees them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LearnerView {
    /// The tokens of each response.
    pub responses: Vec<Vec<LearnerToken>>,
    /// How long the learner computed for all sequences. The rest of the call was waiting.
    pub computing: Duration,
}

/// A token of a response as the learner sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LearnerToken {
    /// Log-probability as sampled; minus infinity for a token that the learner would not draw.
    pub log_probability: f64,
    /// Entropy of the distribution.
    pub entropy: f64,
    /// Variance of log p.
    pub variance: f64,
    /// log p + entropy, bounded, less its mean.
    pub surprise: f64,
    /// Probability of all less likely tokens.
    pub less_likely: f64,
    /// Probability of all equally likely tokens.
    pub equally_likely: f64,
    /// Rank of the token, from 1.
    pub rank: u32,
    /// Probability of all tokens beyond rank 5.
    pub beyond_rank_5: f64,
    /// Probability of all tokens beyond rank 50.
    pub beyond_rank_50: f64,
    /// Log-probability of the likeliest token.
    pub largest_log_probability: f64,
    /// Probability of all tokens below a hundredth of the likeliest.
    pub below_hundredth: f64,
    /// Probability of all tokens below a twentieth of the likeliest.
    pub below_floor: f64,
    /// Probability of the tokens that end a response.
    pub end_probability: f64,
    /// The token that its logits and the random number give, where it was to be drawn again.
    pub drawn: Option<u32>,
}
