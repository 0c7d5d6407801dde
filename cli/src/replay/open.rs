//! The recorded steps of a run with what it takes to do them again: weights, settings, a device.

use std::path::Path;

use anyhow::Result;
use evenkeel_learner::{
    Aggregation, CheckpointType, Precision, PublishType, RecordedRun, Replay, ReplaySettings, SentSamples, SideDial,
    StoredWeights, TrainingSettings,
};
use evenkeel_recipe::Recipe;

use super::RecordedFiles;
use crate::terminal::note;

/// Rules, and the numbers with which `sides` is computed.
pub(crate) type Rules = (Vec<Aggregation>, Vec<SideDial>);

/// A run whose steps can be done again.
pub(crate) struct OpenedReplay {
    pub(crate) replay: Replay,
    /// The settings with which steps are done again.
    pub(crate) settings: TrainingSettings,
    /// How close they must be.
    pub(crate) precision: Precision,
}

impl OpenedReplay {
    /// Opens a run. `settings` say where steps are computed; `scratch` is a folder for weights to be compared.
    ///
    /// # Errors
    /// Settings that are refused; a model, a device or files that cannot be read.
    pub(crate) fn of(run: RecordedFiles, (rules, dials): Rules, settings: &[String], scratch: &Path) -> Result<Self> {
        let RecordedFiles { record, recipe: recorded, model, .. } = run;
        let mut recipe = evenkeel_recipe::finish(record.settings()?, settings)?.settings;
        if let Err(error) = recipe.learner.compute.open() {
            note(&format!("note: {error}; replaying on the CPU"));
            "cpu".clone_into(&mut recipe.learner.compute.device);
        }
        let precision = precision(&recorded.learner, &recipe.learner);
        let publish_type = recipe.model.publish_type;
        let mut weights = StoredWeights::find(&record)?;
        if recipe.model.checkpoint_type != CheckpointType::F32 {
            weights = weights.without_checkpoints();
        }
        if publish_type != PublishType::F32 {
            weights = weights.without_published();
        }
        let training = training(&recipe, &rules);
        let (seed, max_lag) = (recipe.run.seed, recipe.pipeline.max_lag);
        let shaping = recipe.shaping;
        let rewards = SentSamples {
            min_tokens: recipe.sampling.min_tokens as usize,
            mask_truncated: shaping.mask_truncated,
            weight: Box::new(move |component| shaping.weight(component)),
        };
        let run = RecordedRun::open(record, &model, rewards)?;
        let scratch = scratch.to_owned();
        let settings = ReplaySettings {
            training: training.clone(),
            rules,
            dials,
            seed,
            max_lag,
            precision,
            publish_type,
            scratch,
        };
        Ok(Self { replay: Replay::open(&model, run, weights, settings)?, settings: training, precision })
    }
}

/// How close a step must be: bits hold on one kind of device only.
fn precision(recorded: &TrainingSettings, replayed: &TrainingSettings) -> Precision {
    let is_cpu = |settings: &TrainingSettings| settings.compute.device == "cpu";
    match (is_cpu(recorded), is_cpu(replayed)) {
        (true, true) => Precision::Bits,
        (false, false) if recorded.compute.deterministic => Precision::Bits,
        _ => Precision::OTHER_DEVICE,
    }
}

/// The learner's settings, with the constant that rules divide by.
fn training(recipe: &Recipe, rules: &[Aggregation]) -> TrainingSettings {
    let mut training = recipe.learner.clone();
    if training.objective.max_tokens == 0 && rules.iter().any(|rule| rule.uses_max_tokens()) {
        training.objective.max_tokens = recipe.sampling.max_tokens as usize;
    }
    training
}
