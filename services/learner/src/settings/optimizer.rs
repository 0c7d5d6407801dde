//! Settings of AdamW and of its learning rate.

use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The learning rate after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Constant.
    #[default]
    Constant,
    /// Half a cosine down to `final_fraction` of the rate at update `total_updates` or step `total_steps`, constant
    /// after it.
    Cosine,
}

/// Where AdamW's moments are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MomentsLocation {
    /// On the device that trains.
    #[default]
    Device,
    /// In page-locked host memory, from where they pass through the device with each update.
    Host,
}

impl MomentsLocation {
    /// All places.
    pub const ALL: [Self; 2] = [Self::Device, Self::Host];

    /// The name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Host => "host",
        }
    }
}

/// AdamW (arXiv 1711.05101) with global-norm clipping. Defaults are DAPO's.
///
/// The schedule is defined in updates or in steps. A step is a batch of rollouts (or of examples), over which the rate
/// is then constant; it has several updates with `mini_batch_groups` or `epochs`.
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
    /// Updates over which the learning rate rises linearly, the first with 1 / `warmup_updates` of it; 0 for none. At
    /// least one of this and `warmup_steps` must be 0.
    pub warmup_updates: u64,
    /// Steps over which the learning rate rises in the same way; 0 for none.
    pub warmup_steps: u64,
    /// Whether the first update or step of the warm-up has a rate of 0 instead, and each later one the rate of its
    /// predecessor, as in verl.
    pub warmup_from_zero: bool,
    /// The schedule after the warm-up.
    pub schedule: Schedule,
    /// The update at which the cosine ends, above `warmup_updates`. With `cosine` either this or `total_steps` is set.
    pub total_updates: u64,
    /// The step at which the cosine ends, above `warmup_steps`.
    pub total_steps: u64,
    /// Where the cosine ends, as a fraction of `learning_rate`, 0 to 1.
    pub final_fraction: f64,
    /// Where the moments are kept: `device`, or `host` for page-locked host memory, which saves 8 bytes of GPU memory
    /// per parameter and takes longer, with the same bits. On a CPU both are the same. `optimizer.moments` applies to
    /// supervised steps too.
    pub moments: MomentsLocation,
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
            warmup_steps: 0,
            warmup_from_zero: false,
            schedule: Schedule::Constant,
            total_updates: 0,
            total_steps: 0,
            final_fraction: 0.1,
            moments: MomentsLocation::Device,
        }
    }
}

impl OptimizerSettings {
    /// Checks every range; `section` is the table of these settings.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn validate(&self, section: &str) -> Result<(), FieldError> {
        let check = |field: &str, value: f64, holds: bool, allowed: &str| {
            if holds { Ok(()) } else { Err(FieldError::new(format!("{section}.{field}"), value, allowed)) }
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
        self.validate_schedule(section)
    }

    fn validate_schedule(&self, section: &str) -> Result<(), FieldError> {
        let refused = |field: &str, value: u64, allowed: String| {
            Err(FieldError::new(format!("{section}.{field}"), value, allowed))
        };
        let Self { warmup_updates, warmup_steps, total_updates, total_steps, .. } = *self;
        if warmup_updates > 0 && warmup_steps > 0 {
            return refused("warmup_updates", warmup_updates, format!("0 with warmup_steps = {warmup_steps}"));
        }
        if self.schedule == Schedule::Constant {
            return Ok(());
        }
        match (total_updates, total_steps) {
            (1.., 1..) => refused("total_updates", total_updates, format!("0 with total_steps = {total_steps}")),
            (_, 0) if warmup_steps > 0 => {
                let allowed = format!("above warmup_steps = {warmup_steps} with schedule = cosine");
                refused("total_steps", 0, allowed)
            }
            (_, 0) if total_updates <= warmup_updates => {
                let allowed = format!("above warmup_updates = {warmup_updates} with schedule = cosine");
                refused("total_updates", total_updates, allowed)
            }
            (_, 1..) if warmup_updates > 0 => {
                refused("warmup_updates", warmup_updates, format!("0 with total_steps = {total_steps}"))
            }
            (_, 1..) if total_steps <= warmup_steps => {
                let allowed = format!("above warmup_steps = {warmup_steps} with schedule = cosine");
                refused("total_steps", total_steps, allowed)
            }
            _ => Ok(()),
        }
    }

    /// Whether the learning rate schedule is defined in steps.
    fn is_by_steps(&self) -> bool {
        self.warmup_steps > 0 || (self.schedule == Schedule::Cosine && self.total_steps > 0)
    }

    /// The learning rate after this number of updates in this number of completed steps of the phase.
    pub fn learning_rate_at(&self, updates: u64, steps: u64) -> f64 {
        let (done, warmup, total) = if self.is_by_steps() {
            (steps, self.warmup_steps, self.total_steps)
        } else {
            (updates, self.warmup_updates, self.total_updates)
        };
        if done < warmup {
            let risen = if self.warmup_from_zero { done } else { done + 1 };
            return self.learning_rate * risen as f64 / warmup as f64;
        }
        match self.schedule {
            Schedule::Constant => self.learning_rate,
            Schedule::Cosine => {
                let progress = ((done - warmup) as f64 / (total - warmup) as f64).min(1.0);
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
        let rates: Vec<f64> = (0..6).map(|update| settings.learning_rate_at(update, 0)).collect();
        assert_eq!(rates, [1.0, 2.0, 3.0, 4.0, 4.0, 4.0]);
    }

    #[test]
    fn a_warm_up_in_steps_is_constant_over_the_updates_of_a_step() {
        let settings = OptimizerSettings {
            learning_rate: 4.0,
            warmup_updates: 0,
            warmup_steps: 2,
            ..OptimizerSettings::default()
        };
        // Three updates a step.
        let rates: Vec<f64> = (0..9).map(|update| settings.learning_rate_at(update, update / 3)).collect();
        assert_eq!(rates, [2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0]);
    }

    #[test]
    fn a_warm_up_from_zero_begins_with_a_rate_of_0_and_is_one_later_everywhere() {
        let settings = OptimizerSettings {
            learning_rate: 1e-6,
            warmup_updates: 0,
            warmup_steps: 10,
            warmup_from_zero: true,
            ..OptimizerSettings::default()
        };
        // verl's get_constant_schedule_with_warmup: min(1, step / 10).
        for step in 0..12 {
            let wanted = 1e-6 * (step as f64 / 10.0).min(1.0);
            assert!((settings.learning_rate_at(4 * step, step) - wanted).abs() < 1e-21, "{step}");
        }
    }

    #[test]
    fn a_cosine_in_steps_ignores_the_number_of_updates() {
        let settings = OptimizerSettings {
            learning_rate: 1.0,
            warmup_updates: 0,
            warmup_steps: 2,
            schedule: Schedule::Cosine,
            total_steps: 12,
            final_fraction: 0.2,
            ..OptimizerSettings::default()
        };
        settings.validate("policy").unwrap();
        for (step, wanted) in [(0, 0.5), (2, 1.0), (7, 0.6), (12, 0.2), (99, 0.2)] {
            for updates in [0, 40, 4000] {
                let rate = settings.learning_rate_at(updates, step);
                assert!((rate - wanted).abs() < 1e-12, "step {step} has {rate}");
            }
        }
    }

    #[test]
    fn a_schedule_goes_by_updates_or_by_steps_but_not_by_both() {
        let cosine = || OptimizerSettings { schedule: Schedule::Cosine, warmup_updates: 0, ..Default::default() };
        let cases = [
            (OptimizerSettings { warmup_steps: 3, ..Default::default() }, "warmup_updates is 10, allowed: 0 with"),
            (
                OptimizerSettings { warmup_updates: 5, total_steps: 9, ..cosine() },
                "warmup_updates is 5, allowed: 0 with",
            ),
            (OptimizerSettings { warmup_steps: 5, total_updates: 9, ..cosine() }, "total_steps is 0, allowed: above"),
            (OptimizerSettings { warmup_steps: 5, total_steps: 5, ..cosine() }, "total_steps is 5, allowed: above"),
            (OptimizerSettings { total_updates: 5, total_steps: 5, ..cosine() }, "total_updates is 5, allowed: 0 with"),
            (cosine(), "total_updates is 0, allowed: above"),
        ];
        for (settings, words) in cases {
            let error = settings.validate("policy").unwrap_err().to_string();
            assert!(error.starts_with(&format!("policy.{words}")), "{error}");
        }
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
        let rates: Vec<f64> = [2, 7, 12, 99].map(|update| settings.learning_rate_at(update, 0)).to_vec();
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
