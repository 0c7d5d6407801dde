//! A second algorithm, for tests: the policy is pulled to a teacher, by a coefficient that follows their distance.

mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use evenkeel_model::folder::load_parameters;
use evenkeel_model::{Config, ModelError, Parameters, TrainableModel};
use evenkeel_objective::{Error, TermStats, response_term};
use evenkeel_proto::FieldError;
use evenkeel_run::metric::{MetricName, table as metric};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{InitialPolicy, LossTerm, TermTokens};

/// The section of its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TeacherSettings {
    /// The folder of the teacher, whose vocabulary is that of the policy.
    pub folder: PathBuf,
    /// The coefficient before the first step, above 0.
    pub coefficient: f64,
    /// The mean distance of a token, above 0, at which the coefficient stays.
    pub target: f64,
}

impl Default for TeacherSettings {
    fn default() -> Self {
        Self { folder: PathBuf::new(), coefficient: 0.5, target: 0.1 }
    }
}

/// `coefficient` times the distance sqrt(1 + d^2) - 1 of each token, d = logp - its log-probability under the teacher.
#[derive(Clone)]
struct Teacher {
    settings: TeacherSettings,
    /// Grows by a half after a step above the target, and falls by as much after one below.
    coefficient: f64,
}

pub(crate) fn term(settings: Option<&TeacherSettings>) -> Option<Arc<dyn LossTerm>> {
    let settings = settings?.clone();
    Some(Arc::new(Teacher { coefficient: settings.coefficient, settings }))
}

impl LossTerm for Teacher {
    fn setting(&self) -> &'static str {
        "teacher"
    }

    fn validate(&self) -> Result<(), FieldError> {
        for (field, value) in [("coefficient", self.settings.coefficient), ("target", self.settings.target)] {
            let is_allowed = value.is_finite() && value > 0.0;
            FieldError::ensure(is_allowed, format!("teacher.{field}"), value, "a finite number above 0")?;
        }
        Ok(())
    }

    fn network_bytes(&self, _trained: u64) -> Result<u64, ModelError> {
        let (config, _) = Config::load(&self.settings.folder)?;
        Ok(4 * Parameters::described(&config)?.count() as u64)
    }

    fn open_network(&self, policy: &InitialPolicy<'_>) -> Result<Option<Box<dyn TrainableModel>>, ModelError> {
        let folder = &self.settings.folder;
        let (config, _) = Config::load(folder)?;
        if config.vocab_size != policy.config.vocab_size {
            let allowed = format!("{}, as the policy has", policy.config.vocab_size);
            return Err(ModelError::input("teacher.folder", format_args!("of {} tokens", config.vocab_size), allowed));
        }
        let parameters = load_parameters(folder, &config, policy.parameters.device())?;
        policy.network(config, parameters).map(Some)
    }

    fn response(&self, weight: f64, tokens: TermTokens<'_>, gradient: &mut [f32]) -> Result<TermStats, Error> {
        let TermTokens { logp, other_logp, .. } = tokens;
        response_term(
            self.coefficient * weight,
            &vec![true; logp.len()],
            logp,
            other_logp,
            gradient,
            |logp, teacher| {
                let d = logp - teacher;
                let root = (1.0 + d * d).sqrt();
                (root - 1.0, d / root)
            },
        )
    }

    fn formula(&self) -> Option<String> {
        Some(format!("+ {} sum of sqrt(1 + d^2) - 1, d = logp - teacher_logp", self.settings.coefficient))
    }

    fn metrics(&self, updates: &[TermStats]) -> Vec<(MetricName, f64)> {
        vec![(metric::KL_LOSS.into(), super::mean_loss(updates))]
    }

    fn after_step(&self, applied: &[TermStats]) -> Option<Arc<dyn LossTerm>> {
        let mut all = TermStats::default();
        applied.iter().for_each(|update| all.add(update));
        let factor = if all.mean()? > self.settings.target { 1.5 } else { 1.0 / 1.5 };
        Some(Arc::new(Self { coefficient: factor * self.coefficient, ..self.clone() }))
    }

    fn state(&self) -> Option<Value> {
        Some(self.coefficient.into())
    }

    fn with_state(&self, state: &Value) -> Result<Arc<dyn LossTerm>, String> {
        match state.as_f64() {
            Some(coefficient) if coefficient > 0.0 => Ok(Arc::new(Self { coefficient, ..self.clone() })),
            _ => Err(format!("teacher: the coefficient is {state}, allowed: a number above 0")),
        }
    }
}
