//! The policy terms: phi of one token and its derivative d phi / d logp, each formula with its source next to its
//! gradient.
//!
//! Every phi is proportional to the size of the advantage A and depends otherwise on its sign alone, so terms are
//! written for `phi / A`: for A > 0 a minimum stays a minimum, for A < 0 it becomes a maximum. rho is the ratio
//! `exp(logp - old_logp)`; l, h and c are the settings `clip_low`, `clip_high` and `dual_clip`.
//!
//! A new term is a file with its formula and its phi, a variant of [`PolicyTerm`], an arm in each `match` of this file
//! and a row in `docs/objective.md`.

use crate::dppo::{self, Divergence};
use crate::exp::exp;
use crate::log_ratio::{MAX_RATIO, saturate};
use crate::names::{Refused, named};
use crate::phi::{Phi, Terms, bound, zero_outside};
use crate::sapo::{self, Gate};
use crate::tokens::{Lanes, sum_of_differences};
use crate::{Real, ResponseTokens};

const REFUSED: &[Refused] = &[
    (&["vespo", "clip-cov", "kl-cov", "dro"], "not one of ours", "ppo or cispo"),
    (&["dppo"], "DPPO without the measure of divergence", "dppo-tv (total variation) or dppo-kl"),
    (&["luspo"], "GSPO's term with weights by length", "gspo, with aggregation = luspo"),
    (
        &["gpg", "reinforce"],
        "the log-probability without a ratio",
        "cispo, which is that on the first update of a batch",
    ),
    (&["grpo", "dapo", "dr-grpo"], "a whole recipe and not a policy term", "ppo, and set advantage and aggregation"),
];

named! {
    /// The policy term phi; formula and source are next to its gradient, in `policy.rs` or the file of its name.
    PolicyTerm, field "policy", refused REFUSED, formula |term: Self| term.formula(&Clip::DEFAULT), {
        /// PPO's clipped ratio, with a bound on each side (clip-higher).
        Ppo = "ppo" ["ppo-clip", "regular"],
        /// `ppo` with a second bound for A < 0: verl's default loss, `vanilla`.
        DualClip = "dual-clip" ["vanilla"],
        /// `ppo` with the ratio of the response, its gradient through each token's logp.
        Gspo = "gspo",
        /// The log-probability times the clipped ratio, which is a constant for the gradient.
        Cispo = "cispo",
        /// The geometric mean of the response's ratios, clipped on one side: verl's `geo_mean`.
        Gmpo = "gmpo" ["geo-mean"],
        /// The log-probability times a ratio that is flipped for A > 0, a constant for the gradient.
        Aspo = "aspo",
        /// A soft gate in place of the clip.
        Sapo = "sapo",
        /// The ratio, masked where the total variation of the token's probability exceeds `clip_low` or `clip_high`.
        DppoTv = "dppo-tv",
        /// The ratio, masked where the Kullback-Leibler divergence of the token's probability exceeds `clip_low` or
        /// `clip_high`.
        DppoKl = "dppo-kl",
    }
}

impl PolicyTerm {
    /// The term as one line of text.
    pub(crate) fn formula(self, clip: &Clip) -> String {
        match self {
            Self::Ppo => ppo_formula(clip),
            Self::DualClip => dual_clip_formula(clip),
            Self::Gspo => gspo_formula(clip),
            Self::Cispo => cispo_formula(clip),
            Self::Gmpo => gmpo_formula(clip),
            Self::Aspo => aspo_formula(clip),
            Self::Sapo => sapo::formula(clip.gate),
            Self::DppoTv => dppo::formula(Divergence::TotalVariation, clip.low, clip.high),
            Self::DppoKl => dppo::formula(Divergence::Kl, clip.low, clip.high),
        }
    }

    /// Whether `clip_low` and `clip_high` bound a ratio.
    pub(crate) const fn bounds_ratio(self) -> bool {
        !matches!(self, Self::Gmpo | Self::Sapo | Self::DppoTv | Self::DppoKl)
    }

    /// Whether `dual_clip` is in the term.
    #[must_use]
    pub const fn uses_dual_clip(self) -> bool {
        matches!(self, Self::DualClip | Self::Aspo)
    }

    /// Whether `clip_low` and `clip_high` are in the term.
    #[must_use]
    pub const fn uses_clip(self) -> bool {
        !matches!(self, Self::Gmpo | Self::Sapo)
    }

    /// Whether phi is one value for the whole response, so that its derivative is spread over all tokens.
    pub(crate) const fn is_response_level(self) -> bool {
        matches!(self, Self::Gmpo)
    }
}

/// The settings that bound ratios.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clip {
    /// Setting `clip_low`, l in formulas.
    pub(crate) low: f64,
    /// Setting `clip_high`, h in formulas.
    pub(crate) high: f64,
    /// Setting `dual_clip`, c in formulas.
    pub(crate) dual: f64,
    /// Setting `gmpo_clip`, the bound of the mean log-ratio.
    pub(crate) gmpo: f64,
    /// Settings `sapo_tau_pos` and `sapo_tau_neg`.
    pub(crate) gate: Gate,
}

impl Clip {
    /// The bounds of the default settings.
    pub(crate) const DEFAULT: Self =
        Self { low: 0.2, high: 0.28, dual: 3.0, gmpo: 0.4, gate: Gate { positive: 1.0, negative: 1.05 } };

    /// The ends of the ratio's range as formulas show them: 1 - l and 1 + h.
    fn range(&self) -> (f64, f64) {
        (1.0 - self.low, 1.0 + self.high)
    }
}

/// PPO, arXiv 1707.06347, eq. 7, with the two bounds of DAPO's clip-higher, arXiv 2503.14476, eq. 10.
fn ppo_formula(clip: &Clip) -> String {
    let (low, high) = clip.range();
    format!("min(rho A, clip(rho, {low}, {high}) A)")
}

/// d phi / d logp = rho A where the ratio is within the bound that acts, 0 beyond, where the token counts as clipped.
#[inline(always)]
fn ppo(rho: f64, positive: bool, clip: &Clip) -> Phi {
    let (low, high) = if positive { (0.0, upper(clip)) } else { (1.0 - clip.low, MAX_RATIO) };
    let clipped = if positive { rho > high } else { rho < low };
    Phi { value: bound(rho, low, high), slope: zero_outside(rho, low, high), clipped, clipped_lower: false }
}

/// Dual clip, arXiv 1912.09729.
fn dual_clip_formula(clip: &Clip) -> String {
    format!("{}, at least {} A for A < 0", ppo_formula(clip), clip.dual)
}

/// PPO's derivative, and 0 at the cap c, where the token counts in `clipped_lower`.
#[inline(always)]
fn dual_clip(rho: f64, positive: bool, clip: &Clip) -> Phi {
    if positive {
        return ppo(rho, positive, clip);
    }
    let low = 1.0 - clip.low;
    let cap = clip.dual.min(MAX_RATIO);
    Phi {
        value: bound(rho, low, cap),
        slope: zero_outside(rho, low, cap),
        clipped: rho < low,
        clipped_lower: rho > cap,
    }
}

/// GSPO, arXiv 2507.18071, in the form of GSPO-token (section 4.3). The paper has l = 3e-4 and h = 4e-4.
fn gspo_formula(clip: &Clip) -> String {
    let (low, high) = clip.range();
    format!("min(s A, clip(s, {low}, {high}) A), s = exp(mean of log rho)")
}

/// PPO's term of the response's ratio s, a constant factor of each token's own ratio, whose value is 1: d phi / d logp
/// = s A within the bound.
fn gspo(mean_log_ratio: f64, positive: bool, clip: &Clip) -> Phi {
    ppo(libm::exp(saturate(mean_log_ratio)), positive, clip)
}

/// CISPO, arXiv 2506.13585, eq. 4 (the term) and 5 (the clipped ratio). The paper has no lower bound: l = 1.
fn cispo_formula(clip: &Clip) -> String {
    let (low, high) = clip.range();
    format!("sg(clip(rho, {low}, {high})) A logp")
}

/// d phi / d logp is A times the clipped ratio. Tokens out of bounds on either side count as clipped.
#[inline(always)]
fn cispo(rho: f64, logp: f64, clip: &Clip) -> Phi {
    let low = 1.0 - clip.low;
    let high = upper(clip);
    let clipped_ratio = bound(rho, low, high);
    let clipped = (rho < low) | (rho > high);
    Phi { value: clipped_ratio * logp, slope: clipped_ratio, clipped, clipped_lower: false }
}

/// GMPO, arXiv 2507.20673. Log-ratios are clipped above for A > 0 and below for A < 0.
fn gmpo_formula(clip: &Clip) -> String {
    format!("A exp(mean of log rho clipped on one side at {})", clip.gmpo)
}

/// With m the exponential, d phi / d logp = A m / T where the token's log-ratio is not clipped. The 1/T is the
/// aggregation's: see [`PolicyTerm::is_response_level`]. As in verl's `geo_mean`, tokens outside of either bound are
/// counted: as clipped if A > 0, in `clipped_lower` if A < 0.
#[inline(always)]
fn gmpo(log_ratio: f64, whole: Phi, positive: bool, clip: &Clip) -> Phi {
    let below = log_ratio < -clip.gmpo;
    let above = log_ratio > clip.gmpo;
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

/// ASPO, arXiv 2510.06062: the ratio of a token with A > 0 is flipped, and c bounds it softly. Beyond the ranges phi is
/// the constant A / (1 + h), or A (1 - l).
fn aspo_formula(clip: &Clip) -> String {
    let (low, high) = clip.range();
    let cap = clip.dual;
    format!("A > 0: A min(1/rho, {cap}) while rho < {high}; A < 0: A min(rho, {cap}) while rho > {low}; through logp")
}

/// The factor is held constant and the gradient goes through logp: d phi / d logp = phi; 0 where phi is constant, which
/// counts as clipped. Tokens at the cap c count in `clipped_lower`.
#[inline(always)]
fn aspo(rho: f64, positive: bool, clip: &Clip) -> Phi {
    let low = 1.0 - clip.low;
    let high = upper(clip);
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
    policy: PolicyTerm,
    clip: Clip,
    positive: bool,
    /// What the whole response determines: GSPO's term, GMPO's mean. Unused by the others.
    response: Phi,
}

impl Term {
    /// The term for a response with an advantage other than 0 and at least one trainable token.
    pub(crate) fn new<T: Real>(policy: PolicyTerm, clip: Clip, advantage: f64, tokens: &ResponseTokens<'_, T>) -> Self {
        let positive = advantage > 0.0;
        let response = match policy {
            PolicyTerm::Gspo => gspo(mean_log_ratio(tokens, |x| x), positive, &clip),
            PolicyTerm::Gmpo => {
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

    /// Evaluates the term at each token of a block, given saturated log-ratios and the log-probabilities that they are
    /// of.
    #[inline]
    pub(crate) fn evaluate(&self, log_ratio: &Lanes, logp: &Lanes, old_logp: &Lanes, out: &mut Terms) {
        let Self { clip, positive, response, .. } = *self;
        let limits = (clip.low, clip.high);
        match self.policy {
            PolicyTerm::Ppo => out.fill(positive, |i, positive| ppo(exp(log_ratio[i]), positive, &clip)),
            PolicyTerm::DualClip => out.fill(positive, |i, positive| dual_clip(exp(log_ratio[i]), positive, &clip)),
            PolicyTerm::Gspo => out.fill(positive, |_, _| response),
            PolicyTerm::Cispo => out.fill(positive, |i, _| cispo(exp(log_ratio[i]), logp[i], &clip)),
            PolicyTerm::Gmpo => out.fill(positive, |i, positive| gmpo(log_ratio[i], response, positive, &clip)),
            PolicyTerm::Aspo => out.fill(positive, |i, positive| aspo(exp(log_ratio[i]), positive, &clip)),
            PolicyTerm::Sapo => out.fill(positive, |i, positive| sapo::phi(exp(log_ratio[i]), positive, clip.gate)),
            PolicyTerm::DppoTv => {
                let of = Divergence::TotalVariation;
                out.fill(positive, |i, positive| dppo::phi(of, log_ratio[i], (logp[i], old_logp[i]), positive, limits));
            }
            PolicyTerm::DppoKl => {
                let of = Divergence::Kl;
                out.fill(positive, |i, positive| dppo::phi(of, log_ratio[i], (logp[i], old_logp[i]), positive, limits));
            }
        }
    }
}

/// The mean of `map(logp - old_logp)` over the trainable tokens of a response.
fn mean_log_ratio<T: Real>(tokens: &ResponseTokens<'_, T>, map: impl Fn(f64) -> f64) -> f64 {
    sum_of_differences(tokens.mask, tokens.logp, tokens.old_logp, map) / tokens.trainable().max(1) as f64
}

fn upper(clip: &Clip) -> f64 {
    (1.0 + clip.high).min(MAX_RATIO)
}
