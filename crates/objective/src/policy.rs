//! The policy term phi of a token and its slope d phi / d logp, both divided by the advantage, for every policy.

use crate::exp::exp;
use crate::lanes::{Keep, LANES, Lanes, bound, kept, load, one_if};
use crate::names::{Refused, named};
use crate::{Real, ResponseTokens, Settings};

const REFUSED: &[Refused] = &[
    (&["sapo", "vespo", "clip-cov", "kl-cov", "dppo", "dppo-tv", "dppo-kl", "dro"], "not one of ours", "ppo or cispo"),
    (
        &["gpg", "reinforce"],
        "the log-probability without a ratio",
        "cispo, which is that on the first update of a batch",
    ),
    (&["grpo", "dapo", "dr-grpo"], "a whole recipe and not a policy term", "ppo, and set advantage and aggregation"),
];

named! {
    /// The policy term phi; rho is `exp(logp - old_logp)`, A the advantage, c the setting `dual_clip`.
    Policy, field "policy", refused REFUSED, {
        /// `min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A)` (PPO, arXiv 1707.06347; clip-higher of DAPO, arXiv
        /// 2503.14476).
        Ppo = "ppo" ["ppo-clip", "regular"],
        /// `ppo`, and for A < 0 at least `c A` (arXiv 1912.09729); verl's default loss, `vanilla`.
        DualClip = "dual-clip" ["vanilla"],
        /// `ppo` with the response's ratio `exp(mean of logp - old_logp)`, its gradient through each token's logp (GSPO,
        /// arXiv 2507.18071, the token form).
        Gspo = "gspo",
        /// `clip(rho, 1 - clip_low, 1 + clip_high) A logp`, the clipped ratio a constant (CISPO, arXiv 2506.13585).
        Cispo = "cispo",
        /// `A exp(mean of the log-ratio clipped on one side at gmpo_clip)`, one value for the response (GMPO, arXiv
        /// 2507.20673); verl's `geo_mean`.
        Gmpo = "gmpo" ["geo-mean"],
        /// A > 0: `A min(1/rho, c)` while `rho < 1 + clip_high`, A < 0: `A min(rho, c)` while `rho > 1 - clip_low`, the
        /// factor a constant with the gradient through logp; beyond, a constant (ASPO, arXiv 2510.06062).
        Aspo = "aspo",
    }
}

/// Log-ratios saturate here, as in verl: nothing is learnt from a ratio of e^20, but its overflow would end a run.
pub const MAX_LOG_RATIO: f64 = 20.0;

/// Just below `exp(MAX_LOG_RATIO)`: a ratio that saturates is beyond it, so that its slope is 0 like its value's.
const MAX_RATIO: f64 = 485_165_195.0;

/// A policy with everything that does not change over the tokens of one response.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    /// The ratio inside a window, moving inside and constant outside. With the sign of A known, the minimum of PPO is
    /// one bound: above for A > 0, below for A < 0, where dual clip adds one above.
    Window { low: f64, high: f64 },
    /// One value and one slope for every token.
    Constant { value: f64, slope: f64, below: f64, above: f64 },
    /// The bounded ratio times logp.
    Weighted { low: f64, high: f64 },
    /// The inverse ratio up to `cap` while below `high`.
    AspoPositive { high: f64, cap: f64 },
    /// The ratio up to `cap` while above `low`.
    AspoNegative { low: f64, cap: f64 },
    /// One value; the slope is 0 where the log-ratio's clip acts, on one side, while tokens out of the band are counted
    /// on both.
    Geometric { value: f64, slope: f64, low: f64, high: f64, clip: f64 },
}

/// What a rule says about a block of tokens.
pub(crate) struct Terms {
    /// phi / A.
    pub(crate) value: Lanes,
    /// d phi / d logp / A.
    pub(crate) slope: Lanes,
    /// How often the lower bound acted so far, lane by lane.
    pub(crate) below: Lanes,
    /// How often the upper bound acted so far, lane by lane.
    pub(crate) above: Lanes,
}

impl Terms {
    pub(crate) fn new() -> Self {
        Self { value: [0.0; LANES], slope: [0.0; LANES], below: [0.0; LANES], above: [0.0; LANES] }
    }
}

impl Rule {
    /// The rule for a response with an advantage other than 0 and at least one trainable token.
    pub(crate) fn new<T: Real>(
        settings: &Settings,
        advantage: f64,
        tokens: &ResponseTokens<'_, T>,
        trainable: usize,
    ) -> Self {
        let (low, high) = (1.0 - settings.clip_low, (1.0 + settings.clip_high).min(MAX_RATIO));
        let positive = advantage > 0.0;
        let window = if positive { (f64::NEG_INFINITY, high) } else { (low, MAX_RATIO) };
        let n = trainable.max(1) as f64;
        match settings.policy {
            Policy::Ppo => Self::Window { low: window.0, high: window.1 },
            Policy::DualClip if positive => Self::Window { low: window.0, high: window.1 },
            Policy::DualClip => Self::Window { low, high: settings.dual_clip.min(MAX_RATIO) },
            Policy::Gspo => {
                let log_ratio = tokens.sum_of_differences(tokens.logp, tokens.old_logp, |x| x) / n;
                let (value, slope, below, above) = windowed(saturated_ratio(log_ratio), window.0, window.1);
                Self::Constant { value, slope, below, above }
            }
            Policy::Cispo => Self::Weighted { low, high },
            Policy::Aspo if positive => Self::AspoPositive { high, cap: settings.dual_clip },
            Policy::Aspo => Self::AspoNegative { low, cap: settings.dual_clip },
            Policy::Gmpo => {
                let clip = settings.gmpo_clip;
                let (low, high) = if positive { (f64::NEG_INFINITY, clip) } else { (-clip, f64::INFINITY) };
                let kept = tokens.sum_of_differences(tokens.logp, tokens.old_logp, |x| bound(x, low, high)) / n;
                let (value, slope, ..) = windowed(saturated_ratio(kept), f64::NEG_INFINITY, MAX_RATIO);
                Self::Geometric { value, slope, low, high, clip }
            }
        }
    }

    /// Whether phi is one value for the response, so that a token's slope is spread over all its tokens.
    pub(crate) const fn is_one_value(&self) -> bool {
        matches!(self, Self::Geometric { .. })
    }

    /// Writes the terms of the block that starts at a token from its saturated log-ratios.
    #[inline]
    pub(crate) fn apply<T: Real>(
        &self,
        tokens: &ResponseTokens<'_, T>,
        start: usize,
        keep: &Keep,
        log_ratio: &Lanes,
        out: &mut Terms,
    ) {
        let Terms { value, slope, below, above } = out;
        match *self {
            Self::Window { low, high } => {
                for i in 0..LANES {
                    let (v, s, b, a) = windowed(exp(log_ratio[i]), low, high);
                    (value[i], slope[i]) = (v, s);
                    below[i] += kept(b, keep[i]);
                    above[i] += kept(a, keep[i]);
                }
            }
            Self::Constant { value: v, slope: s, below: b, above: a } => {
                for i in 0..LANES {
                    (value[i], slope[i]) = (v, s);
                    below[i] += kept(b, keep[i]);
                    above[i] += kept(a, keep[i]);
                }
            }
            Self::Weighted { low, high } => {
                load(keep, &tokens.logp[tokens.block(start)], value);
                for i in 0..LANES {
                    let rho = exp(log_ratio[i]);
                    slope[i] = bound(rho, low, high);
                    value[i] *= slope[i];
                    below[i] += kept(one_if(rho < low), keep[i]);
                    above[i] += kept(one_if(rho > high), keep[i]);
                }
            }
            Self::AspoPositive { high, cap } => {
                let constant = 1.0 / high;
                for i in 0..LANES {
                    let rho = exp(log_ratio[i]);
                    let inverse = 1.0 / rho;
                    let (moving, beyond) = (bound(inverse, 0.0, cap), rho >= high);
                    slope[i] = if beyond { 0.0 } else { moving };
                    value[i] = if beyond { constant } else { moving };
                    below[i] += kept(one_if(inverse > cap), keep[i]);
                    above[i] += kept(one_if(beyond), keep[i]);
                }
            }
            Self::AspoNegative { low, cap } => {
                for i in 0..LANES {
                    let rho = exp(log_ratio[i]);
                    let (moving, beyond) = (bound(rho, 0.0, cap), rho <= low);
                    slope[i] = if beyond { 0.0 } else { moving };
                    value[i] = if beyond { low } else { moving };
                    below[i] += kept(one_if(beyond), keep[i]);
                    above[i] += kept(one_if(rho > cap), keep[i]);
                }
            }
            Self::Geometric { value: v, slope: s, low, high, clip } => {
                for i in 0..LANES {
                    let x = log_ratio[i];
                    value[i] = v;
                    slope[i] = if (x < low) | (x > high) { 0.0 } else { s };
                    below[i] += kept(one_if(x < -clip), keep[i]);
                    above[i] += kept(one_if(x > clip), keep[i]);
                }
            }
        }
    }

    /// From how often the lower and the upper bound acted: tokens that verl counts in `pg_clipfrac` and those that it
    /// counts in `pg_clipfrac_lower`.
    pub(crate) fn clipped(settings: &Settings, advantage: f64, below: f64, above: f64) -> (f64, f64) {
        let positive = advantage > 0.0;
        match settings.policy {
            Policy::Ppo | Policy::Gspo if positive => (above, 0.0),
            Policy::Ppo | Policy::Gspo => (below, 0.0),
            Policy::DualClip if positive => (above, 0.0),
            Policy::DualClip => (below, above),
            Policy::Cispo => (below + above, 0.0),
            Policy::Gmpo if positive => (below + above, 0.0),
            Policy::Gmpo => (0.0, below + above),
            Policy::Aspo if positive => (above, below),
            Policy::Aspo => (below, above),
        }
    }
}

fn saturated_ratio(log_ratio: f64) -> f64 {
    libm::exp(log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO))
}

/// A ratio inside its window: value, slope, and which bound acted.
#[inline(always)]
fn windowed(rho: f64, low: f64, high: f64) -> (f64, f64, f64, f64) {
    let slope = if (rho < low) | (rho > high) { 0.0 } else { rho };
    (bound(rho, low, high), slope, one_if(rho < low), one_if(rho > high))
}
