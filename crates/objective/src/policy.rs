//! The policy terms: phi of one token and its derivative d phi / d logp, each formula next to its gradient.
//!
//! Every phi is proportional to the size of the advantage A and depends otherwise on its sign alone, so terms are
//! written for `phi / A`: for A > 0 a minimum stays a minimum, for A < 0 it becomes a maximum. rho is the ratio
//! `exp(logp - old_logp)`; l, h and c are the settings `clip_low`, `clip_high` and `dual_clip`.
//!
//! A new term is a variant of [`Policy`], an arm in each `match` of this file and a row in `docs/objective.md`.

use crate::exp::exp;
use crate::names::{Refused, named};
use crate::tokens::{BLOCK, Flags, Lanes, sum_of_differences};
use crate::{Real, ResponseTokens};

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
        /// `min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A)` (PPO, arXiv 1707.06347, eq. 7; two bounds as in
        /// DAPO's clip-higher, arXiv 2503.14476, eq. 10).
        Ppo = "ppo" ["ppo-clip", "regular"],
        /// `ppo`, and for A < 0 at least `c A` (arXiv 1912.09729); verl's default loss, `vanilla`.
        DualClip = "dual-clip" ["vanilla"],
        /// `ppo` with the response's ratio `exp(mean of logp - old_logp)`, its gradient through each token's logp (GSPO,
        /// arXiv 2507.18071, GSPO-token).
        Gspo = "gspo",
        /// `clip(rho, 1 - clip_low, 1 + clip_high) A logp`, the clipped ratio a constant (CISPO, arXiv 2506.13585, eq. 4
        /// and 5).
        Cispo = "cispo",
        /// `A exp(mean of the log-ratio clipped on one side at gmpo_clip)`, one value for the response (GMPO, arXiv
        /// 2507.20673); verl's `geo_mean`.
        Gmpo = "gmpo" ["geo-mean"],
        /// A > 0: `A min(1/rho, c)` while `rho < 1 + clip_high`, A < 0: `A min(rho, c)` while `rho > 1 - clip_low`, the
        /// factor a constant with the gradient through logp; beyond, a constant (ASPO, arXiv 2510.06062).
        Aspo = "aspo",
    }
}

impl Policy {
    /// The term as one line of text.
    pub(crate) fn formula(self, clip: &Clip) -> String {
        let (low, high, cap, gmpo) = (1.0 - clip.low, 1.0 + clip.high, clip.dual, clip.gmpo);
        match self {
            Self::Ppo => format!("min(rho A, clip(rho, {low}, {high}) A)"),
            Self::DualClip => format!("min(rho A, clip(rho, {low}, {high}) A), at least {cap} A for A < 0"),
            Self::Gspo => format!("min(s A, clip(s, {low}, {high}) A), s = exp(mean of log rho)"),
            Self::Cispo => format!("sg(clip(rho, {low}, {high})) A logp"),
            Self::Gmpo => format!("A exp(mean of log rho clipped on one side at {gmpo})"),
            Self::Aspo => format!(
                "A > 0: A min(1/rho, {cap}) while rho < {high}; A < 0: A min(rho, {cap}) while rho > {low}; through logp"
            ),
        }
    }

    /// Whether `clip_low` and `clip_high` bound a ratio.
    pub(crate) const fn bounds_ratio(self) -> bool {
        !matches!(self, Self::Gmpo)
    }

    /// Whether phi is one value for the whole response, so that its derivative is spread over all tokens.
    pub(crate) const fn is_response_level(self) -> bool {
        matches!(self, Self::Gmpo)
    }
}

/// The settings that bound ratios.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clip {
    /// `clip_low`, l.
    pub(crate) low: f64,
    /// `clip_high`, h.
    pub(crate) high: f64,
    /// `dual_clip`, c.
    pub(crate) dual: f64,
    /// `gmpo_clip`.
    pub(crate) gmpo: f64,
}

/// Log-ratios saturate here, as in verl: a ratio of e^20 teaches nothing, but an overflow would end a run.
pub const MAX_LOG_RATIO: f64 = 20.0;

/// Just below `exp(MAX_LOG_RATIO)`: a saturated ratio exceeds it, so its slope is 0, in line with its constant value.
const MAX_RATIO: f64 = 485_165_195.0;

/// A term and its derivative at one token.
#[derive(Clone, Copy)]
struct Phi {
    /// phi / A.
    value: f64,
    /// (d phi / d logp) / A.
    slope: f64,
    /// Counted in verl's `pg_clipfrac`.
    clipped: bool,
    /// Counted in verl's `pg_clipfrac_lower`.
    clipped_lower: bool,
}

/// phi = min(rho A, clip(rho, 1 - l, 1 + h) A); d phi / d logp = rho A where the ratio is within the bound, 0 beyond.
///
/// PPO, arXiv 1707.06347, eq. 7, with the two bounds of DAPO, arXiv 2503.14476, eq. 10.
#[inline(always)]
fn ppo(rho: f64, positive: bool, clip: &Clip) -> Phi {
    let (low, high) = if positive { (0.0, upper(clip)) } else { (1.0 - clip.low, MAX_RATIO) };
    let clipped = if positive { rho > high } else { rho < low };
    Phi { value: bound(rho, low, high), slope: zero_outside(rho, low, high), clipped, clipped_lower: false }
}

/// phi = max(min(rho A, clip(rho, 1 - l, 1 + h) A), c A) for A < 0, PPO's for A > 0; the derivative is 0 at the cap.
///
/// Dual clip, arXiv 1912.09729.
#[inline(always)]
fn dual_clip(rho: f64, positive: bool, clip: &Clip) -> Phi {
    if positive {
        return ppo(rho, positive, clip);
    }
    let (low, cap) = (1.0 - clip.low, clip.dual.min(MAX_RATIO));
    Phi {
        value: bound(rho, low, cap),
        slope: zero_outside(rho, low, cap),
        clipped: rho < low,
        clipped_lower: rho > cap,
    }
}

/// PPO's term of the ratio s = exp(mean of logp - old_logp) of the response. s is a constant factor of each token's
/// own ratio, whose value is 1: d phi / d logp = s A within the bound.
///
/// GSPO, arXiv 2507.18071, in the form of GSPO-token (section 4.3).
fn gspo(mean_log_ratio: f64, positive: bool, clip: &Clip) -> Phi {
    ppo(libm::exp(saturate(mean_log_ratio)), positive, clip)
}

/// phi = sg(clip(rho, 1 - l, 1 + h)) A logp; d phi / d logp = clip(rho, 1 - l, 1 + h) A.
///
/// CISPO, arXiv 2506.13585, eq. 4 (the term) and 5 (the clipped ratio).
#[inline(always)]
fn cispo(rho: f64, logp: f64, clip: &Clip) -> Phi {
    let (low, high) = (1.0 - clip.low, upper(clip));
    let clipped_ratio = bound(rho, low, high);
    let clipped = (rho < low) | (rho > high);
    Phi { value: clipped_ratio * logp, slope: clipped_ratio, clipped, clipped_lower: false }
}

/// phi = A m with m = exp(mean of the log-ratios x_t, clipped at k above for A > 0 and below for A < 0); d phi / d x_t =
/// A m / T where x_t is not clipped. The 1/T is the aggregation's: see [`Policy::is_response_level`].
///
/// GMPO, arXiv 2507.20673. Tokens outside of either bound are counted, as verl's `geo_mean` does.
#[inline(always)]
fn gmpo(log_ratio: f64, whole: Phi, positive: bool, clip: &Clip) -> Phi {
    let (below, above) = (log_ratio < -clip.gmpo, log_ratio > clip.gmpo);
    let acts = if positive { above } else { below };
    let outside = below | above;
    Phi {
        value: whole.value,
        slope: if acts { 0.0 } else { whole.slope },
        clipped: positive & outside,
        clipped_lower: !positive & outside,
    }
}

/// The mean log-ratio of GMPO's response as a ratio: phi / A and, for every token that is not clipped, its slope.
fn gmpo_response(mean_clipped_log_ratio: f64) -> Phi {
    let mean = libm::exp(saturate(mean_clipped_log_ratio));
    Phi {
        value: bound(mean, 0.0, MAX_RATIO),
        slope: zero_outside(mean, 0.0, MAX_RATIO),
        clipped: false,
        clipped_lower: false,
    }
}

/// For A > 0 phi = A min(1/rho, c) while rho < 1 + h, then A / (1 + h); for A < 0 phi = A min(rho, c) while rho > 1 - l,
/// then A (1 - l). The factor is held constant and the gradient goes through logp: d phi / d logp = phi, 0 beyond.
///
/// ASPO, arXiv 2510.06062: the ratio of a token with A > 0 is flipped, and c bounds it softly.
#[inline(always)]
fn aspo(rho: f64, positive: bool, clip: &Clip) -> Phi {
    let (low, high) = (1.0 - clip.low, upper(clip));
    let (factor, hard, constant) = if positive { (1.0 / rho, rho >= high, 1.0 / high) } else { (rho, rho <= low, low) };
    let capped = bound(factor, 0.0, clip.dual);
    Phi {
        value: if hard { constant } else { capped },
        slope: if hard { 0.0 } else { capped },
        clipped: hard,
        clipped_lower: factor > clip.dual,
    }
}

/// A policy term for the tokens of one response.
#[derive(Clone, Copy)]
pub(crate) struct Term {
    policy: Policy,
    clip: Clip,
    positive: bool,
    /// What the whole response determines: GSPO's term, GMPO's mean. Unused by the others.
    response: Phi,
}

impl Term {
    /// The term for a response with an advantage other than 0 and at least one trainable token.
    pub(crate) fn new<T: Real>(policy: Policy, clip: Clip, advantage: f64, tokens: &ResponseTokens<'_, T>) -> Self {
        let positive = advantage > 0.0;
        let response = match policy {
            Policy::Gspo => gspo(mean_log_ratio(tokens, |x| x), positive, &clip),
            Policy::Gmpo => {
                let (low, high) = if positive { (f64::NEG_INFINITY, clip.gmpo) } else { (-clip.gmpo, f64::INFINITY) };
                gmpo_response(mean_log_ratio(tokens, |x| bound(x, low, high)))
            }
            _ => Phi { value: 0.0, slope: 0.0, clipped: false, clipped_lower: false },
        };
        Self { policy, clip, positive, response }
    }

    /// Whether phi is one value for the whole response.
    pub(crate) const fn is_response_level(&self) -> bool {
        self.policy.is_response_level()
    }

    /// Evaluates the term at each token of a block, given saturated log-ratios and log-probabilities.
    #[inline]
    pub(crate) fn evaluate(&self, log_ratio: &Lanes, logp: &Lanes, out: &mut Terms) {
        let Self { clip, positive, response, .. } = *self;
        match self.policy {
            Policy::Ppo => out.fill(positive, |i, positive| ppo(exp(log_ratio[i]), positive, &clip)),
            Policy::DualClip => out.fill(positive, |i, positive| dual_clip(exp(log_ratio[i]), positive, &clip)),
            Policy::Gspo => out.fill(positive, |_, _| response),
            Policy::Cispo => out.fill(positive, |i, _| cispo(exp(log_ratio[i]), logp[i], &clip)),
            Policy::Gmpo => out.fill(positive, |i, positive| gmpo(log_ratio[i], response, positive, &clip)),
            Policy::Aspo => out.fill(positive, |i, positive| aspo(exp(log_ratio[i]), positive, &clip)),
        }
    }
}

/// The terms of a block of tokens.
pub(crate) struct Terms {
    /// phi / A.
    pub(crate) value: Lanes,
    /// (d phi / d logp) / A.
    pub(crate) slope: Lanes,
    /// Tokens counted in verl's `pg_clipfrac`.
    pub(crate) clipped: Flags,
    /// Tokens counted in verl's `pg_clipfrac_lower`.
    pub(crate) clipped_lower: Flags,
}

impl Terms {
    pub(crate) fn new() -> Self {
        Self { value: [0.0; BLOCK], slope: [0.0; BLOCK], clipped: [0; BLOCK], clipped_lower: [0; BLOCK] }
    }

    /// The loop over tokens, compiled once for each term and sign, so that it has no branch and vectorises.
    #[inline(always)]
    fn fill(&mut self, positive: bool, phi: impl Fn(usize, bool) -> Phi) {
        if positive {
            (0..BLOCK).for_each(|i| self.set(i, phi(i, true)));
        } else {
            (0..BLOCK).for_each(|i| self.set(i, phi(i, false)));
        }
    }

    #[inline(always)]
    fn set(&mut self, i: usize, phi: Phi) {
        (self.value[i], self.slope[i]) = (phi.value, phi.slope);
        (self.clipped[i], self.clipped_lower[i]) = (u64::from(phi.clipped), u64::from(phi.clipped_lower));
    }
}

/// A log-ratio within [`MAX_LOG_RATIO`]; NaN stays NaN.
#[inline(always)]
pub(crate) fn saturate(log_ratio: f64) -> f64 {
    log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
}

/// The mean of `map(logp - old_logp)` over the trainable tokens of a response.
fn mean_log_ratio<T: Real>(tokens: &ResponseTokens<'_, T>, map: impl Fn(f64) -> f64) -> f64 {
    sum_of_differences(tokens.mask, tokens.logp, tokens.old_logp, map) / tokens.trainable().max(1) as f64
}

fn upper(clip: &Clip) -> f64 {
    (1.0 + clip.high).min(MAX_RATIO)
}

/// x, or the bound that it exceeds; NaN stays NaN, and bounds in the wrong order do not panic.
#[inline(always)]
fn bound(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// x within the bounds, 0 outside of them; NaN stays NaN.
#[inline(always)]
fn zero_outside(x: f64, low: f64, high: f64) -> f64 {
    if (x < low) | (x > high) { 0.0 } else { x }
}
