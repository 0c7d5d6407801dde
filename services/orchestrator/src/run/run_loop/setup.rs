//! From a recipe that was checked to the parts of its run.

use std::sync::Arc;

use evenkeel_data::DataReport;
use evenkeel_run::{ForkOrigin, Input, InputRecord, RunDirectory};

use super::checked::Checked;
use super::start_files::StartFiles;
use super::{Announcement, RunLoop};
use crate::clients::{Endpoints, Services, Stop};
use crate::data::EpisodeTexts;
use crate::error::RunError;
use crate::events::Events;
use crate::inputs::{Known, remember, remembered};
use crate::load::Loading;
use crate::recipe::ResolvedRecipe;
use crate::rollout::{EngineWeights, RolloutContext};
use crate::run::RunOptions;
use crate::run::changes::ChangeGate;
use crate::run::checkpoints::CheckpointKeeper;
use crate::run::evaluator::Evaluator;
use crate::run::idle_times::IdleTimes;
use crate::run::journal::RunJournal;
use crate::run::preflight::Preflight;
use crate::run::rollout_record::RolloutRecord;
use crate::run::run_context::RunContext;
use crate::run::step_sampler::StepSampler;
use crate::run::step_writer::StepWriter;
use crate::run::training_steps::TrainingSteps;
use crate::run::trust::{Equality, RunProof, sampler_audit};
use crate::run::warm_start::WarmStart;
use crate::run::weight_sync::WeightSync;

/// Checks everything that needs no service, and builds the run from its parts.
pub(in crate::run) fn prepare(
    resolved: ResolvedRecipe,
    mut directory: RunDirectory,
    endpoints: &Endpoints,
    options: RunOptions,
    events: Events,
    stop: Stop,
) -> Result<RunLoop, RunError> {
    let loading = Loading { limits: options.limits, cancel: options.cancel };
    let mut gate = ChangeGate::new(directory.path(), options.accept_changed_inputs);
    let (checked, found) = read_inputs(&resolved, &directory, endpoints, &loading, &mut gate)?;
    let start_files = begin_files(&resolved, &mut directory, &checked.report, found, &mut gate)?;
    let announcement = Announcement {
        problems: checked.prompts.train.len(),
        notes: notes(&resolved, &directory, &checked),
        warning: checked.report.warning(),
        start_files,
    };
    let services = Services::connect(&checked.endpoints, &checked.settings.services, events, stop)?;
    build(resolved, directory, services, checked, (gate, options.keeps_checkpoints), announcement)
}

/// Reads what the recipe names. Says of files that cannot be loaded any more that they were changed, where they were.
fn read_inputs(
    resolved: &ResolvedRecipe,
    directory: &RunDirectory,
    endpoints: &Endpoints,
    loading: &Loading,
    gate: &mut ChangeGate,
) -> Result<(Checked, Vec<Input>), RunError> {
    let earlier = remembered();
    let known = Known {
        inputs: directory.begun_with().map_or(&earlier, |begun_with| &begun_with.inputs),
        read_again: resolved.settings.checkpoint.read_inputs_again,
        cancel: &|| loading.cancel.is_cancelled(),
    };
    let checked = Checked::of(resolved, directory.path(), endpoints, loading)
        .and_then(|mut checked| checked.inputs(known).map(|found| (checked, found)));
    if let Ok((_, found)) = &checked {
        remember(found, &earlier);
    }
    if !matches!(checked, Ok(_) | Err(RunError::Cancelled)) {
        gate.admit(directory.begun_with().map(InputRecord::changed_data).unwrap_or_default())?;
    }
    checked
}

/// The files that a run starts with, which a new one writes at once.
fn begin_files(
    resolved: &ResolvedRecipe,
    directory: &mut RunDirectory,
    report: &DataReport,
    found: Vec<Input>,
    gate: &mut ChangeGate,
) -> Result<StartFiles, RunError> {
    let start_files = match directory.begun_with() {
        None => StartFiles::of_new_run(resolved, report, found),
        Some(begun_with) => {
            let (code, others) = begun_with.changes_of_code(&found);
            gate.admit(others)?;
            gate.take_down(code);
            StartFiles::of_resumed_run(resolved, report, found, begun_with)
        }
    };
    if !directory.is_resumed() {
        directory.compare_with_origin(start_files.inputs())?;
        start_files.write(directory)?;
    }
    Ok(start_files)
}

/// What the user should know about the settings.
fn notes(resolved: &ResolvedRecipe, directory: &RunDirectory, checked: &Checked) -> Vec<String> {
    let mut notes = resolved.notes.clone();
    notes.extend(directory.forked_from().into_iter().flat_map(ForkOrigin::notes));
    notes.extend(checked.notes.iter().cloned());
    notes.extend(checked.prompts.too_few(checked.settings.sampling.prompts_per_step));
    notes.extend(checked.encoder.prompts.unread_arguments());
    notes
}

fn build(
    resolved: ResolvedRecipe,
    directory: RunDirectory,
    services: Services,
    checked: Checked,
    (gate, keeps_checkpoints): (ChangeGate, bool),
    announcement: Announcement,
) -> Result<RunLoop, RunError> {
    let Checked { settings, encoder, vocabulary_size, prompts, benchmarks, demonstrations, .. } = checked;
    let context = RunContext {
        services: Arc::new(services),
        settings: Arc::new(settings),
        directory,
        tokenizer: encoder.tokenizer.clone(),
        vocabulary_size,
    };
    let prompts = Arc::new(prompts);
    let equality = Arc::new(Equality::new(&context));
    let training =
        Arc::new(TrainingSteps::new(&context, resolved.learner_settings_hash.clone(), Arc::clone(&equality)));
    let engine_weights = EngineWeights::new();
    let weights = Arc::new(WeightSync::new(&context, Arc::clone(&engine_weights)));
    let proof = RunProof::new(&context, Arc::clone(&engine_weights), checked.context, &prompts, equality);
    let rollouts = Arc::new(rollout_context(&context, engine_weights, Arc::clone(&encoder.episodes)));
    let audit = sampler_audit(&context, resolved.groups_of_first_update, &prompts, &proof);
    let rollout_record = RolloutRecord::new(&context.settings, context.tokenizer.clone());
    Ok(RunLoop {
        preflight: Preflight::new(&context, Arc::clone(&training), &prompts, &benchmarks),
        checkpoints: CheckpointKeeper::new(&context, gate, keeps_checkpoints),
        evaluator: Evaluator::new(
            Arc::clone(&rollouts),
            benchmarks,
            context.directory.clone(),
            Arc::clone(&audit),
            &context.settings.checkpoint.keep_best,
        ),
        writer: StepWriter::new(Arc::clone(&training), &prompts, rollout_record, context.settings.sampling.max_tokens),
        sampler: StepSampler::new(rollouts, prompts, &context.settings, audit),
        idle_times: IdleTimes::default(),
        warm_start: WarmStart::new(&context, Arc::clone(&training), Arc::clone(&weights), encoder, demonstrations),
        journal: RunJournal::open(&context, resolved, announcement.start_files.basis())?,
        training,
        weights,
        proof,
        services: context.services,
        settings: context.settings,
        directory: context.directory,
        announcement,
        done_before: 0,
    })
}

fn rollout_context(context: &RunContext, engine_weights: Arc<EngineWeights>, episodes: EpisodeTexts) -> RolloutContext {
    let texts = (context.tokenizer.clone(), episodes);
    let run_id = context.directory.run_id();
    RolloutContext::new(context.services(), engine_weights, texts, run_id, context.vocabulary_size, &context.settings)
}
