//! Sequence-level advantages of a group: how much better a response is than its group.

use crate::error::{Error, Location, validate_length};
use crate::maxrl;
use crate::names::{Refused, named};

/// Added to the variance (`grpo`) or to the standard deviation (`grpo-sample`).
const EPSILON: f64 = 1e-6;

/// The largest absolute value of a reward. Anything larger is a mistake; below it squares and sums stay finite.
pub const MAX_REWARD: f64 = 1e18;

const REFUSED: &[Refused] = &[
    (&["gae", "remax"], "it needs a value model or a baseline rollout", "grpo, grpo-sample, mean or rloo"),
    (
        &["reinforce-plus-plus", "reinforce-plus-plus-baseline", "reinforce++", "reinforce++-baseline"],
        "it whitens over the batch and not within the group",
        "grpo, or mean for the group's baseline alone",
    ),
    (&["grpo-passk"], "it rewards the best response of a group alone", "grpo, with the reward shaped before"),
    (&["opo", "gpg"], "an estimator of verl that is not one of these", "grpo, grpo-sample, mean or rloo"),
];

named! {
    /// How rewards of a group become advantages; `mean` and the deviations are over the valid responses.
    Advantage, field "advantage", refused REFUSED, {
        /// `(r - mean) / sqrt(population variance + 1e-6)`, as in the paper on balanced aggregation (arXiv 2605.04077).
        Grpo = "grpo",
        /// `(r - mean) / (sample standard deviation + 1e-6)`, verl's `grpo`; a lone response has `r / (1 + 1e-6)`.
        GrpoSample = "grpo-sample" ["grpo-vectorized"],
        /// `r - mean`, without the division (Dr.GRPO, arXiv 2503.20783).
        Mean = "mean" ["dr-grpo", "drgrpo"],
        /// `r` minus the mean of the others (RLOO, arXiv 2402.14740); a lone response has 0.
        Rloo = "rloo" ["rloo-vectorized"],
        /// `(r - mean) / mean` (MaxRL, arXiv 2602.02710); rewards are at least 0.
        MaxRl = "maxrl" ["max-rl"],
        /// The weighted sum of `(r_k - mean_k) / (sample deviation of r_k + 1e-6)` over the components of the reward,
        /// over the deviation of that sum in the mini-batch (GDPO, arXiv 2601.05242).
        Gdpo = "gdpo",
    }
}

impl Advantage {
    /// The formula as one line of text.
    #[must_use]
    pub const fn formula(self) -> &'static str {
        match self {
            Self::Grpo => "(r - mean) / sqrt(population variance + 1e-6)",
            Self::GrpoSample => "(r - mean) / (sample deviation + 1e-6)",
            Self::Mean => "r - mean",
            Self::Rloo => "r - mean of the others",
            Self::MaxRl => "(r - mean) / mean",
            Self::Gdpo => {
                "a / (deviation of a in the mini-batch + 1e-6), a = sum of w_k (r_k - mean_k) / (sample deviation of \
                r_k + 1e-6)"
            }
        }
    }

    /// The smallest group that the estimator is defined for: 2 if it divides by the deviation within the group
    /// (`grpo`, `gdpo`), otherwise 1.
    #[must_use]
    pub const fn smallest_group(self) -> usize {
        match self {
            Self::Grpo | Self::Gdpo => 2,
            Self::GrpoSample | Self::Mean | Self::Rloo | Self::MaxRl => 1,
        }
    }
}

/// Writes the advantage of each response of one group. Under `gdpo` the reward is its only component, and the factor of
/// the mini-batch is left out: see [`component_advantages`](crate::component_advantages).
///
/// `rewards`, `valid` and `out` have one element for each response. An invalid response (its verification failed for a
/// reason that is not its own) enters no statistic and gets 0; its reward is not read. If there are two or more valid
/// rewards and all are equal, every advantage is exactly 0. A reward that differs from the mean by no more than the
/// rounding of the mean counts as equal to it, so that rounding alone never causes an advantage.
///
/// # Errors
/// Slices of different lengths; a valid reward that is not finite or exceeds [`MAX_REWARD`] in absolute value.
pub fn advantages(mode: Advantage, rewards: &[f64], valid: &[bool], out: &mut [f64]) -> Result<(), Error> {
    validate_length("valid", valid.len(), "rewards", rewards.len())?;
    validate_length("advantages", out.len(), "rewards", rewards.len())?;
    let mut count = 0_usize;
    let mut sum = 0.0_f64;
    let mut largest = 0.0_f64;
    let mut range: Option<(f64, f64)> = None;
    for (i, (&reward, _)) in rewards.iter().zip(valid).enumerate().filter(|(_, (_, valid))| **valid) {
        validate_reward(reward)
            .map_err(|value| Error::refused("reward", value, REWARDS).within(Location::response(i)))?;
        (count, sum, largest) = (count + 1, sum + reward, largest.max(reward.abs()));
        range = Some(range.map_or((reward, reward), |(low, high)| (low.min(reward), high.max(reward))));
    }
    if mode == Advantage::MaxRl {
        maxrl::validate(rewards, valid)?;
    }
    out.fill(0.0);
    let Some((low, high)) = range else { return Ok(()) };
    if count == 1 {
        if mode == Advantage::GrpoSample {
            set_valid(out, rewards, valid, |reward| reward / (1.0 + EPSILON));
        }
        return Ok(());
    }
    if low == high {
        return Ok(());
    }

    let n = count as f64;
    let mean = sum / n;
    let rounding = n * f64::EPSILON * largest;
    let deviation = |reward: f64| if (reward - mean).abs() <= rounding { 0.0 } else { reward - mean };
    let squares: f64 = rewards.iter().zip(valid).filter(|(_, v)| **v).map(|(&r, _)| deviation(r).powi(2)).sum();
    let scale = match mode {
        Advantage::Grpo => 1.0 / (squares / n + EPSILON).sqrt(),
        // One component; several are added up in `gdpo.rs`.
        Advantage::GrpoSample | Advantage::Gdpo => 1.0 / ((squares / (n - 1.0)).sqrt() + EPSILON),
        Advantage::Mean => 1.0,
        // r - (sum - r) / (n - 1), written so that it shares the rounding of the mean.
        Advantage::Rloo => n / (n - 1.0),
        Advantage::MaxRl => {
            set_valid(out, rewards, valid, |reward| maxrl::advantage(deviation(reward), mean));
            return Ok(());
        }
    };
    set_valid(out, rewards, valid, |reward| deviation(reward) * scale);
    Ok(())
}

/// The allowed range of rewards, for errors.
pub(crate) const REWARDS: &str = "a finite number of at most 1e18 in magnitude";

/// Returns the reward as an error if it is out of range.
pub(crate) fn validate_reward(reward: f64) -> Result<(), f64> {
    // NaN fails the comparison as well.
    if reward.abs() <= MAX_REWARD { Ok(()) } else { Err(reward) }
}

fn set_valid(out: &mut [f64], rewards: &[f64], valid: &[bool], advantage: impl Fn(f64) -> f64) {
    for ((out, &reward), _) in out.iter_mut().zip(rewards).zip(valid).filter(|(_, valid)| **valid) {
        *out = advantage(reward);
    }
}
