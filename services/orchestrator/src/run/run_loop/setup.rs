//! From a recipe that was checked to the parts of its run.

use std::sync::Arc;

use evenkeel_run::{ForkOrigin, InputRecord, RunDirectory};

use super::checked::Checked;
use super::start_files::StartFiles;
use super::{Announcement, RunLoop};
use crate::clients::{Endpoints, Services, Stop};
use crate::error::RunError;
use crate::events::Events;
use crate::inputs::Known;
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
use crate::run::proof::Proof;
use crate::run::rollout_record::RolloutRecord;
use crate::run::sampler_audit::SamplerAudit;
use crate::run::step_sampler::StepSampler;
use crate::run::step_writer::StepWriter;
use crate::run::training_steps::TrainingSteps;
use crate::run::warm_start::WarmStart;
use crate::run::weight_sync::WeightSync;

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
    let loading = Loading { limits: options.limits, cancel: options.cancel };
    let mut gate = ChangeGate::new(directory.path(), options.accept_changed_inputs);
    let known = Known {
        inputs: directory.begun_with().map_or(&[], |begun_with| &begun_with.inputs),
        read_again: resolved.settings.checkpoint.read_inputs_again,
        cancel: &|| loading.cancel.is_cancelled(),
    };
    let checked = Checked::of(&resolved, directory.path(), endpoints, &loading)
        .and_then(|mut checked| checked.inputs(known).map(|found| (checked, found)));
    let (checked, found) = match checked {
        Ok(checked) => checked,
        Err(RunError::Cancelled) => return Err(RunError::Cancelled),
        Err(error) => {
            // What cannot be loaded any more may be so because it was changed.
            gate.admit(directory.begun_with().map(InputRecord::changed_data).unwrap_or_default())?;
            return Err(error);
        }
    };
    let Checked { settings, encoder, vocabulary_size, context, prompts, benchmarks, demonstrations, report, .. } =
        checked;
    let tokenizer = encoder.tokenizer.clone();
    let episodes = Arc::clone(&encoder.episodes);
    let unread_arguments = encoder.prompts.unread_arguments();
    let mut notes = resolved.notes.clone();
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
    notes.extend(checked.notes);
    let endpoints = checked.endpoints;
    let settings = Arc::new(settings);
    let prompts = Arc::new(prompts);
    let services = Arc::new(Services::connect(&endpoints, &settings.services, events.clone(), stop)?);
    let run_id = directory.run_id();
    let hash = resolved.learner_settings_hash.clone();
    let seed = settings.run.seed;
    let groups = settings.sampling.prompts_per_step;
    let max_lag = settings.pipeline.max_lag;
    let session = Arc::new(TrainingSteps::new(Arc::clone(&services), run_id, seed, groups, max_lag, hash));
    let engines = EngineWeights::new();
    let weights = Arc::new(WeightSync::new(Arc::clone(&services), Arc::clone(&engines), &directory, &settings));
    let text = prompts.train.iter().take(PROBE_PROMPTS).map(|prompt| Arc::clone(&prompt.token_ids)).collect();
    let proof =
        Proof::new(Arc::clone(&services), Arc::clone(&engines), &settings, &tokenizer, vocabulary_size, context, text);
    let proof = Arc::new(proof);
    let rollouts = RolloutContext::new(
        Arc::clone(&services),
        engines,
        (tokenizer.clone(), episodes),
        run_id,
        vocabulary_size,
        &settings,
    );
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
        done_before: 0,
    })
}
