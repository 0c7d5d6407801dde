//! The resolved objective as one line of text: a name means different things in different systems, a formula does not.

use std::fmt;

use super::Settings;
use crate::{Aggregation, Correction};

impl Settings {
    /// The resolved objective, with numbers, as one line for the log.
    #[must_use]
    pub fn formula(&self) -> String {
        let mut weight = self.aggregation.formula_with(self.constants());
        if self.aggregation == Aggregation::Sides {
            let ratio = self.side_ratio.as_ref().map_or_else(|| "1".to_owned(), ToString::to_string);
            weight += &format!(", r = {ratio}");
        }
        let mut line = format!(
            "loss = - sum of w{c} phi over trainable tokens; A = {advantage} [{}]; w = {weight} [{}]; phi = {phi} [{}]",
            self.advantage,
            self.aggregation,
            self.policy,
            c = if self.correction == Correction::None { "" } else { " c" },
            advantage = self.advantage.formula(),
            phi = self.policy.formula(&self.clip()),
        );
        if self.correction != Correction::None {
            line += &format!("; c = {} [{}]", self.correction.formula(self.correction_bounds()), self.correction);
        }
        if self.kl_coefficient != 0.0 {
            let beta = self.kl_coefficient;
            let estimate = self.kl_estimator.formula();
            line +=
                &format!("; + {beta} sum of ({estimate}) / (P N_g), d = logp - reference_logp [{}]", self.kl_estimator);
        }
        if self.entropy_coefficient != 0.0 {
            line += &format!("; - {} sum of entropy / (P N_g)", self.entropy_coefficient);
        }
        line
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.formula())
    }
}
