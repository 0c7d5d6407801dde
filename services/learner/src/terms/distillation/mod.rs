//! On-policy distillation: pulls the policy to a teacher at the tokens that it sampled. The teacher is a model in a
//! folder, or the policy itself, which then reads prompts with hints.

mod folder;
mod settings;

use std::path::Path;
use std::sync::Arc;

use evenkeel_model::folder::load_parameters;
use evenkeel_model::{ModelError, Parameters, TrainableModel};
use evenkeel_objective::{Error, ResponseTokens, Settings, TermStats, response_distillation};
use evenkeel_proto::FieldError;
use evenkeel_run::metric::{MetricName, table as metric};

use super::{InitialPolicy, LossTerm, TermTokens, TokenShare};
pub use settings::DistillationSettings;

/// Field of the teacher's folder.
const TEACHER: &str = "distillation.teacher";

struct DistillationTerm {
    settings: DistillationSettings,
    /// The corrections of the objective are those of the term.
    objective: Settings,
}

/// The term, if there is a teacher.
pub(crate) fn term(settings: Option<&DistillationSettings>, objective: &Settings) -> Option<Arc<dyn LossTerm>> {
    Some(Arc::new(DistillationTerm { settings: settings?.clone(), objective: objective.clone() }))
}

impl LossTerm for DistillationTerm {
    fn setting(&self) -> &'static str {
        TEACHER
    }

    fn validate(&self) -> Result<(), FieldError> {
        self.settings.validate()
    }

    fn reads_hints(&self) -> bool {
        self.settings.hints
    }

    fn share(&self) -> TokenShare {
        TokenShare::OfBatch
    }

    fn temperature(&self) -> Option<f32> {
        self.settings.teacher_temperature
    }

    fn validate_folder(&self, policy: &Path) -> Result<(), ModelError> {
        self.settings.folder().map_or(Ok(()), |teacher| folder::validate(teacher, policy))
    }

    fn network_bytes(&self, _trained: u64) -> Result<u64, ModelError> {
        let Some(teacher) = self.settings.folder() else { return Ok(0) };
        let (config, _) = folder::config(teacher)?;
        Ok(4 * Parameters::described(&config)?.count() as u64)
    }

    fn open_network(&self, policy: &InitialPolicy<'_>) -> Result<Option<Box<dyn TrainableModel>>, ModelError> {
        let Some(teacher) = self.settings.folder() else { return Ok(None) };
        let (config, _) = folder::config(teacher)?;
        folder::validate_shape(teacher, &config, policy.config)?;
        let parameters = load_parameters(teacher, &config, policy.parameters.device())?;
        policy.network(config, parameters).map(Some)
    }

    fn response(&self, weight: f64, tokens: TermTokens<'_>, gradient: &mut [f32]) -> Result<TermStats, Error> {
        let TermTokens { logp, old_logp, rollout_logp, other_logp } = tokens;
        let mask = vec![true; logp.len()];
        let tokens = ResponseTokens { mask: &mask, logp, old_logp, rollout_logp: Some(rollout_logp) };
        let weight = self.settings.weight * weight;
        response_distillation(&self.objective, self.settings.of_tokens(), weight, &tokens, other_logp, gradient)
    }

    fn formula(&self) -> Option<String> {
        let DistillationSettings { weight, bound, discount, teacher_temperature, .. } = self.settings;
        let c = if self.objective.correction == evenkeel_objective::Correction::None { "" } else { " c" };
        let later = if discount == 0.0 { String::new() } else { format!(" + {discount} times that of the next token") };
        let at = teacher_temperature.map_or_else(String::new, |at| format!(" at temperature {at}"));
        let teacher = if self.settings.hints { ", teacher_logp = old_logp after the prompt with its hint" } else { "" };
        Some(format!(
            "+ {weight} sum of s rho{c} / N, s = old_logp - teacher_logp{at} within ±{bound}{later}{teacher} [distillation]"
        ))
    }

    fn metrics(&self, updates: &[TermStats]) -> Vec<(MetricName, f64)> {
        let mut all = TermStats::default();
        updates.iter().for_each(|update| all.add(update));
        let Some(distance) = all.mean() else { return Vec::new() };
        vec![
            (metric::DISTILLATION_LOSS.into(), super::mean_loss(updates)),
            (metric::TEACHER_KL.into(), distance),
            (metric::TEACHER_BOUNDED.into(), all.bounded as f64),
        ]
    }
}

#[cfg(test)]
mod self_tests;
#[cfg(test)]
mod tests;
