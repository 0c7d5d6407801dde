//! One sampled token as engine and learner see it.

use crate::scorer::LearnerToken;

/// The logarithms of 0.01 and 0.05, the shares of the likeliest token that `below_hundredth` and `below_floor` are about.
const LN_HUNDREDTH: f64 = -4.605_170_185_988_091;
const LN_FLOOR: f64 = -2.995_732_273_553_991;

/// One sampled token as engine and learner see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AuditedToken {
    pub(crate) id: u32,
    /// Log-probabilities under the distribution as sampled; the learner's is minus infinity outside of what it would
    /// draw.
    pub(crate) learner: f64,
    pub(crate) engine: f64,
    /// log p + H, bounded, less its mean.
    pub(crate) surprise: f64,
    pub(crate) entropy: f64,
    /// Variance of log p.
    pub(crate) variance: f64,
    /// Rare events: whether each happened, and its probability.
    pub(crate) rare: [(bool, f64); RARE],
    pub(crate) is_end: bool,
    pub(crate) end_probability: f64,
    /// How far it is below the likeliest token for the learner, in nats.
    pub(crate) below_best: f64,
    /// What the noise of logits is divided by in log-probabilities: the temperature, at most 1.
    pub(crate) divisor: f64,
}

/// The rare events: the lowest hundredth and twentieth of the probability, beyond ranks 5 and 50, below a hundredth and
/// a twentieth of the likeliest token.
pub(crate) const RARE: usize = 6;

impl AuditedToken {
    /// The engine's minus the learner's log-probability.
    pub(crate) fn reported_gap(&self) -> f64 {
        self.engine - self.learner
    }

    /// That gap as the noise of the engine would make it at temperature 1, where noise is measured.
    pub(crate) fn gap(&self) -> f64 {
        self.reported_gap() * self.divisor
    }

    /// `engine`: the log-probability that the engine reports. `uniform` breaks ties among equally likely tokens. Tokens
    /// are drawn at that temperature.
    pub(crate) fn new(
        learner: &LearnerToken,
        id: u32,
        engine: f32,
        is_end: bool,
        uniform: f64,
        temperature: f64,
    ) -> Self {
        let log_p = learner.log_probability;
        let below = learner.less_likely + uniform * learner.equally_likely;
        let is_drawable = log_p != f64::NEG_INFINITY;
        let is_below = |share: f64| is_drawable && log_p < learner.largest_log_probability + share;
        Self {
            id,
            learner: log_p,
            engine: f64::from(engine),
            surprise: if is_drawable { learner.surprise } else { 0.0 },
            entropy: learner.entropy,
            variance: learner.variance,
            rare: [
                (is_drawable && below < 0.01, 0.01),
                (is_drawable && below < 0.05, 0.05),
                (is_drawable && learner.rank > 5, learner.beyond_rank_5),
                (is_drawable && learner.rank > 50, learner.beyond_rank_50),
                (is_below(LN_HUNDREDTH), learner.below_hundredth),
                (is_below(LN_FLOOR), learner.below_floor),
            ],
            is_end,
            end_probability: learner.end_probability,
            below_best: learner.largest_log_probability - log_p,
            divisor: temperature.min(1.0),
        }
    }
}
