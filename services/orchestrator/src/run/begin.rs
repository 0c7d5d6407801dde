//! Everything that is checked before a run starts, and what it is made of.

use std::time::Duration;

use evenkeel_proto::v1::{RewardGetStatusResponse, RunState, StepKind};
use evenkeel_tasks::{TaskKind, unsound_golds};

use super::RunOptions;
use super::drive::Driver;
use crate::clients::{Endpoints, Services, Stop};
use crate::data::{Demonstrations, Order, Prompts, dataset};
use crate::directory::{EVALUATION_FILE, Lines, METRICS_FILE, RunDirectory, WARM_START_FILE};
use crate::error::{Halt, RunError};
use crate::events::{Event, Events};
use crate::load::Loading;
use crate::recipe::ResolvedRecipe;
use crate::text::{Tokenizer, optional_json};

/// How long a reward worker may take to connect before that is told.
const REWARD_CONNECT_GRACE: Duration = Duration::from_millis(50);

/// Checks what needs no service.
pub(super) fn begin(
    resolved: ResolvedRecipe,
    directory: RunDirectory,
    endpoints: Endpoints,
    options: RunOptions,
    events: Events,
    stop: Stop,
) -> Result<Driver, RunError> {
    let recipe = resolved.recipe.clone();
    evenkeel_config::Settings::validate(&recipe)?;
    let loading = Loading { limits: options.limits, cancel: options.cancel };
    recipe.validate_within(&loading.limits)?;
    let (seed, held_out) = (recipe.run.seed, recipe.evaluation.problems);
    let dataset = dataset(&recipe.data, seed, held_out, &loading.limits.data(), &loading.cancel)?;
    loading.cancel.check()?;
    let folder = resolved.model_folder(directory.path(), &loading.limits)?;
    let tokenizer = Tokenizer::load_within(&folder, &loading)?;
    let model_config = optional_json(&folder.join("config.json"))?.unwrap_or_default();
    let number = |key: &str| model_config.get(key).and_then(serde_json::Value::as_u64);
    let (context, vocabulary) = (number("max_position_embeddings"), number("vocab_size"));
    let missing = |key: &str| RunError::model(folder.join("config.json"), format!("has no number `{key}`"));
    let context = context.ok_or_else(|| missing("max_position_embeddings"))? as usize;
    let vocabulary = vocabulary.ok_or_else(|| missing("vocab_size"))?;
    if u64::from(tokenizer.vocabulary_size()) > vocabulary {
        let message = format!(
            "has {} tokens, allowed: at most vocab_size of config.json, which is {vocabulary}",
            tokenizer.vocabulary_size()
        );
        return Err(RunError::model(folder.join("tokenizer.json"), message));
    }
    if let Some(id) = recipe.sampling.stop_token_ids.iter().find(|&&id| u64::from(id) >= vocabulary) {
        let allowed = format!("ids below vocab_size of config.json, which is {vocabulary}");
        return Err(evenkeel_proto::FieldError::new("sampling.stop_token_ids", id, allowed).into());
    }
    let (answer, cancel) = (recipe.sampling.max_tokens as usize, &loading.cancel);
    let prompts = Prompts::encode(&dataset, &tokenizer, context, answer, recipe.data.overlong, cancel)?;
    let demonstrations = match recipe.warm_start.steps {
        0 => None,
        _ => {
            let demonstrations = Demonstrations::of(&dataset, seed)?;
            demonstrations.check(&tokenizer, context, cancel)?;
            Some(demonstrations)
        }
    };
    let unsound_golds = unsound_golds(&dataset, cancel)?;
    let lines = |name, kind| Lines::open(directory.path(), name, kind);
    Ok(Driver {
        order: Order::new(prompts.train.len(), recipe.run.seed, recipe.data.shuffle),
        services: Services::connect(endpoints, &recipe.services, events.clone(), stop.clone())?,
        metrics: lines(METRICS_FILE, StepKind::Train)?,
        warm_starts: lines(WARM_START_FILE, StepKind::WarmStart)?,
        evaluations: lines(EVALUATION_FILE, StepKind::Evaluation)?,
        settings_hash: resolved.learner_settings_hash,
        task_kinds: dataset.kinds(),
        aggregation: resolved.aggregation,
        config: resolved.toml,
        notes: resolved.notes,
        vocabulary_size: vocabulary.try_into().unwrap_or(u32::MAX),
        versions: Default::default(),
        unsound_golds,
        recipe,
        directory,
        events,
        stop,
        tokenizer,
        prompts,
        demonstrations,
    })
}

/// Refuses a reward service that cannot judge a kind of task in the data.
fn judges_all(kinds: &[TaskKind], reward: &RewardGetStatusResponse) -> Result<(), RunError> {
    let judges = |kind: &&TaskKind| match kind {
        TaskKind::Math => reward.math,
        TaskKind::Code => reward.code,
        TaskKind::Custom => reward.custom,
    };
    match kinds.iter().find(|kind| !judges(kind)) {
        Some(kind) => {
            let kind = kind.name();
            Err(RunError::Mismatch(format!("the data has {kind} tasks, which the reward service cannot judge")))
        }
        None => Ok(()),
    }
}

impl Driver {
    /// Checks the services, as soon as they are there: whether they go together, and with the recipe.
    pub(super) async fn check_services(&mut self) -> Result<(), Halt> {
        self.events.enter(RunState::Starting);
        let learner = self.services.learner_status().await?;
        let generation = self.services.generation_status().await?;
        self.wait_for_reward().await?;
        let reward = self.services.reward_status().await?;

        let wanted = self.settings_hash.get_or_insert_with(|| learner.settings_hash.clone());
        if *wanted != learner.settings_hash {
            let message = format!("the learner trains by settings {}, the recipe has {wanted}", learner.settings_hash);
            return Err(RunError::Mismatch(message).into());
        }
        let longest =
            self.prompts.train.iter().chain(&self.prompts.held_out).map(|prompt| prompt.token_ids.len()).max();
        let needed = longest.unwrap_or(0) + self.recipe.sampling.max_tokens as usize;
        for (service, model) in [("learner", &learner.model), ("generation", &generation.model)] {
            let Some(model) = model else { continue };
            // 0 and empty: the service does not say.
            if model.vocabulary_size != 0 && model.vocabulary_size != self.vocabulary_size {
                let (has, of) = (self.vocabulary_size, model.vocabulary_size);
                let message = format!("the model folder has a vocabulary of {has}, the {service} service one of {of}");
                return Err(RunError::Mismatch(message).into());
            }
            let ours = self.tokenizer.digest();
            if !model.tokenizer_digest.is_empty() && model.tokenizer_digest != ours {
                let message =
                    format!("tokenizer.json is {ours}, that of the {service} service {}", model.tokenizer_digest);
                return Err(RunError::Mismatch(message).into());
            }
            let context = model.context_tokens as usize;
            if context != 0 && context < needed {
                let message = format!("prompt and answer need {needed} tokens, the {service} service takes {context}");
                return Err(RunError::Mismatch(message).into());
            }
        }
        if let Some(reward) = &reward {
            judges_all(&self.task_kinds, reward)?;
        }
        let profile = &self.recipe.data.math_profile;
        if let Some(reward) = &reward
            && self.task_kinds.contains(&TaskKind::Math)
            && !profile.is_empty()
            && !reward.math_profiles.contains(profile)
        {
            let allowed = reward.math_profiles.join(", ");
            return Err(
                evenkeel_proto::FieldError::new("data.math_profile", format_args!("`{profile}`"), allowed).into()
            );
        }
        let servers =
            [("learner", learner.server), ("generation", generation.server), ("reward", reward.and_then(|r| r.server))];
        for (service, server) in servers {
            if let Some(version) = server.map(|server| server.program_version).filter(|version| !version.is_empty()) {
                self.versions.insert(service.to_owned(), version);
            }
        }
        for engine in generation.engines.iter().filter(|engine| !engine.engine_version.is_empty()) {
            self.versions.insert(format!("engine {}", engine.name), engine.engine_version.clone());
        }
        Ok(())
    }

    /// Waits for a first worker.
    async fn wait_for_reward(&self) -> Result<(), Halt> {
        let mut outage = self.services.reward_outage();
        loop {
            let is_there = self.services.reward.ready(1, REWARD_CONNECT_GRACE).await;
            outage.observe(is_there, &self.stop)?;
            if is_there {
                return Ok(());
            }
            if let Some(halt) = futures_util::FutureExt::now_or_never(self.stop.any()) {
                return Err(halt);
            }
        }
    }

    pub(super) fn tell_started(&self, step: u64) {
        self.directory.mark_entered();
        self.events.emit(Event::Started {
            run_id: self.directory.run_id().to_owned(),
            directory: self.directory.path().to_owned(),
            step,
            total_steps: self.recipe.run.steps,
            warm_start_steps: self.recipe.warm_start.steps,
            problems: self.prompts.train.len(),
        });
        for message in self.notes.clone() {
            self.events.emit(Event::Note { message });
        }
        if let Some(message) = self.unsound_golds.clone() {
            self.events.emit(Event::Warning { message });
        }
    }
}
