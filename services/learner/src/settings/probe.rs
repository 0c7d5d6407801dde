//! Which steps measure the gradient of every aggregation rule.

use evenkeel_objective::{Aggregation, Settings};
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which steps measure the gradients of aggregation rules on their batch, and for which rules. Does not affect the
/// results of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProbeSettings {
    /// Interval in steps between measurements, from the first step on; 0 for none. Costs a backward pass over the batch
    /// for each rule, and 4 bytes of host memory for each rule and parameter.
    pub every: u64,
    /// The rules besides the one in use; empty is all (those that divide by `max_tokens` only if `objective.max_tokens`
    /// is set, and neither `luspo`, whose gradient is that of `sequence-sum` at another scale, nor `sides`, whose
    /// numbers only a run that uses it has).
    pub rules: Vec<Aggregation>,
}

impl ProbeSettings {
    /// Whether a GRPO step, counted from 1, is one of them.
    pub fn is_due(&self, step: u64) -> bool {
        self.every > 0 && step.saturating_sub(1).is_multiple_of(self.every)
    }

    /// The rules that are computed, that in use among them.
    pub(crate) fn rules(&self, objective: &Settings) -> Vec<Aggregation> {
        let is_meant = |rule: &Aggregation| {
            if self.rules.is_empty() {
                !matches!(rule, Aggregation::Luspo | Aggregation::Sides)
                    && (!rule.uses_max_tokens() || objective.max_tokens > 0)
            } else {
                self.rules.contains(rule)
            }
        };
        Aggregation::ALL.iter().copied().filter(|rule| *rule == objective.aggregation || is_meant(rule)).collect()
    }

    /// # Errors
    /// A rule that the objective has no number for.
    pub(super) fn validate(&self, objective: &Settings) -> Result<(), FieldError> {
        if objective.aggregation != Aggregation::Sides && self.rules.contains(&Aggregation::Sides) {
            let allowed = "rules without sides, whose numbers only a run with objective.aggregation = sides has";
            return Err(FieldError::new("probe_gradients.rules", Aggregation::Sides, allowed));
        }
        match self.rules.iter().find(|rule| rule.uses_max_tokens() && objective.max_tokens == 0) {
            None => Ok(()),
            Some(rule) => {
                let allowed = "rules that need no objective.max_tokens, which is 0";
                Err(FieldError::new("probe_gradients.rules", rule, allowed))
            }
        }
    }
}
