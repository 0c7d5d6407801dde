//! From a recipe to a run that can start: everything that can be checked without a service.

use std::path::Path;
use std::sync::Arc;

use evenkeel_hf::ConfigFile;
use evenkeel_tasks::DataReport;

use super::{Announcement, RunLoop};
use crate::clients::{Endpoints, Services, Stop};
use crate::data::{Demonstrations, Encoder, Fit, Prompts, dataset};
use crate::directory::{DATA_FILE, RunDirectory};
use crate::error::RunError;
use crate::events::Events;
use crate::load::Loading;
use crate::recipe::ResolvedRecipe;
use crate::rollout::RolloutContext;
use crate::run::RunOptions;
use crate::run::checkpoints::CheckpointKeeper;
use crate::run::evaluator::Evaluator;
use crate::run::grpo::GrpoTrainer;
use crate::run::journal::RunJournal;
use crate::run::preflight::Preflight;
use crate::run::train_session::TrainSession;
use crate::run::warm_start::WarmStart;
use crate::run::weight_sync::WeightSync;
use crate::text::Tokenizer;

/// Checks everything that needs no service, and builds the run from its parts.
pub(in crate::run) fn prepare(
    resolved: ResolvedRecipe,
    directory: RunDirectory,
    endpoints: &Endpoints,
    options: RunOptions,
    events: Events,
    stop: Stop,
) -> Result<RunLoop, RunError> {
    evenkeel_config::Settings::validate(&resolved.recipe)?;
    let loading = Loading { limits: options.limits, cancel: options.cancel };
    resolved.recipe.validate_within(&loading.limits)?;
    let inputs = Inputs::load(&resolved, directory.path(), &loading)?;
    let Inputs { encoder, vocabulary_size, prompts, demonstrations, report } = inputs;
    let tokenizer = encoder.tokenizer.clone();
    directory.replace_json(DATA_FILE, &report)?;

    let (recipe, prompts) = (Arc::new(resolved.recipe.clone()), Arc::new(prompts));
    let services = Arc::new(Services::connect(endpoints, &recipe.services, events.clone(), stop)?);
    let (run_id, hash) = (directory.run_id(), resolved.learner_settings_hash.clone());
    let (seed, groups) = (recipe.run.seed, recipe.sampling.prompts_per_step);
    let session = Arc::new(TrainSession::new(Arc::clone(&services), run_id, seed, groups, hash));
    let weights = Arc::new(WeightSync::new(Arc::clone(&services), run_id, &recipe));
    let rollouts = RolloutContext::new(Arc::clone(&services), tokenizer.clone(), run_id, vocabulary_size, &recipe);
    let rollouts = Arc::new(rollouts);
    let announcement =
        Announcement { problems: prompts.train.len(), notes: resolved.notes.clone(), warning: report.warning() };
    Ok(RunLoop {
        preflight: Preflight::new(
            Arc::clone(&services),
            Arc::clone(&session),
            vocabulary_size,
            &tokenizer,
            &prompts,
            &recipe,
        ),
        checkpoints: CheckpointKeeper::new(Arc::clone(&services), &recipe.checkpoint, &directory),
        evaluator: Evaluator::new(Arc::clone(&services), Arc::clone(&rollouts), Arc::clone(&prompts), &recipe),
        trainer: GrpoTrainer::new(
            Arc::clone(&services),
            Arc::clone(&session),
            Arc::clone(&weights),
            rollouts,
            prompts,
            &recipe,
        ),
        warm_start: WarmStart::new(
            Arc::clone(&services),
            session,
            Arc::clone(&weights),
            &recipe.warm_start,
            encoder,
            demonstrations,
        ),
        journal: RunJournal::open(directory.clone(), resolved, services.retrier().clone(), events)?,
        weights,
        services,
        recipe,
        directory,
        announcement,
    })
}

/// What a run reads before it starts.
struct Inputs {
    encoder: Encoder,
    vocabulary_size: u32,
    prompts: Prompts,
    demonstrations: Option<Demonstrations>,
    /// What became of the rows of the data.
    report: DataReport,
}

impl Inputs {
    fn load(resolved: &ResolvedRecipe, directory: &Path, loading: &Loading) -> Result<Self, RunError> {
        let recipe = &resolved.recipe;
        let (seed, held_out) = (recipe.run.seed, recipe.evaluation.problems);
        let mut dataset = dataset(&recipe.data, seed, held_out, &loading.limits.data(), &loading.cancel)?;
        loading.cancel.check()?;
        let folder = resolved.model_folder(directory, &loading.limits)?;
        let folder = loading.model_folder(&folder);
        let config = ConfigFile::read(&folder)?;
        let tokenizer = Tokenizer::of(&folder, &config)?;
        let (context, vocabulary_size) = (config.max_position_embeddings()? as usize, config.vocab_size()?);
        if let Some(id) = recipe.sampling.stop_token_ids.iter().find(|&&id| id >= vocabulary_size) {
            let allowed = format!("ids below vocab_size of config.json, which is {vocabulary_size}");
            return Err(evenkeel_proto::FieldError::new("sampling.stop_token_ids", id, allowed).into());
        }
        let (max_tokens, cancel) = (recipe.sampling.max_tokens as usize, &loading.cancel);
        let fit = Fit { context, max_tokens, overlong: recipe.data.overlong, invalid_rows: recipe.data.invalid_rows };
        let encoder = Encoder::new(&folder, tokenizer, &recipe.data)?;
        let prompts = Prompts::encode(&mut dataset, &encoder, fit, cancel)?;
        let demonstrations = match recipe.warm_start.steps {
            0 => None,
            _ => {
                let demonstrations = Demonstrations::of(&dataset, seed)?;
                demonstrations.check(&encoder, context, cancel)?;
                Some(demonstrations)
            }
        };
        Ok(Self { encoder, vocabulary_size, prompts, demonstrations, report: dataset.report })
    }
}
