//! What the learner says of a proof's tokens: their log-probabilities under the right weights, and under those that
//! suspicions suppose.

use std::collections::BTreeMap;
use std::time::Duration;

use super::suspicion::Suspicion;

/// Log-probabilities, of each sequence those of all tokens but the first.
pub(super) type Scores = Vec<Vec<f32>>;

/// The tokens of a proof with the learner's scores.
#[derive(Debug, Clone)]
pub(super) struct ScoredText {
    pub(super) sequences: Vec<Vec<u32>>,
    /// Under the version's published tensors.
    pub(super) learner: Scores,
    /// Under the weights that suspicions suppose.
    pub(super) supposed: BTreeMap<Suspicion, Scores>,
    /// Why there are no scores under published tensors: those of the version are of the weights in memory then, and
    /// nothing is supposed.
    pub(super) impossible: Option<String>,
    /// What scoring took.
    pub(super) took: Duration,
}

/// On the way from `learner` to `supposed`, this share of it; beyond or on the other side for shares above 1 and below
/// 0.
pub(super) fn towards(learner: &Scores, supposed: &Scores, share: f64) -> Scores {
    let token = |(&learner, &supposed): (&f32, &f32)| {
        let learner = f64::from(learner);
        let supposed = f64::from(supposed);
        (learner + share * (supposed - learner)) as f32
    };
    let sequence = |(learner, supposed): (&Vec<f32>, &Vec<f32>)| learner.iter().zip(supposed).map(token).collect();
    learner.iter().zip(supposed).map(sequence).collect()
}

/// Differences of log-probabilities over all tokens, in nats.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Gap {
    /// The mean without its sign.
    pub(super) mean: f64,
    /// The largest.
    pub(super) max: f64,
    /// The root mean square.
    pub(super) root_mean_square: f64,
}

impl Gap {
    /// Between scores of the same tokens. A value that is no number is infinitely far away.
    pub(super) fn between(a: &Scores, b: &Scores) -> Self {
        let mut gap = Self::default();
        let mut count = 0_usize;
        for (&a, &b) in a.iter().flatten().zip(b.iter().flatten()) {
            let apart = (f64::from(a) - f64::from(b)).abs();
            let apart = if apart.is_nan() { f64::INFINITY } else { apart };
            gap.mean += apart;
            gap.root_mean_square += apart * apart;
            gap.max = gap.max.max(apart);
            count += 1;
        }
        let count = count.max(1) as f64;
        Self { mean: gap.mean / count, root_mean_square: (gap.root_mean_square / count).sqrt(), ..gap }
    }
}
