//! Checks of the services before the first step: whether they fit each other and the settings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_data::TaskKind;
use evenkeel_proto::v1::{
    GenerationGetStatusResponse, LearnerGetStatusResponse, ModelInfo, RewardGetStatusResponse, RunState,
};
use evenkeel_proto::{FieldError, engine_advice};
use evenkeel_run::ATTENTION;

use super::head;
use super::run_context::RunContext;
use super::training_steps::TrainingSteps;
use crate::clients::Services;
use crate::data::Prompts;
use crate::dependency::Dependency;
use crate::error::{Halt, Incompatible, RunError};
use crate::evaluation::Benchmarks;
use crate::events::Event;
use crate::settings::{LoopSettings, ShapingSettings};
use crate::text::Tokenizer;

/// What the services must provide.
pub(super) struct Preflight {
    services: Arc<Services>,
    /// `None` for an evaluation without a run, which has no learner.
    training: Option<Arc<TrainingSteps>>,
    vocabulary_size: u32,
    tokenizer_digest: String,
    /// Longest prompt and response together that are trained on, in tokens.
    context_tokens: usize,
    /// Longest prompt and response together of evaluations, which the learner never sees.
    evaluation_tokens: usize,
    math_profile: String,
    /// Environments that tasks are done in.
    environments: BTreeSet<String>,
    /// Kinds of tasks in the data.
    task_kinds: Vec<TaskKind>,
    /// What the settings say of the components of rewards.
    shaping: ShapingSettings,
    /// Versions of the weights that samples may be drawn from at a time.
    live_versions: u64,
}

impl Preflight {
    pub(super) fn new(
        context: &RunContext,
        training: Arc<TrainingSteps>,
        prompts: &Prompts,
        benchmarks: &Benchmarks,
    ) -> Self {
        let RunContext { settings, tokenizer, vocabulary_size, .. } = context;
        let mut task_kinds = benchmarks.kinds();
        task_kinds.extend(prompts.kinds());
        Self {
            training: Some(training),
            context_tokens: prompts.training_context(&settings.sampling),
            environments: owned(&prompts.environments() | &benchmarks.environments()),
            task_kinds: task_kinds.into_iter().collect(),
            ..Self::of_evaluation(context.services(), *vocabulary_size, tokenizer, benchmarks, settings)
        }
    }

    /// The checks of an evaluation without a run.
    pub(super) fn of_evaluation(
        services: Arc<Services>,
        vocabulary_size: u32,
        tokenizer: &Tokenizer,
        benchmarks: &Benchmarks,
        settings: &LoopSettings,
    ) -> Self {
        Self {
            services,
            training: None,
            vocabulary_size,
            tokenizer_digest: tokenizer.digest().to_owned(),
            context_tokens: 0,
            evaluation_tokens: benchmarks.context_tokens(),
            math_profile: settings.data.math_profile.clone(),
            environments: owned(benchmarks.environments()),
            task_kinds: benchmarks.kinds().into_iter().collect(),
            shaping: settings.shaping.clone(),
            live_versions: u64::from(settings.pipeline.max_lag) + 1,
        }
    }

    /// Waits for the services and checks them. Returns their versions.
    ///
    /// # Errors
    /// A service that does not fit; one that stays unreachable.
    #[tracing::instrument(name = "preflight", skip_all)]
    pub(super) async fn run(&self) -> Result<BTreeMap<String, String>, Halt> {
        self.services.events().enter_phase(RunState::Starting);
        let learner = match self.training {
            Some(_) => Some(self.services.learner().status().await?),
            None => None,
        };
        let generation = self.services.generation().status().await?;
        self.services.reward().connected(self.services.stop()).await?;
        let reward = self.services.reward().statuses().await?;
        if let (Some(training), Some(learner)) = (&self.training, &learner) {
            training.meet(learner, &generation)?;
            self.check_model(Dependency::Learner, learner.model.as_ref(), self.context_tokens)?;
        }
        let asked = self.context_tokens.max(self.evaluation_tokens);
        self.check_model(Dependency::Generation, generation.model.as_ref(), asked)?;
        if let Some(learner) = &learner {
            let write_out = head::is_written_out(learner, &generation)?;
            if learner.trains_adapters() && (1..self.live_versions).contains(&generation.max_adapters) {
                let message = format!(
                    "an engine computes {} adapters at a time, and samples are drawn from {} versions \
                     (pipeline.max_lag): an update waits for the samples of the oldest; start engines for more ({})",
                    generation.max_adapters,
                    self.live_versions,
                    engine_advice::MORE_ADAPTERS,
                );
                self.services.events().emit(Event::Note { message });
            }
            if !learner.attention_in_blocks.is_empty() {
                let reason = &learner.attention_in_blocks;
                let message = format!(
                    "attention is computed in blocks of queries, not by cuDNN, so that long sequences take longer: \
                     {reason} (see docs/gpu.md)"
                );
                self.services.events().emit(Event::Note { message });
            }
            self.services.learner().set_write_out_head(write_out);
            if write_out {
                let text = "the output head of the model is tied to its embedding, and untied for these engines: it \
                    takes its size once more in every published folder and in the memory of every engine";
                self.services.events().emit(Event::Note { message: text.to_owned() });
            }
        }
        reward.iter().try_for_each(|(endpoint, status)| self.check_reward(endpoint, status))?;
        if !self.environments.is_empty() {
            let needed = self.environments.iter().map(String::as_str).collect();
            self.services.environments()?.serves(&needed, self.services.stop()).await?;
        }
        let verifiers = self.verifiers().await?;
        let verifiers_statuses = verifiers.iter().map(|(_, status)| status);
        check_components(&self.shaping, reward.iter().map(|(_, status)| status).chain(verifiers_statuses))?;
        let reward = reward.into_iter().next().map(|(_, status)| status);
        Ok(versions(learner, generation, reward, verifiers))
    }

    /// 0 and empty fields are unknown to the service.
    fn check_model(&self, service: Dependency, model: Option<&ModelInfo>, needed: usize) -> Result<(), Incompatible> {
        let Some(model) = model else { return Ok(()) };
        let folder = self.vocabulary_size;
        let reported = model.vocabulary_size;
        if reported != 0 && reported != folder {
            return Err(Incompatible::Vocabulary { service, folder, reported });
        }
        let folder = &self.tokenizer_digest;
        let reported = &model.tokenizer_digest;
        if !reported.is_empty() && reported != folder {
            return Err(Incompatible::Tokenizer { service, folder: folder.clone(), reported: reported.clone() });
        }
        let context = model.context_tokens as usize;
        if context != 0 && context < needed {
            return Err(Incompatible::Context { service, needed, context });
        }
        Ok(())
    }

    /// Waits for every custom verifier. Returns the statuses of their workers, as far as those have addresses of their
    /// own.
    async fn verifiers(&self) -> Result<Vec<(String, RewardGetStatusResponse)>, Halt> {
        let mut all = Vec::new();
        for (name, verifier) in self.services.custom_verifiers() {
            verifier.connected(self.services.stop()).await?;
            for (endpoint, status) in verifier.statuses().await? {
                if !status.custom {
                    return Err(Incompatible::Verifier { name: name.clone(), endpoint: endpoint.to_string() }.into());
                }
                all.push((name.clone(), status));
            }
        }
        Ok(all)
    }

    fn check_reward(&self, endpoint: &str, reward: &RewardGetStatusResponse) -> Result<(), RunError> {
        let verifies = |kind: &&TaskKind| match kind {
            TaskKind::Math => reward.math,
            TaskKind::Code => reward.code,
            // Those go to verifiers of their own, or to none.
            TaskKind::Custom | TaskKind::Environment | TaskKind::Unjudged => true,
        };
        if let Some(kind) = self.task_kinds.iter().find(|kind| !verifies(kind)) {
            return Err(Incompatible::Tasks { kind: kind.name(), endpoint: endpoint.to_owned() }.into());
        }
        let profile = &self.math_profile;
        if self.task_kinds.contains(&TaskKind::Math) && !profile.is_empty() && !reward.math_profiles.contains(profile) {
            let allowed = reward.math_profiles.join(", ");
            return Err(FieldError::quoted("data.math_profile", profile, allowed).into());
        }
        Ok(())
    }
}

fn owned(names: BTreeSet<&str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// Refuses weights of components that nobody has, as far as is known who has which.
fn check_components<'a>(
    shaping: &ShapingSettings,
    judges: impl Iterator<Item = &'a RewardGetStatusResponse>,
) -> Result<(), FieldError> {
    shaping.check_components(judges.flat_map(|judge| judge.components.iter().map(String::as_str)))
}

/// The versions of services and engines, as far as they are known.
fn versions(
    learner: Option<LearnerGetStatusResponse>,
    generation: GenerationGetStatusResponse,
    reward: Option<RewardGetStatusResponse>,
    verifiers: Vec<(String, RewardGetStatusResponse)>,
) -> BTreeMap<String, String> {
    let verifiers = verifiers
        .into_iter()
        .filter_map(|(name, status)| Some((format!("verifier {name}"), status.server?.program_version)));
    let reward = reward.and_then(|reward| reward.server);
    let in_blocks = learner.as_ref().map(|learner| learner.attention_in_blocks.clone()).unwrap_or_default();
    let attention =
        (!in_blocks.is_empty()).then(|| (ATTENTION.to_owned(), format!("in blocks of queries: {in_blocks}")));
    let learner = learner.and_then(|learner| learner.server);
    let servers = [("learner", learner), ("generation", generation.server), ("reward", reward)];
    let servers =
        servers.into_iter().filter_map(|(service, server)| Some((service.to_owned(), server?.program_version)));
    let engines =
        generation.engines.into_iter().map(|engine| (format!("engine {}", engine.name), engine.engine_version));
    servers.chain(engines).chain(verifiers).chain(attention).filter(|(_, version)| !version.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_attention_of_a_gpu_is_recorded_beside_the_versions() {
        let reason = "compute capability of the device is 8.0, allowed for cuDNN: 9.0 to 10.3".to_owned();
        let learner = LearnerGetStatusResponse { attention_in_blocks: reason.clone(), ..Default::default() };
        let recorded = versions(Some(learner), Default::default(), None, Vec::new());
        assert_eq!(recorded, BTreeMap::from([(ATTENTION.to_owned(), format!("in blocks of queries: {reason}"))]));
        let learner = LearnerGetStatusResponse::default();
        assert_eq!(versions(Some(learner), Default::default(), None, Vec::new()), BTreeMap::new());
    }
}
