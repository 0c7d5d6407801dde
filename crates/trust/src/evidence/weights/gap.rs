//! Differences between the scores of two models of the same tokens.

use crate::scorer::TokenScores;

/// On the way from `learner` to `supposed`, this share of it; beyond or on the other side for shares above 1 and below
/// 0.
pub(crate) fn towards(learner: &TokenScores, supposed: &TokenScores, share: f64) -> TokenScores {
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
pub(crate) struct ScoreGap {
    /// Mean of the absolute differences.
    pub(crate) mean: f64,
    /// The largest absolute difference.
    pub(crate) max: f64,
    /// Root mean square of the differences.
    pub(crate) root_mean_square: f64,
}

impl ScoreGap {
    /// Between scores of the same tokens. A value that is no number is infinitely far away.
    pub(crate) fn between(a: &TokenScores, b: &TokenScores) -> Self {
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

/// By how much of what `supposed` predicts the engine is off, by least squares; 0 where nothing is predicted.
pub(crate) fn slope(learner: &TokenScores, engine: &TokenScores, supposed: &TokenScores) -> f64 {
    let mut along = 0.0;
    let mut size = 0.0;
    for ((&learner, &engine), &supposed) in
        learner.iter().flatten().zip(engine.iter().flatten()).zip(supposed.iter().flatten())
    {
        let gap = f64::from(engine) - f64::from(learner);
        let predicted = f64::from(supposed) - f64::from(learner);
        if gap.is_finite() && predicted.is_finite() {
            along += gap * predicted;
            size += predicted * predicted;
        }
    }
    if size > 0.0 { along / size } else { 0.0 }
}
