//! The resolved objective as one line of text: names mean different things in different systems, formulas do not.

use std::fmt;

use crate::{Aggregation, Correction, Policy, Settings};

impl Settings {
    /// The resolved objective as one line for the log, since two systems mean two things by one name.
    #[must_use]
    pub fn formula(&self) -> String {
        let mut line = format!(
            "loss = - sum of w{c} phi over trainable tokens; A = {advantage} [{}]; w = {weight}{tokens} [{}]; phi = {phi} [{}]",
            self.advantage,
            self.aggregation,
            self.policy,
            c = if self.correction == Correction::None { "" } else { " c" },
            advantage = self.advantage.formula(),
            weight = self.aggregation.formula(),
            tokens = match self.aggregation {
                Aggregation::SequenceSum => format!(" with max_tokens = {}", self.max_tokens),
                _ => String::new(),
            },
            phi = self.policy_formula(),
        );
        if self.correction != Correction::None {
            line += &format!("; c = {} [{}]", self.correction_formula(), self.correction);
        }
        if self.kl_coefficient != 0.0 {
            let (beta, estimate) = (self.kl_coefficient, self.kl_estimator.formula());
            line +=
                &format!("; + {beta} sum of ({estimate}) / (P N_g), d = logp - reference_logp [{}]", self.kl_estimator);
        }
        if self.entropy_coefficient != 0.0 {
            line += &format!("; - {} sum of entropy / (P N_g)", self.entropy_coefficient);
        }
        line
    }

    fn policy_formula(&self) -> String {
        let (low, high) = (1.0 - self.clip_low, 1.0 + self.clip_high);
        let (cap, clip) = (self.dual_clip, self.gmpo_clip);
        match self.policy {
            Policy::Ppo => format!("min(rho A, clip(rho, {low}, {high}) A)"),
            Policy::DualClip => format!("min(rho A, clip(rho, {low}, {high}) A), at least {cap} A for A < 0"),
            Policy::Gspo => format!("min(s A, clip(s, {low}, {high}) A), s = exp(mean of log rho)"),
            Policy::Cispo => format!("sg(clip(rho, {low}, {high})) A logp"),
            Policy::Gmpo => format!("A exp(mean of log rho clipped on one side at {clip})"),
            Policy::Aspo => format!(
                "A > 0: A min(1/rho, {cap}) while rho < {high}; A < 0: A min(rho, {cap}) while rho > {low}; through logp"
            ),
        }
    }

    fn correction_formula(&self) -> String {
        let ratio = match self.correction.is_sequence() {
            true => "the product of exp(old_logp - behaviour_logp)",
            false => "exp(old_logp - behaviour_logp)",
        };
        match self.correction.is_mask() {
            true => format!("{ratio}, 0 outside {} to {}", self.correction_low, self.correction_high),
            false => format!("{ratio}, at most {}", self.correction_high),
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.formula())
    }
}
