//! How far an honest engine may be from the learner.

use crate::evidence::weights::CalibratedNoise;

/// Tolerance of the proof where learner, published weights and engine all have f32, or less.
const EXACT: f64 = 0.01;

/// A sequence further off than this many times what is usual of an engine with the right weights has other tokens, or
/// other numbers.
const UNUSUAL: f64 = 3.0;

/// How far an honest engine may be from the learner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tolerances {
    /// Probability, a token, of what engine and learner disagree about by more than a factor of two.
    pub(crate) mass: f64,
    /// Root mean square of a sequence's gaps, in nats.
    pub(crate) gap: f64,
    /// Slope of the gap on log p + H: the relative error of a temperature.
    pub(crate) slope: f64,
    /// Mean of the gap, in nats.
    pub(crate) intercept: f64,
}

impl Tolerances {
    /// `tolerance` is that of the proof of weights, the mean gap in nats. `is_truncated`: near the cut of a truncated
    /// distribution engine and learner may keep different tokens.
    pub(crate) fn new(tolerance: f64, is_truncated: bool) -> Self {
        Self {
            mass: if is_truncated { 2e-3 } else { 1e-4 },
            // With f32 on both sides sums in another order are a thousandth of the tolerance apart.
            gap: if tolerance <= EXACT { tolerance / 10.0 } else { tolerance },
            slope: tolerance / 25.0,
            intercept: tolerance / 50.0,
        }
    }

    /// No wider than what an engine needs whose noise with the right weights is known.
    pub(crate) fn calibrated(tolerance: f64, is_truncated: bool, noise: CalibratedNoise) -> Self {
        let least = Self::new(tolerance.min(EXACT), is_truncated);
        let own = if noise.is_exact { least } else { Self::new(tolerance, is_truncated) };
        Self { gap: own.gap.min(UNUSUAL * noise.usual_sequence).max(least.gap), ..own }
    }
}
