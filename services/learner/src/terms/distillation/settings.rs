//! The section of distillation in settings.

use std::path::{Path, PathBuf};

use evenkeel_objective::Distillation;
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// On-policy distillation: the policy is pulled to a teacher at the tokens that it sampled itself. Absent: there is no
/// teacher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DistillationSettings {
    /// The folder of the teacher, a model with the vocabulary, control tokens and chat template of the policy. Either
    /// this or `hints`.
    // Also written where it is empty: the hash of settings is a digest of that.
    pub teacher: PathBuf,
    /// Self-distillation: the teacher is the model itself, with the weights before the first update of each step, and
    /// reads each prompt with the hint of its row (`data.hint`). This teacher moves with the model.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hints: bool,
    /// What the distillation term counts in the loss, above 0.
    pub weight: f64,
    /// What the policy term, which is that of rewards, counts in the loss, at least 0. With 0 the teacher alone decides:
    /// rewards are shown, not learned from, and rows may have no verifier (`data.verifier = "none"`).
    pub reward_weight: f64,
    /// The largest magnitude of logp - teacher_logp of a token, in nats, above 0; beyond it the difference is bounded.
    pub bound: f64,
    /// What the next token's signal counts in a token's own, 0 to 1: 0 is the KL at visited prefixes, 1 that of whole
    /// responses.
    pub discount: f64,
    /// The temperature of the teacher, above 0. Absent: the sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teacher_temperature: Option<f32>,
}

impl Default for DistillationSettings {
    fn default() -> Self {
        let Distillation { bound, discount } = Distillation::default();
        let teacher = PathBuf::new();
        Self { teacher, hints: false, weight: 1.0, reward_weight: 0.0, bound, discount, teacher_temperature: None }
    }
}

impl DistillationSettings {
    /// The folder of the teacher; `None` where the model teaches itself.
    pub fn folder(&self) -> Option<&Path> {
        (!is_empty(&self.teacher)).then_some(&*self.teacher)
    }

    /// What decides the signal of a token.
    pub(super) fn of_tokens(&self) -> Distillation {
        Distillation { bound: self.bound, discount: self.discount }
    }

    /// Whether the teacher alone decides.
    pub fn is_alone(&self) -> bool {
        self.reward_weight == 0.0
    }

    pub(super) fn validate(&self) -> Result<(), FieldError> {
        let Self { weight, reward_weight, .. } = *self;
        if let Some(teacher) = self.folder().filter(|_| self.hints) {
            let allowed = "absent with distillation.hints, where the model teaches itself";
            return Err(FieldError::new("distillation.teacher", teacher.display(), allowed));
        }
        if self.folder().is_none() && !self.hints {
            let allowed = "the folder of a model, or distillation.hints = true, where the model teaches itself";
            return Err(FieldError::new("distillation.teacher", "empty", allowed));
        }
        let is_positive = |number: f64| number.is_finite() && number > 0.0;
        FieldError::ensure(is_positive(weight), "distillation.weight", weight, "a finite number above 0")?;
        let is_allowed = reward_weight == 0.0 || is_positive(reward_weight);
        FieldError::ensure(is_allowed, "distillation.reward_weight", reward_weight, "a finite number, at least 0")?;
        self.of_tokens().validate().map_err(|error| error.within("distillation"))?;
        if let Some(temperature) = self.teacher_temperature {
            let is_allowed = is_positive(f64::from(temperature));
            let field = "distillation.teacher_temperature";
            FieldError::ensure(is_allowed, field, temperature, "a finite number above 0")?;
        }
        Ok(())
    }

    /// What a reader of these settings should know.
    pub(crate) fn note(&self) -> Option<String> {
        self.is_alone().then(|| {
            "distillation.reward_weight = 0: the teacher alone decides; rewards are shown and change no weight"
                .to_owned()
        })
    }
}

fn is_empty(teacher: &Path) -> bool {
    teacher.as_os_str().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut DistillationSettings)) -> String {
        let mut settings = DistillationSettings { teacher: "teacher".into(), ..DistillationSettings::default() };
        settings.validate().unwrap();
        change(&mut settings);
        settings.validate().unwrap_err().to_string()
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_their_fields() {
        for (error, wanted) in [
            (refused(|it| it.teacher = PathBuf::new()), "distillation.teacher is empty, allowed: the folder"),
            (refused(|it| it.hints = true), "distillation.teacher is teacher, allowed: absent with distillation.hints"),
            (refused(|it| it.weight = 0.0), "distillation.weight is 0, allowed: a finite number above 0"),
            (refused(|it| it.reward_weight = -1.0), "distillation.reward_weight is -1, allowed: a finite number, at"),
            (refused(|it| it.bound = f64::NAN), "distillation.bound is NaN, allowed: a finite number above 0"),
            (refused(|it| it.discount = 1.01), "distillation.discount is 1.01, allowed: 0 to 1"),
            (refused(|it| it.teacher_temperature = Some(0.0)), "distillation.teacher_temperature is 0, allowed: a"),
        ] {
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
