//! Losses whose weights or advantages the caller gives for each token: sums over tokens, divided by nothing. Callers
//! that normalise themselves, as clients of Tinker's API do, add up such sums until they update.
//!
//! With lp the log-probability of a token, q the sampler's, r = exp(lp - q), A its advantage and w its weight:
//!
//! | loss | formula | d / d lp |
//! |---|---|---|
//! | `cross_entropy` | - sum w lp | -w |
//! | `importance_sampling` | - sum r A | -r A |
//! | `ppo` | - sum min(r A, clip(r, low, high) A) | -r A where the first is the smaller or both are equal, else 0 |
//! | `cispo` | - sum stop(clip(r, low, high)) A lp | -clip(r, low, high) A |
//! | `balanced` | `ppo` with the advantages of [`balance`] | as `ppo` |
//!
//! A term whose weight or advantage is 0 is exactly 0, whatever its ratio.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use evenkeel_errors::FieldError;

use crate::error::validate_length;
use crate::{Aggregation, Error, Settings, group_weights};

/// A loss that is a sum over tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SummedLoss {
    /// Negative log-probabilities with weights of any sign.
    CrossEntropy,
    /// The ratio to the sampler's probability times the advantage.
    ImportanceSampling,
    /// The ratio to the sampler's probability times the advantage, clipped as in PPO.
    Ppo,
    /// The log-probability times the clipped ratio, a constant for the gradient.
    Cispo,
    /// PPO's clipped ratio with tokens weighted as in balanced aggregation, group by group.
    Balanced,
}

impl SummedLoss {
    /// Every loss, in the order of the variants.
    pub const ALL: [Self; 5] = [Self::CrossEntropy, Self::ImportanceSampling, Self::Ppo, Self::Cispo, Self::Balanced];

    /// The name in requests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CrossEntropy => "cross_entropy",
            Self::ImportanceSampling => "importance_sampling",
            Self::Ppo => "ppo",
            Self::Cispo => "cispo",
            Self::Balanced => "balanced",
        }
    }

    /// Whether the loss has a ratio to the sampler's log-probabilities, and takes advantages rather than weights.
    #[must_use]
    pub const fn has_ratio(self) -> bool {
        !matches!(self, Self::CrossEntropy)
    }

    /// Whether the formula of the loss has [`RatioBounds`].
    #[must_use]
    pub const fn has_bounds(self) -> bool {
        matches!(self, Self::Ppo | Self::Cispo | Self::Balanced)
    }
}

impl fmt::Display for SummedLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SummedLoss {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        Self::ALL.into_iter().find(|loss| loss.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            FieldError::quoted("loss", text, format!("one of {names}"))
        })
    }
}

/// Bounds of the ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioBounds {
    /// The lower one, from 0 to 1.
    pub low: f64,
    /// The upper one, 1 or more.
    pub high: f64,
}

impl Default for RatioBounds {
    fn default() -> Self {
        Self { low: 0.8, high: 1.2 }
    }
}

impl RatioBounds {
    /// Refuses bounds that do not enclose 1.
    ///
    /// # Errors
    /// The bound, with what is allowed.
    pub fn validate(self) -> Result<(), FieldError> {
        FieldError::ensure((0.0..=1.0).contains(&self.low), "clip_low", self.low, "0 to 1".to_owned())?;
        let allowed = "a finite number, 1 or more".to_owned();
        FieldError::ensure(self.high.is_finite() && self.high >= 1.0, "clip_high", self.high, allowed)
    }
}

/// The tokens of a sequence.
#[derive(Debug, Clone, Copy)]
pub struct SummedTokens<'a> {
    /// The learner's log-probability of each token, in nats.
    pub logp: &'a [f32],
    /// The sampler's log-probabilities; empty where the loss does not compare.
    pub sampler_logp: &'a [f32],
    /// Advantages, or the weights of `cross_entropy`.
    pub factors: &'a [f32],
}

/// What a loss was made of.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SummedStats {
    /// Value of the loss, a sum over tokens.
    pub loss: f64,
    /// Tokens whose factor is not 0.
    pub tokens: u64,
    /// Tokens with a factor other than 0 whose ratio was beyond a bound.
    pub clipped: u64,
    /// The sum of their ratios.
    pub ratio: f64,
    /// The sum of q - lp over them.
    pub sampler_gap: f64,
}

impl SummedStats {
    /// Adds those of other tokens.
    pub fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.tokens += other.tokens;
        self.clipped += other.clipped;
        self.ratio += other.ratio;
        self.sampler_gap += other.sampler_gap;
    }
}

/// The loss of a sequence; d loss / d logp is written to `grad`.
///
/// # Errors
/// Slices of different lengths.
pub fn summed_loss(
    loss: SummedLoss,
    bounds: RatioBounds,
    tokens: &SummedTokens<'_>,
    grad: &mut [f32],
) -> Result<SummedStats, Error> {
    let SummedTokens { logp, sampler_logp, factors } = *tokens;
    validate_length("factors", factors.len(), "logp", logp.len())?;
    validate_length("gradient", grad.len(), "logp", logp.len())?;
    if loss.has_ratio() {
        validate_length("sampler_logp", sampler_logp.len(), "logp", logp.len())?;
    }
    let mut stats = SummedStats::default();
    for (at, (grad, (&logp, &factor))) in grad.iter_mut().zip(logp.iter().zip(factors)).enumerate() {
        *grad = 0.0;
        if factor == 0.0 {
            continue;
        }
        stats.tokens += 1;
        let logp = f64::from(logp);
        let factor = f64::from(factor);
        if !loss.has_ratio() {
            stats.loss -= factor * logp;
            *grad = -factor as f32;
            continue;
        }
        let gap = logp - f64::from(sampler_logp[at]);
        let ratio = libm::exp(gap);
        let bounded = ratio.clamp(bounds.low, bounds.high);
        stats.ratio += ratio;
        stats.sampler_gap -= gap;
        stats.clipped += u64::from(loss.has_bounds() && bounded != ratio);
        let (value, slope) = match loss {
            SummedLoss::Cispo => (bounded * factor * logp, bounded * factor),
            SummedLoss::Ppo | SummedLoss::Balanced if bounded * factor < ratio * factor => (bounded * factor, 0.0),
            _ => (ratio * factor, ratio * factor),
        };
        stats.loss -= value;
        *grad = -slope as f32;
    }
    Ok(stats)
}

/// A response of [`balance`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BalancedResponse {
    /// Number of the group: responses with an equal number answer one prompt.
    pub group: i64,
    /// Advantage of the response.
    pub advantage: f64,
    /// Number of trained tokens; 0 for a response that is not trained on.
    pub tokens: usize,
}

/// The factor of each response's advantages with which `ppo` is the sum of its groups' balanced losses: in a group,
/// each side of the advantages has the weight that the mean over responses gives it, and its tokens share that weight
/// in equal parts.
///
/// # Errors
/// An advantage that is not finite, or beyond 1e30.
pub fn balance(responses: &[BalancedResponse]) -> Result<Vec<f64>, Error> {
    let mut groups: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
    for (number, response) in responses.iter().enumerate() {
        groups.entry(response.group).or_default().push(number);
    }
    let constants = Settings::default().constants();
    let mut factors = vec![0.0; responses.len()];
    for members in groups.into_values() {
        let advantages: Vec<f64> = members.iter().map(|&number| responses[number].advantage).collect();
        let tokens: Vec<usize> = members.iter().map(|&number| responses[number].tokens).collect();
        let mut weights = vec![0.0; members.len()];
        group_weights(Aggregation::Balanced, &advantages, &tokens, constants, &mut weights)?;
        for (number, weight) in members.into_iter().zip(weights) {
            factors[number] = weight;
        }
    }
    Ok(factors)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(loss: SummedLoss, logp: f32, sampler: f32, factor: f32) -> (f64, f32) {
        let mut grad = [f32::NAN];
        let tokens = SummedTokens { logp: &[logp], sampler_logp: &[sampler], factors: &[factor] };
        let stats = summed_loss(loss, RatioBounds::default(), &tokens, &mut grad).unwrap();
        (stats.loss, grad[0])
    }

    #[test]
    fn a_term_without_weight_or_advantage_is_0_whatever_its_ratio() {
        for loss in SummedLoss::ALL {
            assert_eq!(one(loss, -0.1, -1e30, 0.0), (0.0, 0.0), "{loss}");
        }
    }

    #[test]
    fn ppo_has_no_gradient_beyond_the_bound_that_its_advantage_pushes_to() {
        for (ratio, advantage, moves) in [(1.5, 1.0, false), (1.5, -1.0, true), (0.5, 1.0, true), (0.5, -1.0, false)] {
            let (_, grad) = one(SummedLoss::Ppo, (0.25f64 * ratio).ln() as f32, 0.25f32.ln(), advantage);
            assert_eq!(grad != 0.0, moves, "{ratio} {advantage}");
        }
    }

    #[test]
    fn both_sides_of_a_balanced_group_pull_alike_whatever_their_lengths() {
        let response = |group, advantage, tokens| BalancedResponse { group, advantage, tokens };
        let responses = [
            response(7, 1.0, 2),
            response(7, -1.0, 60),
            response(9, 0.5, 5),
            response(9, -0.5, 1),
            response(9, 0.0, 3),
        ];
        let factors = balance(&responses).unwrap();
        for group in [7, 9] {
            let of = responses.iter().zip(&factors).filter(|(response, _)| response.group == group);
            let sum: f64 = of.map(|(r, factor)| r.advantage * factor * r.tokens as f64).sum();
            assert!(sum.abs() < 1e-12, "{group}: {sum}");
        }
    }

    #[test]
    fn unknown_names_and_bounds_that_exclude_1_are_refused() {
        let error = "dro".parse::<SummedLoss>().unwrap_err().to_string();
        assert!(error.contains("dro") && error.contains("importance_sampling"), "{error}");
        assert_eq!(RatioBounds { low: 1.1, high: 1.2 }.validate().unwrap_err().field, "clip_low");
        assert_eq!(RatioBounds { low: 0.8, high: f64::NAN }.validate().unwrap_err().field, "clip_high");
    }

    proptest! {
        #[test]
        fn gradients_are_the_differences_of_losses(
            logp in -6.0f64..-1.0, gap in -0.9f64..0.9, factor in -2.0f64..2.0, which in 0usize..3,
        ) {
            let loss = SummedLoss::ALL[which];
            let bounds = RatioBounds::default();
            let step = 0.01;
            // Not across a corner.
            prop_assume!([bounds.low, bounds.high].iter().all(|bound| (gap - bound.ln()).abs() > 2.0 * step));
            let loss_at = |by: f64| one(loss, (logp + by) as f32, (logp - gap) as f32, factor as f32);
            let difference = (loss_at(step).0 - loss_at(-step).0) / (2.0 * step);
            prop_assert!((difference - f64::from(loss_at(0.0).1)).abs() < 1e-3, "{} {}", difference, loss_at(0.0).1);
        }

        #[test]
        fn the_factor_of_cispo_is_a_constant(logp in -6.0f64..-1.0, gap in -0.9f64..0.9, advantage in -2.0f64..2.0) {
            let bounds = RatioBounds::default();
            let wanted = -gap.exp().clamp(bounds.low, bounds.high) * advantage;
            let (_, grad) = one(SummedLoss::Cispo, logp as f32, (logp - gap) as f32, advantage as f32);
            prop_assert!((f64::from(grad) - wanted).abs() < 1e-4);
        }
    }
}
