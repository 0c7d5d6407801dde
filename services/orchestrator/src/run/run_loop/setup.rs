//! From a recipe to a run that can start: everything that can be checked without a service.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use evenkeel_files::FileDigest;
use evenkeel_hf::ConfigFile;
use evenkeel_proto::FieldError;
use evenkeel_tasks::{Cancelled, DataReport};
use tokio_util::sync::CancellationToken;

use super::{Announcement, RunLoop};
use crate::clients::{Endpoints, Services, Stop};
use crate::data::{Demonstrations, Encoder, Fit, Prompt, Prompts, benchmark_problems, dataset};
use crate::directory::{DATA_FILE, ForkOrigin, RunDirectory};
use crate::error::RunError;
use crate::evaluation::{Benchmarks, named_prompts};
use crate::events::Events;
use crate::load::{LoadLimits, Loading};
use crate::recipe::ResolvedRecipe;
use crate::rollout::{EngineWeights, RolloutContext};
use crate::run::RunOptions;
use crate::run::checkpoints::CheckpointKeeper;
use crate::run::evaluator::Evaluator;
use crate::run::journal::RunJournal;
use crate::run::pipeline::IdleTimes;
use crate::run::preflight::Preflight;
use crate::run::proof::Proof;
use crate::run::step_sampler::StepSampler;
use crate::run::step_writer::StepWriter;
use crate::run::training_steps::TrainingSteps;
use crate::run::warm_start::WarmStart;
use crate::run::weight_sync::WeightSync;
use crate::settings::{DataSettings, LoopSettings};
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
    evenkeel_config::Settings::validate(&resolved.settings)?;
    let loading = Loading { limits: options.limits, cancel: options.cancel };
    loading.limits.validate_run(&resolved.settings)?;
    let inputs = Inputs::load(&resolved, directory.path(), &loading)?;
    let Inputs { encoder, vocabulary_size, context, prompts, benchmarks, demonstrations, report } = inputs;
    let tokenizer = encoder.tokenizer.clone();
    directory.replace_json(DATA_FILE, &report)?;

    let (mut settings, mut notes) = (resolved.settings.clone(), resolved.notes.clone());
    notes.extend(directory.forked_from().into_iter().flat_map(ForkOrigin::notes));
    notes.extend(stop_at_end_of_turn(&mut settings, &tokenizer));
    notes.extend(settings.pipeline.note());
    let benchmarks = Benchmarks::new(&settings, (&prompts.name, &prompts.held_out), benchmarks)?;
    let (settings, prompts) = (Arc::new(settings), Arc::new(prompts));
    let needed = &prompts.verifiers() | &benchmarks.verifiers();
    let (endpoints, idle) = with_verifiers(endpoints, &settings.data, &needed, &loading.limits)?;
    notes.extend(idle.into_iter().map(|name| format!("verifier `{name}` judges no row of the data")));
    let services = Arc::new(Services::connect(&endpoints, &settings.services, events.clone(), stop)?);
    let (run_id, hash) = (directory.run_id(), resolved.learner_settings_hash.clone());
    let (seed, groups, max_lag) = (settings.run.seed, settings.sampling.prompts_per_step, settings.pipeline.max_lag);
    let session = Arc::new(TrainingSteps::new(Arc::clone(&services), run_id, seed, groups, max_lag, hash));
    let engines = EngineWeights::new(Arc::clone(&services));
    let weights = Arc::new(WeightSync::new(Arc::clone(&services), Arc::clone(&engines), run_id, &settings));
    let proof =
        Proof::new(Arc::clone(&services), Arc::clone(&engines), &settings, &tokenizer, vocabulary_size, context);
    let proof = Arc::new(proof);
    let rollouts =
        RolloutContext::new(Arc::clone(&services), engines, tokenizer.clone(), run_id, vocabulary_size, &settings);
    let rollouts = Arc::new(rollouts);
    let announcement = Announcement { problems: prompts.train.len(), notes, warning: report.warning() };
    Ok(RunLoop {
        preflight: Preflight::new(
            Arc::clone(&services),
            Arc::clone(&session),
            vocabulary_size,
            &tokenizer,
            &prompts,
            &benchmarks,
            &settings,
        ),
        checkpoints: CheckpointKeeper::new(Arc::clone(&services), &settings.checkpoint, &directory),
        evaluator: Evaluator::new(Arc::clone(&rollouts), benchmarks, &settings, directory.path().to_owned()),
        writer: StepWriter::new(Arc::clone(&session), &prompts),
        sampler: StepSampler::new(rollouts, prompts, &settings),
        idle_times: IdleTimes::default(),
        warm_start: WarmStart::new(
            Arc::clone(&services),
            Arc::clone(&session),
            Arc::clone(&weights),
            &settings.warm_start,
            encoder,
            demonstrations,
        ),
        journal: RunJournal::open(directory.clone(), resolved, services.retrier().clone(), events)?,
        session,
        weights,
        proof,
        services,
        settings,
        directory,
        announcement,
    })
}

/// The addresses of the custom verifiers that the data needs, in addition to those of the services; and the verifiers that it does not
/// need.
pub(in crate::run) fn with_verifiers(
    endpoints: &Endpoints,
    data: &DataSettings,
    needed: &BTreeSet<&str>,
    limits: &LoadLimits,
) -> Result<(Endpoints, Vec<String>), RunError> {
    let mut verifiers = BTreeMap::new();
    for &name in needed {
        let field = || format!("data.verifiers.{name}.endpoints");
        let in_recipe = data.verifiers.get(name).map(|verifier| &verifier.endpoints).filter(|urls| !urls.is_empty());
        let urls = match (endpoints.verifiers.get(name), in_recipe) {
            (Some(urls), _) => urls,
            (None, Some(urls)) if limits.verifier_addresses => urls,
            (None, Some(urls)) => {
                let allowed = "absent: this server takes no addresses from recipes (limits.verifier_addresses), and its endpoints.verifiers has no such name";
                return Err(FieldError::new(field(), urls.join(", "), allowed).into());
            }
            (None, None) => return Err(FieldError::missing(field(), "the addresses of its workers").into()),
        };
        verifiers.insert(name.to_owned(), urls.clone());
    }
    let idle = data.verifiers.keys().filter(|name| !needed.contains(name.as_str())).cloned().collect();
    Ok((Endpoints { verifiers, ..endpoints.clone() }, idle))
}

/// Engines that read the model's files do not know where a turn of its chat template ends. Says so where it makes a difference.
pub(in crate::run) fn stop_at_end_of_turn(settings: &mut LoopSettings, tokenizer: &Tokenizer) -> Option<String> {
    let stops = &mut settings.sampling.stop_token_ids;
    let id = tokenizer.end_of_turn().filter(|id| !stops.contains(id))?;
    stops.push(id);
    let token = tokenizer.token(id);
    Some(format!(
        "responses also end at {token} ({id}), where a turn of the chat template ends; eos_token and eos_token_id do not name it"
    ))
}

/// What a run reads before it starts.
struct Inputs {
    encoder: Encoder,
    vocabulary_size: u32,
    /// Tokens that the model can take at once.
    context: usize,
    prompts: Prompts,
    /// Those of the named benchmarks, in the order of the settings.
    benchmarks: Vec<Vec<Prompt>>,
    demonstrations: Option<Demonstrations>,
    /// What became of the rows of the data.
    report: DataReport,
}

impl Inputs {
    fn load(resolved: &ResolvedRecipe, directory: &Path, loading: &Loading) -> Result<Self, RunError> {
        let settings = &resolved.settings;
        let (seed, held_out) = (settings.run.seed, settings.evaluation.problems);
        let limits = loading.limits.data();
        let mut dataset = dataset(&settings.data, seed, held_out, &limits, &loading.cancel)?;
        let asked = benchmark_problems(settings, &mut dataset, &limits, &loading.cancel)?;
        Cancelled::check(&loading.cancel)?;
        let folder = resolved.model_folder(directory, &loading.limits)?;
        let folder = loading.model_folder(&folder);
        let config = ConfigFile::read(&folder)?;
        let tokenizer = Tokenizer::of(&folder, &config)?;
        let (context, vocabulary_size) = (config.max_position_embeddings()? as usize, config.vocab_size()?);
        if let Some(id) = settings.sampling.stop_token_ids.iter().find(|&&id| id >= vocabulary_size) {
            let allowed = format!("ids below vocab_size of config.json, which is {vocabulary_size}");
            return Err(FieldError::new("sampling.stop_token_ids", id, allowed).into());
        }
        let (max_tokens, cancel) = (settings.sampling.max_tokens as usize, &loading.cancel);
        let fit =
            Fit { context, max_tokens, overlong: settings.data.overlong, invalid_rows: settings.data.invalid_rows };
        let encoder = Encoder::new(&folder, tokenizer, &settings.data)?;
        let held_out_tokens = settings.evaluation.sampling(&settings.sampling).max_tokens as usize;
        let prompts = Prompts::encode(&mut dataset, &encoder, fit, held_out_tokens, cancel)?;
        let benchmarks = named_prompts(&asked, settings, &mut dataset, &encoder, context, cancel)?;
        let demonstrations = match settings.warm_start.steps {
            0 => None,
            _ => {
                let demonstrations = Demonstrations::of(&dataset, seed)?;
                demonstrations.check(&encoder, context, cancel)?;
                Some(demonstrations)
            }
        };
        let report = with_digests(dataset.report, cancel)?;
        Ok(Self { encoder, vocabulary_size, context, prompts, benchmarks, demonstrations, report })
    }
}

/// The report with the digests of the files, so that it is known later what a run was trained on.
fn with_digests(mut report: DataReport, cancel: &CancellationToken) -> Result<DataReport, RunError> {
    let files = report.files.iter_mut().filter(|file| !file.file.is_empty());
    for file in files {
        Cancelled::check(cancel)?;
        let path = Path::new(&file.file);
        file.digest = Some(FileDigest::of(path).map_err(RunError::file(path))?.to_string());
    }
    Ok(report)
}
