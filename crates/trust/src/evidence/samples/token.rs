//! One sampled token as engine and learner see it.

use crate::scorer::LearnerToken;

/// The logarithm of 0.05, the share of the likeliest token that `below_floor` is about.
const LN_FLOOR: f64 = -2.995_732_273_553_991;

/// One sampled token as engine and learner see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AuditedToken {
    /// Log-probabilities under the distribution as sampled; the learner's is minus infinity outside of what it would
    /// draw.
    pub(crate) learner: f64,
    pub(crate) engine: f64,
    /// log p + H, bounded, less its mean.
    pub(crate) surprise: f64,
    pub(crate) entropy: f64,
    /// Of log p.
    pub(crate) variance: f64,
    /// Rare events: whether each happened, and its probability.
    pub(crate) rare: [(bool, f64); RARE],
    pub(crate) is_end: bool,
    pub(crate) end_probability: f64,
}

/// The rare events: the lowest hundredth and twentieth of the probability, beyond rank 50, below a twentieth of the
/// likeliest token.
pub(crate) const RARE: usize = 4;

impl AuditedToken {
    /// `engine`: the log-probability that the engine reports. `uniform` breaks ties among equally likely tokens.
    pub(crate) fn new(learner: &LearnerToken, engine: f32, is_end: bool, uniform: f64) -> Self {
        let log_p = learner.log_probability;
        let below = learner.less_likely + uniform * learner.equally_likely;
        let is_drawable = log_p != f64::NEG_INFINITY;
        let floor = learner.largest_log_probability + LN_FLOOR;
        Self {
            learner: log_p,
            engine: f64::from(engine),
            surprise: if is_drawable { learner.surprise } else { 0.0 },
            entropy: learner.entropy,
            variance: learner.variance,
            rare: [
                (is_drawable && below < 0.01, 0.01),
                (is_drawable && below < 0.05, 0.05),
                (is_drawable && learner.rank > 50, learner.beyond_rank_50),
                (is_drawable && log_p < floor, learner.below_floor),
            ],
            is_end,
            end_probability: learner.end_probability,
        }
    }
}
