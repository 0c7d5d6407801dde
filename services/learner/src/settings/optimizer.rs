//! Settings of AdamW and of its learning rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{LearnerError, Result};

/// The learning rate after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Constant.
    #[default]
    Constant,
    /// Half a cosine down to `final_fraction` of the rate at update `total_updates`, constant after it.
    Cosine,
}

/// AdamW (arXiv 1711.05101) with global-norm clipping. Defaults are DAPO's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizerSettings {
    /// Peak learning rate, at least 0.
    pub learning_rate: f64,
    /// Decay rates of the two moments, each from 0 to below 1.
    pub betas: [f64; 2],
    /// Added to the root of the second moment, above 0.
    pub epsilon: f64,
    /// Decoupled weight decay of matrices, at least 0; not applied to norms and biases.
    pub weight_decay: f64,
    /// Gradients are clipped to this global norm, above 0; absent for no clipping.
    pub max_grad_norm: Option<f64>,
    /// Updates over which the learning rate rises linearly, the first with 1 / `warmup_updates` of it; 0 for none.
    pub warmup_updates: u64,
    /// The schedule after the warm-up.
    pub schedule: Schedule,
    /// The update at which the cosine ends; with `cosine` it must be above `warmup_updates`.
    pub total_updates: u64,
    /// Where the cosine ends, as a fraction of `learning_rate`, 0 to 1.
    pub final_fraction: f64,
}

impl Default for OptimizerSettings {
    fn default() -> Self {
        Self {
            learning_rate: 1e-6,
            betas: [0.9, 0.999],
            epsilon: 1e-8,
            weight_decay: 0.1,
            max_grad_norm: Some(1.0),
            warmup_updates: 10,
            schedule: Schedule::Constant,
            total_updates: 0,
            final_fraction: 0.1,
        }
    }
}

impl OptimizerSettings {
    /// Checks every range; `section` is the table of these settings.
    pub fn validate(&self, section: &str) -> Result<()> {
        let check = |field: &str, value: f64, holds: bool, allowed: &str| match holds {
            true => Ok(()),
            false => Err(LearnerError::setting(format!("{section}.{field}"), value, allowed)),
        };
        let from_zero = |x: f64| x.is_finite() && x >= 0.0;
        check("learning_rate", self.learning_rate, from_zero(self.learning_rate), "a finite number, 0 or above")?;
        for (index, beta) in self.betas.into_iter().enumerate() {
            check(&format!("betas[{index}]"), beta, (0.0..1.0).contains(&beta), "0 to below 1")?;
        }
        check("epsilon", self.epsilon, self.epsilon.is_finite() && self.epsilon > 0.0, "a finite number above 0")?;
        check("weight_decay", self.weight_decay, from_zero(self.weight_decay), "a finite number, 0 or above")?;
        if let Some(norm) = self.max_grad_norm {
            check("max_grad_norm", norm, norm.is_finite() && norm > 0.0, "a finite number above 0, or absent")?;
        }
        let fraction = self.final_fraction;
        check("final_fraction", fraction, (0.0..=1.0).contains(&fraction), "0 to 1")?;
        if self.schedule == Schedule::Cosine && self.total_updates <= self.warmup_updates {
            let allowed = format!("above warmup_updates = {} with schedule = cosine", self.warmup_updates);
            return Err(LearnerError::setting(format!("{section}.total_updates"), self.total_updates, allowed));
        }
        Ok(())
    }

    /// The learning rate of update number `update`, counted from 0.
    pub fn learning_rate_at(&self, update: u64) -> f64 {
        if update < self.warmup_updates {
            return self.learning_rate * (update + 1) as f64 / self.warmup_updates as f64;
        }
        match self.schedule {
            Schedule::Constant => self.learning_rate,
            Schedule::Cosine => {
                let span = (self.total_updates - self.warmup_updates) as f64;
                let progress = ((update - self.warmup_updates) as f64 / span).min(1.0);
                let cosine = 0.5 * (1.0 + libm::cos(std::f64::consts::PI * progress));
                self.learning_rate * (self.final_fraction + (1.0 - self.final_fraction) * cosine)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_rises_linearly_and_the_constant_stays() {
        let settings = OptimizerSettings { learning_rate: 4.0, warmup_updates: 4, ..OptimizerSettings::default() };
        let rates: Vec<f64> = (0..6).map(|update| settings.learning_rate_at(update)).collect();
        assert_eq!(rates, [1.0, 2.0, 3.0, 4.0, 4.0, 4.0]);
    }

    #[test]
    fn the_cosine_falls_to_its_final_fraction_and_stays() {
        let settings = OptimizerSettings {
            learning_rate: 1.0,
            warmup_updates: 2,
            schedule: Schedule::Cosine,
            total_updates: 12,
            final_fraction: 0.2,
            ..OptimizerSettings::default()
        };
        let rates: Vec<f64> = [2, 7, 12, 99].map(|update| settings.learning_rate_at(update)).to_vec();
        for (rate, wanted) in rates.iter().zip([1.0, 0.6, 0.2, 0.2]) {
            assert!((rate - wanted).abs() < 1e-12, "{rates:?}");
        }
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        let good = OptimizerSettings::default;
        let cases = [
            (OptimizerSettings { learning_rate: -1.0, ..good() }, "policy.learning_rate is -1"),
            (OptimizerSettings { betas: [0.9, 1.0], ..good() }, "policy.betas[1] is 1"),
            (OptimizerSettings { epsilon: 0.0, ..good() }, "policy.epsilon is 0"),
            (OptimizerSettings { weight_decay: f64::NAN, ..good() }, "policy.weight_decay is NaN"),
            (OptimizerSettings { max_grad_norm: Some(0.0), ..good() }, "policy.max_grad_norm is 0"),
            (OptimizerSettings { final_fraction: 1.5, ..good() }, "policy.final_fraction is 1.5"),
            (OptimizerSettings { schedule: Schedule::Cosine, ..good() }, "policy.total_updates is 0"),
        ];
        for (settings, words) in cases {
            let error = settings.validate("policy").unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
    }
}
