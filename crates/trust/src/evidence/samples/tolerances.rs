//! How far an honest engine may be from the learner.

use crate::evidence::weights::CalibratedNoise;

/// Tolerance of the proof where learner, published weights and engine all have f32, or less.
const EXACT: f64 = 0.01;
/// Tolerance where a narrower type is meant and no other was set.
const NARROW: f64 = 0.25;

/// Share of answers that may be further off than is usual, and twice as far: of engines that compute in f32, and of
/// others.
const UNUSUAL_ANSWERS: [f64; 2] = [1e-4, 0.01];
const FAR_ANSWERS: [f64; 2] = [1e-4, 3e-4];

/// How far an honest engine may be from the learner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tolerances {
    /// Probability, a token, of what engine and learner disagree about by more than a factor of two.
    pub(crate) mass: f64,
    /// Root mean square of a sequence's gaps, in nats, whatever the noise of the engine.
    pub(crate) gap: f64,
    /// Share of sequences that may be beyond it, or beyond what is usual of the engine.
    pub(crate) unusual: f64,
    /// Share of sequences that may be twice as far off.
    pub(crate) far: f64,
    /// What is usual of the engine, where it was measured.
    pub(crate) noise: Option<CalibratedNoise>,
    /// Slope of the gap on log p + H: the relative error of a temperature.
    pub(crate) slope: f64,
    /// Mean of the gap, in nats.
    pub(crate) intercept: f64,
    /// Whether gaps of few ids may be a fault. In a quantized head each row has an error of its own.
    pub(crate) tests_rows: bool,
}

impl Tolerances {
    /// `tolerance` is that of the proof of weights, the mean gap in nats. `is_truncated`: near the cut of a truncated
    /// distribution engine and learner may keep different tokens.
    pub(crate) fn new(tolerance: f64, is_truncated: bool) -> Self {
        Self {
            mass: if is_truncated { 2e-3 } else { 1e-4 },
            // With f32 on both sides sums in another order are a thousandth of the tolerance apart.
            gap: if tolerance <= EXACT { tolerance / 10.0 } else { tolerance },
            unusual: UNUSUAL_ANSWERS[1],
            far: if is_truncated { UNUSUAL_ANSWERS[1] } else { FAR_ANSWERS[1] },
            noise: None,
            slope: tolerance / 25.0,
            intercept: tolerance / 50.0,
            tests_rows: tolerance <= NARROW,
        }
    }

    /// No wider than what an engine needs whose noise with the right weights is known.
    pub(crate) fn calibrated(tolerance: f64, is_truncated: bool, noise: CalibratedNoise) -> Self {
        let least = Self::new(tolerance.min(EXACT), is_truncated);
        let own = if noise.is_exact { least } else { Self::new(tolerance, is_truncated) };
        // Near the cut of a truncated distribution f32 decides, too, which tokens are kept.
        let is_exact = noise.is_exact && !is_truncated;
        let (unusual, far) = if is_exact { (UNUSUAL_ANSWERS[0], FAR_ANSWERS[0]) } else { (own.unusual, own.far) };
        Self { unusual, far, noise: Some(noise), ..own }
    }
}
