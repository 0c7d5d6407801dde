//! The learner: a model in training, with the files of its origin.

use std::path::Path;
use std::sync::Arc;

use candle_core::DType;
use evenkeel_config::Settings;
use evenkeel_host::available_memory;
use evenkeel_model::sampling::{SampledFrom, SampledToken};
use evenkeel_model::{BaseWeights, Config, GpuMemory, Parameters, Scores, empty_cache, gpu_memory};

use crate::checkpoint;
use crate::error::{LearnerError, Result};
use crate::files::StagedFolder;
use crate::gradient_sum::GradientSum;
use crate::group::ResponseGroup;
use crate::initial;
use crate::memory::{MemoryPhase, MemoryPlan, gibibytes};
use crate::opened::{Opened, open, with_fresh_adapters};
use crate::publish::{PublishOptions, Published, publish};
use crate::ranks::Division;
use crate::sequence::Sequence;
use crate::settings::TrainingSettings;
use crate::source::ModelSource;
use crate::step::{Example, PolicyStep, StepReport, SupervisedReport, supervised_step};
use crate::timeline::{Pass, WorkDone};
use crate::trainer::{SharedCollective, Trainer};

/// A model in training.
pub struct Learner {
    trainer: Trainer,
    source: ModelSource,
    /// The frozen base, as long as others in this process may want to share it.
    shared: Option<Arc<BaseWeights>>,
    /// What was accumulated since the last update.
    pub(crate) sum: GradientSum,
}

impl Learner {
    /// Opens a Hugging Face folder. With a KL term a copy of its weights stays in memory as the reference.
    ///
    /// # Errors
    /// Settings out of range, a missing device, one without the memory that training takes, or a folder without a
    /// supported model.
    pub fn open(folder: &Path, settings: TrainingSettings) -> Result<Self> {
        Self::open_rank(folder, settings, Division::ALONE, false)
    }

    /// Opens one of several ranks, which trains once it has [joined](Self::join) the others. Where engines stay awake,
    /// nobody gives up memory of the device for it later.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_rank(
        folder: &Path,
        settings: TrainingSettings,
        division: Division,
        engines_stay_awake: bool,
    ) -> Result<Self> {
        settings.validate().map_err(LearnerError::Setting)?;
        let device = settings.compute.open().map_err(LearnerError::Setting)?;
        let (config, config_json) = Config::load(folder)?;
        settings.validate_networks(folder).map_err(LearnerError::Setting)?;
        let plan = if let Some(memory) = gpu_memory(&device)? {
            let GpuMemory { free, .. } = memory;
            // How long sequences are is known to the run only: a micro-batch of one sequence takes more than the same
            // tokens in several.
            let longest = settings.compute.resolved_micro_batch_tokens().min(config.max_position_embeddings);
            let plan = MemoryPlan::on(&device, &config, &settings, longest)?;
            plan.validate_opening(memory, engines_stay_awake, available_memory(), &settings)?;
            if plan.total() > free {
                tracing::warn!(
                    free_gib = gibibytes(free),
                    needed_gib = gibibytes(plan.total()),
                    "training needs more memory of the device than is free now: engines on it must sleep while the \
                    learner trains"
                );
            }
            Some(plan)
        } else {
            None
        };
        let explain = |error: LearnerError| error.during(MemoryPhase::Loading, plan.as_ref(), &settings);
        let Opened { parameters, base, shared } = open(folder, &config, &device, &settings).map_err(explain)?;
        let source = ModelSource::opened(folder, config_json);
        let mut learner = Self::build(config, parameters, source, settings.clone(), division).map_err(explain)?;
        learner.trainer.set_plan(plan);
        learner.trainer.set_base(base);
        learner.shared = shared;
        Ok(learner)
    }

    /// A learner for parameters in memory, on their device; with `lora`, which then begins afresh, they are the frozen
    /// base.
    ///
    /// # Errors
    /// Settings out of range.
    pub fn new(config: Config, parameters: Parameters, settings: TrainingSettings) -> Result<Self> {
        Self::new_rank(config, parameters, settings, Division::ALONE)
    }

    /// Creates one of several ranks, which trains once it has [joined](Self::join) the others.
    ///
    /// # Errors
    /// Settings out of range.
    pub fn new_rank(
        config: Config,
        parameters: Parameters,
        settings: TrainingSettings,
        division: Division,
    ) -> Result<Self> {
        settings.validate().map_err(LearnerError::Setting)?;
        let source = ModelSource::memory(&config)?;
        let parameters = match &settings.lora {
            Some(lora) => with_fresh_adapters(parameters, lora)?,
            None => parameters,
        };
        Self::build(config, parameters, source, settings, division)
    }

    fn build(
        config: Config,
        parameters: Parameters,
        source: ModelSource,
        settings: TrainingSettings,
        division: Division,
    ) -> Result<Self> {
        let learner = Self {
            trainer: Trainer::new(config, parameters, settings, division)?,
            source,
            shared: None,
            sum: GradientSum::default(),
        };
        tracing::info!(
            parameters = learner.parameters().count(),
            trained = learner.parameters().trained_count(),
            threads = learner.settings().compute.network_options().threads,
            instructions = evenkeel_model::kernels::cpu::instructions(),
            formula = learner.settings().formula(),
            "learner ready"
        );
        Ok(learner)
    }

    /// Takes part in the steps of all ranks, which from here on call the same methods in the same order; `None` ends
    /// that. Afterwards [`reset`](Self::reset) it, or restore a checkpoint: what a failed exchange has left is of no
    /// step.
    pub fn join(&mut self, collective: Option<SharedCollective>) {
        self.trainer.join(collective);
    }

    /// What carries the exchanges with other ranks.
    pub(crate) fn collective(&self) -> Option<SharedCollective> {
        self.trainer.collective()
    }

    /// Gives the moments of this rank to rank 0, which [saves](Self::save_checkpoint) a checkpoint.
    ///
    /// # Errors
    /// A rank that is lost.
    pub fn give_moments(&self) -> Result<()> {
        checkpoint::give_moments(&self.trainer)
    }

    /// Takes weights and moments from rank 0, which [restores](Self::restore_checkpoint) a checkpoint.
    ///
    /// # Errors
    /// A rank that is lost.
    pub fn receive_checkpoint(&mut self) -> Result<()> {
        self.sum = GradientSum::default();
        self.trainer.receive_state()
    }

    /// Settings of the training.
    pub fn settings(&self) -> &TrainingSettings {
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

    /// Sets the seed for the following steps: see [`TrainingSettings::seed`].
    pub fn set_seed(&mut self, seed: u64) {
        self.trainer.set_seed(seed);
    }

    /// Begins a policy step of any number of groups. With `shuffle` and mini-batches, passes wait for the last one: use
    /// [`step_of`](Self::step_of) where the number is known.
    pub fn step(&mut self) -> PolicyStep<'_> {
        self.sum.interrupt("a training step");
        PolicyStep::new(&mut self.trainer, None)
    }

    /// Begins a policy step of `groups` groups. It has the same bits as [`step`](Self::step).
    pub fn step_of(&mut self, groups: usize) -> PolicyStep<'_> {
        self.sum.interrupt("a training step");
        PolicyStep::new(&mut self.trainer, Some(groups))
    }

    /// A whole policy step over groups in memory.
    ///
    /// # Errors
    /// As [`PolicyStep::add`] and [`PolicyStep::finish`].
    pub fn train(&mut self, groups: impl IntoIterator<Item = ResponseGroup>) -> Result<StepReport> {
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
    /// An empty batch or an invalid example, by its index; then nothing is changed.
    pub fn supervised_step(&mut self, examples: &[Example]) -> Result<SupervisedReport> {
        self.sum.interrupt("a training step");
        supervised_step(&mut self.trainer, examples)
    }

    /// Takes the work done since the last call, with its durations. Scoring outside of steps is not included.
    pub fn take_work(&mut self) -> WorkDone {
        self.trainer.take_work()
    }

    /// Takes the passes of the last step.
    pub fn take_passes(&mut self) -> Vec<Pass> {
        self.trainer.take_passes()
    }

    /// Memory of the GPU. `None` on a CPU, or if the driver does not report it.
    pub fn gpu_memory(&self) -> Option<GpuMemory> {
        gpu_memory(self.parameters().device()).ok().flatten()
    }

    /// The memory plan of a GPU; `None` on a CPU, and for a model that was not opened from a folder.
    pub fn memory_plan(&self) -> Option<&MemoryPlan> {
        self.trainer.plan()
    }

    /// Log-probabilities and entropies of the tokens of each response under the current weights: one entry for each
    /// (prompt, response).
    ///
    /// # Errors
    /// An empty prompt or response, an id outside the vocabulary, a sequence longer than the context: by its index.
    pub fn score(&self, pairs: &[(&[u32], &[u32])], temperature: f32) -> Result<Vec<Scores>> {
        self.trainer.score(&self.sequences(pairs)?, temperature)
    }

    fn sequences(&self, pairs: &[(&[u32], &[u32])]) -> Result<Vec<Sequence>> {
        let sequences = pairs.iter().enumerate().map(|(index, (prompt, response))| {
            Sequence::of_pair(self.config(), &format!("pairs[{index}]"), prompt, response)
        });
        sequences.collect()
    }

    /// Scores responses with the statistics of the distributions that they were sampled from: one entry for each token.
    ///
    /// # Errors
    /// As [`score`](Self::score); logits that are not finite.
    pub fn score_sampled(&self, pairs: &[(&[u32], &[u32])], from: SampledFrom<'_>) -> Result<Vec<Vec<SampledToken>>> {
        let batches = self.trainer.pack(&self.sequences(pairs)?)?;
        let tokens = self.trainer.network().score_sampled(batches.packed(), from, &[]);
        let explained = tokens.map_err(|error| self.trainer.explain(MemoryPhase::Scoring, error.into()));
        Ok(batches.unpack_tokens(explained?))
    }

    /// Writes a checkpoint with the caller's state as the folder `target`, completely or not at all.
    ///
    /// # Errors
    /// A file that cannot be written, such as on a full disk. The error names it, and the previous content is
    /// untouched.
    pub fn save_checkpoint(&self, target: &Path, client_state: &[u8]) -> Result<()> {
        self.save_checkpoint_as(target, client_state, DType::F32)
    }

    /// Writes a checkpoint with weights and moments of a type: F32, from which training continues to the bit, or BF16,
    /// which rounds them.
    ///
    /// # Errors
    /// As [`save_checkpoint`](Self::save_checkpoint).
    pub fn save_checkpoint_as(&self, target: &Path, client_state: &[u8], dtype: DType) -> Result<()> {
        checkpoint::save(&self.trainer, &self.source, target, client_state, dtype)
    }

    /// Restores a checkpoint: weights, moments, version and seed. Returns the caller's state.
    ///
    /// # Errors
    /// A file that is missing, truncated or altered, another layout or another architecture. The error names it, and
    /// the learner is unchanged.
    pub fn restore_checkpoint(&mut self, folder: &Path) -> Result<Vec<u8>> {
        self.sum = GradientSum::default();
        checkpoint::restore(&mut self.trainer, folder)
    }

    /// Returns to the weights in the folder that the learner was opened from: version 0, a fresh optimizer.
    ///
    /// # Errors
    /// A model created in memory, or a folder that no longer holds a model of the same shape. If a file or the device
    /// fails after that was checked, the learner refuses to work until it is reset or a checkpoint is restored.
    pub fn reset(&mut self) -> Result<()> {
        self.sum = GradientSum::default();
        initial::restore(&mut self.trainer, &self.source)
    }

    /// Resets as this version, with fresh adapters of a seed, if there is one, instead of that of the settings.
    ///
    /// # Errors
    /// As [`reset`](Self::reset); a seed where no adapters are drawn.
    pub fn begin(&mut self, version: u64, adapter_seed: Option<u64>) -> Result<()> {
        self.sum = GradientSum::default();
        let restored = initial::restore_seeded(&mut self.trainer, &self.source, adapter_seed);
        self.trainer.together("begun", restored)?;
        self.trainer.set_version(version);
        Ok(())
    }

    /// Restores a checkpoint as this version, with its moments or, without `optimizer`, with fresh ones. Returns the
    /// caller's state.
    ///
    /// # Errors
    /// As [`restore_checkpoint`](Self::restore_checkpoint).
    pub fn load(&mut self, folder: &Path, version: u64, optimizer: bool) -> Result<Vec<u8>> {
        let state = self.restore_checkpoint(folder)?;
        self.renew(version, optimizer)?;
        Ok(state)
    }

    /// Takes the weights as this version and, without `optimizer`, begins with fresh moments.
    ///
    /// # Errors
    /// A failure of the device.
    pub(crate) fn renew(&mut self, version: u64, optimizer: bool) -> Result<()> {
        if !optimizer {
            self.trainer.restart_optimizer()?;
        }
        self.trainer.set_version(version);
        Ok(())
    }

    /// Writes the current weights to `folder/step-VERSION`, completely or not at all.
    ///
    /// # Errors
    /// An unsupported type of weights, or a file that cannot be written. The error names it.
    pub fn publish(&self, folder: &Path, options: PublishOptions) -> Result<Published> {
        let (published, staged) = self.stage(folder, options)?;
        staged.finish()?;
        Ok(published)
    }

    /// Writes what [`publish`](Self::publish) publishes, neither synced nor under its name yet.
    pub(crate) fn stage(&self, folder: &Path, options: PublishOptions) -> Result<(Published, StagedFolder)> {
        publish(&self.trainer, &self.source, folder, options)
    }

    /// Lends the weights to the decoders in this process, as those of a folder to which they were just written.
    pub(crate) fn lend(&mut self, folder: &Path) -> Result<()> {
        self.trainer.model_mut().lend(folder)
    }

    /// Gives back memory of the device that is kept for the next step, so that an engine on the same device can wake.
    ///
    /// # Errors
    /// The device fails.
    pub fn empty_cache(&self) -> Result<()> {
        Ok(empty_cache(self.parameters().device())?)
    }

    /// `sha256:` and the digest of the model's tokenizer.json; `None` without that file.
    pub fn tokenizer_digest(&self) -> Option<String> {
        self.source.tokenizer_digest()
    }

    /// The trainer: what training changes.
    pub(crate) fn trainer(&self) -> &Trainer {
        &self.trainer
    }

    #[cfg(test)]
    pub(crate) fn of(trainer: Trainer, source: ModelSource) -> Self {
        Self { trainer, source, shared: None, sum: GradientSum::default() }
    }

    pub(crate) fn trainer_mut(&mut self) -> &mut Trainer {
        &mut self.trainer
    }
}
