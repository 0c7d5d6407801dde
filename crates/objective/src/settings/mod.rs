//! The settings of an objective, with the paper's defaults and the allowed ranges.

mod formula;
mod side_ratio;

pub use side_ratio::SideRatio;

use evenkeel_errors::FieldError;
use serde::{Deserialize, Serialize};

use crate::correction::Bounds;
use crate::luspo;
use crate::policy::Clip;
use crate::sapo::Gate;
use crate::{Advantage, Aggregation, Constants, Correction, Error, KlEstimator, MAX_LOG_RATIO, PolicyTerm, SideDial};

/// Beyond it the gate of `sapo` is a step.
const MAX_TAU: f64 = 100.0;

/// Everything that decides what is computed. The defaults are those of the paper (arXiv 2605.04077): normalised
/// advantages, balanced aggregation, clip-higher 0.2 / 0.28, no KL, no entropy term, no correction.
///
/// Unknown fields are refused. Deserializing does not check ranges: call [`validate`](Self::validate).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How rewards become advantages.
    pub advantage: Advantage,
    /// How token terms are summed: the weight of a token. P groups with a trainable token in the mini-batch, N
    /// trainable tokens in the mini-batch; in a group, G responses with a trainable token, T_i of them in response i,
    /// N_g in all; s the side of A_i's sign; Q the sum of T^-alpha over the responses of the mini-batch; e the
    /// `length_exponent` and r the `side_ratio`.
    pub aggregation: Aggregation,
    /// The policy term; rho is exp(logp - old_logp), A the advantage. Formulas have the default bounds.
    pub policy: PolicyTerm,
    /// How far below 1 the ratio may fall, 0 to 1; 1 is no bound. Under `dppo-tv` and `dppo-kl` the largest divergence
    /// of a token with A < 0. Not used by `gmpo` and `sapo`.
    pub clip_low: f64,
    /// How far above 1 the ratio may rise, at least 0. Under `dppo-tv` and `dppo-kl` the largest divergence of a token
    /// with A > 0. Not used by `gmpo` and `sapo`.
    pub clip_high: f64,
    /// The cap c of the terms that bound the ratio a second time, at least 1.
    pub dual_clip: f64,
    /// The bound of the terms that clip log-ratios, 0 to 20, where log-ratios saturate.
    pub gmpo_clip: f64,
    /// The temperature of the gate of `sapo` for A > 0, above 0 and up to 100.
    pub sapo_tau_pos: f64,
    /// The temperature of the gate of `sapo` for A < 0, above 0 and up to 100.
    pub sapo_tau_neg: f64,
    /// The correction for the mismatch between the engine's policy and the learner's.
    pub correction: Correction,
    /// The smallest ratio that the mask corrections keep, from 0 to `correction_high`.
    pub correction_low: f64,
    /// The largest ratio of the corrections, above 0 and up to 1e6.
    pub correction_high: f64,
    /// The length in rules that divide by `max_tokens`, in tokens; at least 1 there, unused by the others.
    pub max_tokens: usize,
    /// The exponent of `vl-norm`, 0 to 1: 1 minus the `length_exponent` of `sides`. The paper of that rule uses 1 and
    /// 0.75.
    pub vl_norm_alpha: f64,
    /// How lengths count inside each side under `sides`, 0 to 1: 0 is the weights of `sequence`, 1 (also if absent)
    /// those of `balanced`. Refused with other rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_exponent: Option<f64>,
    /// What multiplies the positive side under `sides`, at least 0; absent is 1. 0.1 is W-REINFORCE, and 0 is NSR, which
    /// learns from wrong answers alone. A list of [step, number] changes it over the run's steps, with straight lines
    /// between. Refused with other rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side_ratio: Option<SideRatio>,
    /// The coefficient of the KL term, at least 0; 0 for none.
    pub kl_coefficient: f64,
    /// The estimator of the KL term.
    pub kl_estimator: KlEstimator,
    /// The coefficient of the entropy bonus, at least 0; 0 for none.
    pub entropy_coefficient: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            advantage: Advantage::Grpo,
            aggregation: Aggregation::Balanced,
            policy: PolicyTerm::Ppo,
            clip_low: Clip::DEFAULT.low,
            clip_high: Clip::DEFAULT.high,
            dual_clip: Clip::DEFAULT.dual,
            gmpo_clip: Clip::DEFAULT.gmpo,
            sapo_tau_pos: Clip::DEFAULT.gate.positive,
            sapo_tau_neg: Clip::DEFAULT.gate.negative,
            correction: Correction::None,
            correction_low: 0.5,
            correction_high: 2.0,
            max_tokens: 0,
            vl_norm_alpha: 0.75,
            length_exponent: None,
            side_ratio: None,
            kl_coefficient: 0.0,
            kl_estimator: KlEstimator::K3,
            entropy_coefficient: 0.0,
        }
    }
}

impl Settings {
    /// Checks every range, and combinations of settings.
    ///
    /// # Errors
    /// The first setting that is out of range, with what it may be.
    pub fn validate(&self) -> Result<(), Error> {
        let low_limit = if self.policy.bounds_ratio() { 1.0 } else { f64::MAX };
        require("clip_low", self.clip_low, (0.0..=low_limit).contains(&self.clip_low), "0 to 1, where 1 is no bound")?;
        require("clip_high", self.clip_high, not_negative(self.clip_high), "a finite number, at least 0")?;
        require(
            "dual_clip",
            self.dual_clip,
            self.dual_clip.is_finite() && self.dual_clip >= 1.0,
            "a finite number, at least 1",
        )?;
        let clip = self.gmpo_clip;
        require("gmpo_clip", clip, (0.0..=MAX_LOG_RATIO).contains(&clip), "0 to 20, where log-ratios saturate")?;
        for (field, tau) in [("sapo_tau_pos", self.sapo_tau_pos), ("sapo_tau_neg", self.sapo_tau_neg)] {
            require(field, tau, tau > 0.0 && tau <= MAX_TAU, "above 0 and up to 100")?;
        }
        let high = self.correction_high;
        require("correction_high", high, high > 0.0 && high <= 1e6, "above 0 and up to 1e6")?;
        let low_in_order = self.correction_low >= 0.0 && self.correction_low <= high;
        require("correction_low", self.correction_low, low_in_order, format!("0 to correction_high, which is {high}"))?;
        if self.aggregation.uses_max_tokens() && self.max_tokens == 0 {
            let allowed = format!("at least 1 with aggregation = {}", self.aggregation);
            return Err(Error::refused("max_tokens", 0, allowed));
        }
        luspo::validate(self.aggregation, self.policy)?;
        side_ratio::validate(self)?;
        let alpha = self.vl_norm_alpha;
        require("vl_norm_alpha", alpha, (0.0..=1.0).contains(&alpha), "0 to 1")?;
        require(
            "kl_coefficient",
            self.kl_coefficient,
            not_negative(self.kl_coefficient),
            "a finite number, at least 0",
        )?;
        let entropy = self.entropy_coefficient;
        require("entropy_coefficient", entropy, not_negative(entropy), "a finite number, at least 0")
    }

    /// The numbers that enter weights. A `side_ratio` that changes over the steps has its value of step 1, unless
    /// [`at_step`](Self::at_step) fixed another.
    #[must_use]
    pub fn constants(&self) -> Constants {
        let dial = || SideDial {
            length_exponent: self.length_exponent.unwrap_or(1.0),
            ratio: self.side_ratio.as_ref().map_or(1.0, |ratio| ratio.at(1)),
        };
        let sides = (self.aggregation == Aggregation::Sides).then(dial);
        Constants { max_tokens: self.max_tokens, vl_norm_alpha: self.vl_norm_alpha, sides }
    }

    /// The settings of a step, counted from 1: a `side_ratio` that changes over the steps has its value there.
    #[must_use]
    pub fn at_step(&self, step: u64) -> Self {
        let side_ratio = self.side_ratio.as_ref().map(|ratio| SideRatio::Constant(ratio.at(step)));
        Self { side_ratio, ..self.clone() }
    }

    /// Refuses a group size, configured or submitted, for which the advantage estimator is undefined. It is the number
    /// of requested responses: fewer may be valid, which is no error.
    ///
    /// # Errors
    /// 0 for every estimator, 1 for `grpo` and `gdpo`.
    pub fn validate_group_size(&self, group_size: usize) -> Result<(), FieldError> {
        let smallest = self.advantage.smallest_group();
        if group_size >= smallest {
            return Ok(());
        }
        let allowed = format!("at least {smallest} with advantage = {}", self.advantage);
        Err(FieldError::new("group_size", group_size, allowed))
    }
}

impl Settings {
    /// The bounds of the policy term.
    pub(crate) fn clip(&self) -> Clip {
        Clip {
            low: self.clip_low,
            high: self.clip_high,
            dual: self.dual_clip,
            gmpo: self.gmpo_clip,
            gate: Gate { positive: self.sapo_tau_pos, negative: self.sapo_tau_neg },
        }
    }

    /// The bounds of the correction.
    pub(crate) fn correction_bounds(&self) -> Bounds {
        Bounds { low: self.correction_low, high: self.correction_high }
    }
}

fn not_negative(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

fn require(field: &'static str, value: f64, holds: bool, allowed: impl Into<String>) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::refused(field, value, allowed)) }
}
