//! From a recipe to a run that can start: everything that can be checked without a service.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_hf::ConfigFile;
use evenkeel_proto::FieldError;
use evenkeel_run_files::{ForkOrigin, Input, InputRecord, RunDirectory};
use evenkeel_tasks::{Cancel, Cancelled, DataReport};

use super::start_files::StartFiles;
use super::{Announcement, RunLoop};
use crate::clients::{Endpoints, Services, Stop};
use crate::data::{Demonstrations, Encoder, Fit, Prompt, Prompts, benchmark_problems, dataset};
use crate::error::RunError;
use crate::evaluation::{Benchmarks, named_prompts};
use crate::events::Events;
use crate::inputs::{Known, of_data, of_model};
use crate::load::{LoadLimits, Loading};
use crate::recipe::ResolvedRecipe;
use crate::rollout::{EngineWeights, RolloutContext};
use crate::run::RunOptions;
use crate::run::changes::ChangeGate;
use crate::run::checkpoints::CheckpointKeeper;
use crate::run::evaluator::Evaluator;
use crate::run::idle_times::IdleTimes;
use crate::run::journal::RunJournal;
use crate::run::preflight::Preflight;
use crate::run::proof::Proof;
use crate::run::rollout_record::RolloutRecord;
use crate::run::sampler_audit::SamplerAudit;
use crate::run::step_sampler::StepSampler;
use crate::run::step_writer::StepWriter;
use crate::run::training_steps::TrainingSteps;
use crate::run::warm_start::WarmStart;
use crate::run::weight_sync::WeightSync;
use crate::settings::{DataSettings, LoopSettings};
use crate::text::Tokenizer;

/// Prompts that the first proofs take their text from.
const PROBE_PROMPTS: usize = 1024;

/// Checks everything that needs no service, and builds the run from its parts.
pub(in crate::run) fn prepare(
    resolved: ResolvedRecipe,
    mut directory: RunDirectory,
    endpoints: &Endpoints,
    options: RunOptions,
    events: Events,
    stop: Stop,
) -> Result<RunLoop, RunError> {
    evenkeel_config::Settings::validate(&resolved.settings)?;
    let loading = Loading { limits: options.limits, cancel: options.cancel };
    loading.limits.validate_run(&resolved.settings)?;
    let mut gate = ChangeGate::new(directory.path(), options.accept_changed_inputs);
    let inputs = match Inputs::load(&resolved, &directory, &loading) {
        Ok(inputs) => inputs,
        Err(RunError::Cancelled) => return Err(RunError::Cancelled),
        Err(error) => {
            // What cannot be loaded any more may be so because it was changed.
            gate.admit(directory.begun_with().map(InputRecord::changed_data).unwrap_or_default())?;
            return Err(error);
        }
    };
    let Inputs { encoder, vocabulary_size, context, prompts, benchmarks, demonstrations, report, found } = inputs;
    let tokenizer = encoder.tokenizer.clone();
    let unread_arguments = encoder.prompts.unread_arguments();
    let (mut settings, mut notes) = (resolved.settings.clone(), resolved.notes.clone());
    let start_files = match directory.begun_with() {
        None => StartFiles::of_new_run(&resolved, &report, found),
        Some(begun_with) => {
            gate.admit(begun_with.changes(&found))?;
            StartFiles::of_resumed_run(&resolved, &report, found, begun_with)
        }
    };
    if !directory.is_resumed() {
        directory.compare_with_origin(start_files.inputs())?;
        start_files.write(&directory)?;
    }
    notes.extend(directory.forked_from().into_iter().flat_map(ForkOrigin::notes));
    notes.extend(stop_at_end_of_turn(&mut settings, &tokenizer));
    notes.extend(settings.pipeline.note());
    notes.extend(settings.run.rollouts_note(&settings.sampling));
    notes.extend(settings.sampler_audit.note(settings.pipeline.order));
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
    let weights = Arc::new(WeightSync::new(Arc::clone(&services), Arc::clone(&engines), &directory, &settings));
    let text = prompts.train.iter().take(PROBE_PROMPTS).map(|prompt| Arc::clone(&prompt.token_ids)).collect();
    let proof =
        Proof::new(Arc::clone(&services), Arc::clone(&engines), &settings, &tokenizer, vocabulary_size, context, text);
    let proof = Arc::new(proof);
    let rollouts =
        RolloutContext::new(Arc::clone(&services), engines, tokenizer.clone(), run_id, vocabulary_size, &settings);
    let rollouts = Arc::new(rollouts);
    let audit = SamplerAudit::new(
        Arc::clone(&services),
        &settings,
        tokenizer.end_id(),
        resolved.groups_of_first_update,
        Arc::clone(&proof),
    );
    notes.extend(prompts.too_few(settings.sampling.prompts_per_step));
    notes.extend(unread_arguments);
    let announcement = Announcement { problems: prompts.train.len(), notes, warning: report.warning(), start_files };
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
        checkpoints: CheckpointKeeper::new(Arc::clone(&services), &settings.checkpoint, &directory, gate),
        evaluator: Evaluator::new(Arc::clone(&rollouts), benchmarks, directory.clone()),
        writer: StepWriter::new(Arc::clone(&session), &prompts, RolloutRecord::new(&settings, tokenizer)),
        sampler: StepSampler::new(rollouts, prompts, &settings, audit),
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
    /// What is in the files.
    found: Vec<Input>,
}

impl Inputs {
    fn load(resolved: &ResolvedRecipe, directory: &RunDirectory, loading: &Loading) -> Result<Self, RunError> {
        let settings = &resolved.settings;
        let (seed, held_out) = (settings.run.seed, settings.evaluation.problems);
        let limits = loading.limits.data();
        let cancel: Cancel<'_> = &|| loading.cancel.is_cancelled();
        let mut dataset = dataset(&settings.data, seed, held_out, &limits, cancel)?;
        let asked = benchmark_problems(settings, &mut dataset, &limits, cancel)?;
        Cancelled::check(cancel)?;
        let folder = resolved.model_folder(directory.path(), &loading.limits)?;
        let folder = loading.model_folder(&folder);
        let config = ConfigFile::read(&folder)?;
        let tokenizer = Tokenizer::of(&folder, &config)?;
        let (context, vocabulary_size) = (config.max_position_embeddings()? as usize, config.vocab_size()?);
        if let Some(id) = settings.sampling.stop_token_ids.iter().find(|&&id| id >= vocabulary_size) {
            let allowed = format!("ids below vocab_size of config.json, which is {vocabulary_size}");
            return Err(FieldError::new("sampling.stop_token_ids", id, allowed).into());
        }
        let max_tokens = settings.sampling.max_tokens as usize;
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
        let mut report = dataset.report;
        let known = Known {
            inputs: directory.begun_with().map_or(&[], |begun_with| &begun_with.inputs),
            read_again: settings.checkpoint.read_inputs_again,
            cancel,
        };
        let mut found = of_data(&mut report, known)?;
        found.extend(of_model(&folder, known)?);
        Ok(Self { encoder, vocabulary_size, context, prompts, benchmarks, demonstrations, report, found })
    }
}
