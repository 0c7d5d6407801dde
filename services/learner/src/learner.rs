//! The learner: a model in training, with the files that it came with.

use std::path::Path;

use evenkeel_model::folder::load_parameters;
use evenkeel_model::{Config, Parameters, Scores};

use crate::checkpoint;
use crate::error::Result;
use crate::group::Group;
use crate::micro_batch::Sequence;
use crate::publish::{PublishOptions, Published, publish};
use crate::settings::LearnerSettings;
use crate::source::ModelSource;
use crate::step::{Example, PolicyStep, StepReport, SupervisedReport, supervised_step};
use crate::trainer::{Trainer, WorkDone};

/// A model in training.
pub struct Learner {
    trainer: Trainer,
    source: ModelSource,
}

impl Learner {
    /// Opens a Hugging Face folder. With a KL term its weights are held in memory once more as the reference.
    ///
    /// # Errors
    /// Settings out of range, a missing device, or a folder that is not a model that can be trained.
    pub fn open(folder: &Path, settings: LearnerSettings) -> Result<Self> {
        settings.validate()?;
        let device = settings.compute.open()?;
        let (config, config_json) = Config::load(folder)?;
        let parameters = load_parameters(folder, &config, &device)?;
        Self::build(config, parameters, ModelSource::folder(folder, config_json), settings)
    }

    /// A learner of parameters in memory, on their device.
    ///
    /// # Errors
    /// Settings out of range.
    pub fn new(config: Config, parameters: Parameters, settings: LearnerSettings) -> Result<Self> {
        settings.validate()?;
        let source = ModelSource::memory(&config);
        Self::build(config, parameters, source, settings)
    }

    fn build(config: Config, parameters: Parameters, source: ModelSource, settings: LearnerSettings) -> Result<Self> {
        let learner = Self { trainer: Trainer::new(config, parameters, settings)?, source };
        tracing::info!(
            parameters = learner.parameters().count(),
            threads = learner.settings().compute.network_options().threads,
            instructions = evenkeel_model::kernels::cpu::instructions(),
            formula = learner.settings().objective.formula(),
            "learner ready"
        );
        Ok(learner)
    }

    /// The settings.
    pub fn settings(&self) -> &LearnerSettings {
        self.trainer.settings()
    }

    /// The model's shape.
    pub fn config(&self) -> &Config {
        self.trainer.config()
    }

    /// The current fp32 weights.
    pub fn parameters(&self) -> &Parameters {
        self.trainer.parameters()
    }

    /// Steps done, which is the version of the weights.
    pub fn version(&self) -> u64 {
        self.trainer.version()
    }

    /// Sets the seed of everything random from the next step on: see [`LearnerSettings::seed`].
    pub fn set_seed(&mut self, seed: u64) {
        self.trainer.set_seed(seed);
    }

    /// Begins a policy step.
    pub fn step(&mut self) -> PolicyStep<'_> {
        PolicyStep::new(&mut self.trainer)
    }

    /// A whole policy step over groups in memory.
    ///
    /// # Errors
    /// As [`PolicyStep::add`] and [`PolicyStep::finish`].
    pub fn train(&mut self, groups: impl IntoIterator<Item = Group>) -> Result<StepReport> {
        let mut step = self.step();
        for group in groups {
            step.add(group)?;
        }
        step.finish()
    }

    /// One update on a batch of examples, at temperature 1. The first one after a policy step begins with fresh
    /// moments, and so does the first policy step after it.
    ///
    /// # Errors
    /// An empty batch or an example that the model cannot take, by its index; nothing is changed then.
    pub fn supervised_step(&mut self, examples: &[Example]) -> Result<SupervisedReport> {
        supervised_step(&mut self.trainer, examples)
    }

    /// What was computed since this was last called, and how long it took. Scoring outside of steps is not included.
    pub fn take_work(&mut self) -> WorkDone {
        self.trainer.take_work()
    }

    /// Log-probabilities and entropies of the tokens of each response under the current weights: one entry for each
    /// (prompt, response).
    ///
    /// # Errors
    /// An empty prompt or response, an id outside the vocabulary, a sequence longer than the context: by its index.
    pub fn score(&self, pairs: &[(&[u32], &[u32])], temperature: f32) -> Result<Vec<Scores>> {
        let sequences = pairs.iter().enumerate().map(|(index, (prompt, response))| {
            Sequence::of_pair(self.config(), &format!("sequence {index}"), prompt, response)
        });
        self.trainer.score(&sequences.collect::<Result<Vec<_>>>()?, temperature)
    }

    /// Writes a checkpoint as the folder `target`, whole or not at all, with the caller's own state inside.
    ///
    /// # Errors
    /// A file that cannot be written (a full disk): by name. What was there before is still there then.
    pub fn save_checkpoint(&self, target: &Path, client_state: &[u8]) -> Result<()> {
        checkpoint::save(&self.trainer, &self.source, target, client_state)
    }

    /// Continues from a checkpoint: weights, moments, version and random state become those that were saved. Returns the
    /// state that the caller put inside.
    ///
    /// # Errors
    /// A file that is missing, truncated or altered, another layout or another architecture: by name; the learner is
    /// unchanged then.
    pub fn restore_checkpoint(&mut self, folder: &Path) -> Result<Vec<u8>> {
        checkpoint::restore(&mut self.trainer, folder)
    }

    /// Writes the current weights to `folder/step-VERSION`, whole or not at all.
    ///
    /// # Errors
    /// A type that is no weight type, or a file that cannot be written: by name.
    pub fn publish(&self, folder: &Path, options: PublishOptions) -> Result<Published> {
        publish(&self.trainer, &self.source, folder, options)
    }

    /// `sha256:` and the digest of the model's tokenizer.json; none where there is no such file.
    pub fn tokenizer_digest(&self) -> Option<String> {
        self.source.tokenizer_digest()
    }

    #[cfg(test)]
    pub(crate) fn trainer_mut(&mut self) -> &mut Trainer {
        &mut self.trainer
    }
}
