//! The noise model: how far an engine with the right weights is from the learner, by the probability of a token and by
//! its place in the response.
//!
//! The proof of weights measures it by probability when an engine is new. Each step whose audit passes measures it
//! again, so that limits follow an engine whose noise drifts: up to twice what was measured first, or down to half.
//! What is beyond the limits teaches nothing.

use evenkeel_statistics::evidence::Noise;

use super::token::AuditedToken;
use crate::evidence::weights::CalibratedNoise;

/// Where the second, third and fourth class of places begin.
const PLACES: [usize; 3] = [64, 512, 4096];
/// Tokens for which the first measurement counts in each class, and most tokens that are remembered.
const PRIOR: f64 = 200.0;
const REMEMBERED: f64 = 4_000.0;
/// Most that a variance may grow or shrink: to twice the noise, or half of it.
const MOST_GROWTH: f64 = 4.0;
/// An answer that is this many times further off than is usual has other tokens, or other numbers.
const UNUSUAL: f64 = 3.0;

/// Squared gaps in variances of the first measurement, and tokens.
type Seen = [[(f64, f64); PLACES.len() + 1]; Noise::CLASSES];

/// The noise of an engine's samples.
#[derive(Debug, Clone)]
pub(crate) struct SampleNoise {
    calibrated: CalibratedNoise,
    seen: Seen,
}

impl SampleNoise {
    pub(crate) fn new(calibrated: CalibratedNoise) -> Self {
        Self { calibrated, seen: Seen::default() }
    }

    /// Takes another first measurement, of which it forgets nothing where it is the same.
    pub(crate) fn calibrate(&mut self, calibrated: CalibratedNoise) {
        if self.calibrated != calibrated {
            *self = Self::new(calibrated);
        }
    }

    /// Variance of the gap of a token at this place of a response, in squared nats, as at temperature 1.
    pub(crate) fn variance(&self, log_probability: f64, place: usize) -> f64 {
        let class = Noise::class_of(log_probability);
        let (squares, tokens) = self.seen[class][class_of(place)];
        let growth = ((squares + PRIOR) / (tokens + PRIOR)).clamp(1.0 / MOST_GROWTH, MOST_GROWTH);
        self.calibrated.variances[class] * growth
    }

    /// Root mean square of the gaps of tokens, each by its own noise.
    pub(crate) fn size(&self, tokens: &[AuditedToken]) -> f64 {
        let gaps = tokens.iter().enumerate().filter(|(_, token)| token.learner.is_finite());
        let (sum, count) = gaps.fold((0.0, 0.0), |(sum, count), (place, token)| {
            (sum + token.gap() * token.gap() / self.variance(token.learner, place), count + 1.0)
        });
        if count > 0.0 { (sum / count).sqrt() } else { 0.0 }
    }

    /// What the size of an answer's gaps stays below, but for one answer in a hundred.
    pub(crate) fn unusual(&self) -> f64 {
        UNUSUAL * self.calibrated.usual_size.max(1.0)
    }

    /// Adds an answer of a step that passed, unless it is beyond the limit.
    pub(crate) fn learn(&mut self, tokens: &[AuditedToken]) {
        let size = self.size(tokens);
        if size.is_nan() || size > self.unusual() {
            return;
        }
        for (place, token) in tokens.iter().enumerate().filter(|(_, token)| token.learner.is_finite()) {
            let class = Noise::class_of(token.learner);
            let (squares, count) = &mut self.seen[class][class_of(place)];
            *squares += token.gap() * token.gap() / self.calibrated.variances[class];
            *count += 1.0;
            let kept = (REMEMBERED / *count).min(1.0);
            *squares *= kept;
            *count *= kept;
        }
    }
}

fn class_of(place: usize) -> usize {
    PLACES.iter().filter(|first| place >= **first).count()
}
