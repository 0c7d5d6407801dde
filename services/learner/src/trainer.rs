//! What training changes: weights, optimizer state and version, and the only operations that change them.

use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use evenkeel_model::kernels::Moment;
use evenkeel_model::{Config, Parameters, Scores, TokenLoss};

use crate::error::{LearnerError, Result};
use crate::memory::{self, MemoryPlan};
use crate::micro_batch::{MicroBatches, Sequence};
use crate::model::Model;
use crate::optimizer::{Optimizer, OptimizerState, Phase, Progress, UpdateReport};
use crate::settings::LearnerSettings;
use crate::timeline::{Pass, PassKind, Timeline, WorkDone};

/// The gradient of an update.
pub(crate) enum Gradient {
    /// The sum of the passes since the last update.
    Accumulated,
    /// Zeros: no response had a gradient. The moments still move the weights.
    Zero,
}

/// Stored weights and moments, which are read one by one: there is no room for a second copy of all of them.
pub(crate) trait StoredState {
    /// Where they are.
    fn folder(&self) -> &Path;
    /// The fp32 weights of a parameter.
    fn weights(&self, parameter: usize, device: &Device) -> Result<Tensor>;
    /// A moment of a parameter in fp32.
    fn moment(&self, moment: Moment, parameter: usize, device: &Device) -> Result<Tensor>;
}

/// The numbers that belong to them.
#[derive(Clone, Copy)]
pub(crate) struct StoredNumbers {
    pub(crate) optimizer: Progress,
    pub(crate) version: u64,
    pub(crate) seed: u64,
}

/// Weights and optimizer before a step.
struct Snapshot {
    weights: Vec<Tensor>,
    optimizer: OptimizerState,
}

/// A model and its optimizer.
pub(crate) struct Trainer {
    settings: LearnerSettings,
    model: Model,
    optimizer: Optimizer,
    /// Steps done, supervised and policy.
    version: u64,
    /// Updates skipped since the last that was applied.
    skipped: u64,
    /// The folder that could not be read to its end, after some of it was in place.
    torn: Option<PathBuf>,
    /// What the memory plan had said; absent on a CPU.
    plan: Option<MemoryPlan>,
    timeline: Timeline,
}

impl Trainer {
    /// Version 0 with fresh moments.
    pub(crate) fn new(config: Config, parameters: Parameters, settings: LearnerSettings) -> Result<Self> {
        Self::of(Model::new(config, parameters, &settings)?, settings)
    }

    /// The same for an existing model.
    pub(crate) fn of(mut model: Model, settings: LearnerSettings) -> Result<Self> {
        let optimizer = Optimizer::new(model.for_update(), settings.optimizer.moments)?;
        Ok(Self {
            settings,
            model,
            optimizer,
            version: 0,
            skipped: 0,
            torn: None,
            plan: None,
            timeline: Timeline::default(),
        })
    }

    /// What errors of memory are compared with.
    pub(crate) fn set_plan(&mut self, plan: Option<MemoryPlan>) {
        self.plan = plan;
    }

    pub(crate) fn plan(&self) -> Option<&MemoryPlan> {
        self.plan.as_ref()
    }

    /// Says what was planned, where memory was refused.
    fn explained<T>(&self, phase: memory::Phase, result: Result<T>) -> Result<T> {
        result.map_err(|error| MemoryPlan::explain(self.plan.as_ref(), &self.settings, phase, error))
    }

    pub(crate) fn settings(&self) -> &LearnerSettings {
        &self.settings
    }

    pub(crate) fn config(&self) -> &Config {
        self.model.config()
    }

    pub(crate) fn parameters(&self) -> &Parameters {
        self.model.parameters()
    }

    pub(crate) fn optimizer(&self) -> &Optimizer {
        &self.optimizer
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn set_seed(&mut self, seed: u64) {
        self.settings.seed = seed;
    }

    /// Takes the work done since the last call.
    pub(crate) fn take_work(&mut self) -> WorkDone {
        self.timeline.take_work()
    }

    /// Begins a step: discards gradients of an abandoned one.
    pub(crate) fn begin_step(&mut self) {
        self.model.discard_gradients();
        self.timeline.clear();
    }

    /// Says whose responses the last pass of a kind ran.
    pub(crate) fn pass_was_of(&mut self, kind: PassKind, groups: impl Iterator<Item = usize>) {
        self.timeline.of_groups(kind, groups);
    }

    /// Takes the passes since the step began.
    pub(crate) fn take_passes(&mut self) -> Vec<Pass> {
        self.timeline.take_passes()
    }

    /// Packs sequences by the micro-batch budget.
    pub(crate) fn pack(&self, sequences: &[Sequence]) -> Result<MicroBatches> {
        self.check_whole()?;
        self.model.pack(sequences)
    }

    /// Log-probabilities and entropies of each sequence under the current weights.
    #[tracing::instrument(level = "debug", skip_all, fields(sequences = sequences.len()))]
    pub(crate) fn score(&self, sequences: &[Sequence], temperature: f32) -> Result<Vec<Scores>> {
        self.explained(memory::Phase::Scoring, self.model.score(&self.pack(sequences)?, temperature))
    }

    /// The same at the training temperature, as part of a step.
    #[tracing::instrument(level = "debug", skip_all, fields(micro_batches = batches.packed().len()))]
    pub(crate) fn score_old(&mut self, batches: &MicroBatches) -> Result<Vec<Scores>> {
        let began = Timeline::now();
        let scores = self.model.score(batches, self.settings.temperature);
        self.timeline.add(PassKind::Scoring, began, batches.packed().len());
        self.explained(memory::Phase::Scoring, scores)
    }

    /// Whether a KL term refers to the initial weights.
    pub(crate) fn has_reference(&self) -> bool {
        self.model.has_reference()
    }

    /// The same under the reference; `None` without a reference.
    #[tracing::instrument(level = "debug", skip_all, fields(micro_batches = batches.packed().len()))]
    pub(crate) fn score_reference(&mut self, batches: &MicroBatches) -> Result<Option<Vec<Scores>>> {
        let began = Timeline::now();
        let scores = self.model.score_reference(batches, self.settings.temperature);
        if self.has_reference() {
            self.timeline.add(PassKind::Scoring, began, batches.packed().len());
        }
        self.explained(memory::Phase::Scoring, scores)
    }

    /// Forward and backward passes; gradients are added to those already summed.
    #[tracing::instrument(level = "debug", skip_all, fields(micro_batches = batches.packed().len()))]
    pub(crate) fn accumulate(&mut self, batches: &MicroBatches, temperature: f32, loss: &dyn TokenLoss) -> Result<()> {
        let began = Timeline::now();
        let passed = self.model.accumulate(batches, temperature, loss);
        self.timeline.add(PassKind::Gradient, began, batches.packed().len());
        self.explained(memory::Phase::Training, passed)
    }

    /// Runs passes whose gradients no update takes: what was summed before is discarded as well, and their work is not counted.
    pub(crate) fn aside<T>(&mut self, passes: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let work = self.timeline.work();
        let done = passes(self);
        self.model.discard_gradients();
        self.timeline.set_work(work);
        done
    }

    /// Takes the gradient without an update.
    pub(crate) fn take_gradient(&mut self, gradient: Gradient) -> Result<Vec<Tensor>> {
        match gradient {
            Gradient::Accumulated => Ok(self.model.take_gradients()?),
            Gradient::Zero => {
                Ok(self.parameters().values().iter().map(Tensor::zeros_like).collect::<Result<_, _>>()?)
            }
        }
    }

    /// One optimizer update with `scale` times the gradient. If the loss or the gradient is not finite it changes nothing
    /// and reports that.
    ///
    /// # Errors
    /// A failure of the device, or `max_skipped_updates` such updates in a row.
    #[tracing::instrument(level = "debug", skip_all)]
    pub(crate) fn update(
        &mut self,
        phase: Phase,
        gradient: Gradient,
        scale: f64,
        loss_is_finite: bool,
    ) -> Result<UpdateReport> {
        let began = Timeline::now();
        let gradients = self.take_gradient(gradient)?;
        let settings = match phase {
            Phase::Policy => &self.settings.optimizer,
            Phase::Supervised => &self.settings.supervised,
        };
        let target = self.model.for_update();
        let updated = self.optimizer.update(phase, settings, target, &gradients, scale, loss_is_finite);
        let report = self.explained(memory::Phase::Updating, updated)?;
        self.timeline.add(PassKind::Update, began, 0);
        let Some(reason) = report.skipped else {
            self.skipped = 0;
            return Ok(report);
        };
        self.skipped += 1;
        let (count, limit, version) = (self.skipped, self.settings.max_skipped_updates, self.version);
        tracing::warn!(version, grad_norm = report.grad_norm, %reason, in_a_row = count, "update skipped");
        match limit > 0 && count >= limit {
            true => Err(LearnerError::SkippedUpdates { count, limit, reason: reason.label(), version }),
            false => Ok(report),
        }
    }

    /// Applies all updates of a step of this phase or none: after an error, weights and optimizer are unchanged. Also returns
    /// the version after the step.
    ///
    /// On a CPU, and with own kernels on a GPU, an update works in place, so only a step of several updates needs a copy (12 bytes for each
    /// parameter). It does not fail half way, unless the GPU is lost, and all that it holds. Where candle's operations update, they create
    /// new tensors, and keeping the old ones is enough.
    pub(crate) fn commit<T>(
        &mut self,
        phase: Phase,
        several_updates: bool,
        updates: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<(T, u64)> {
        self.check_whole()?;
        let in_place = self.model.updates_in_place();
        let skipped = self.skipped;
        let before = match in_place && !several_updates {
            true => None,
            false => Some(self.explained(memory::Phase::Keeping, self.snapshot(in_place))?),
        };
        let done = updates(self).and_then(|done| {
            self.optimizer.step_done(phase, self.model.parameters())?;
            Ok(done)
        });
        match done {
            Ok(done) => {
                self.version += 1;
                Ok((done, self.version))
            }
            Err(error) => {
                self.model.discard_gradients();
                self.skipped = skipped;
                if let Some(Snapshot { weights, optimizer }) = before {
                    self.model.parameters_mut().values_mut().clone_from_slice(&weights);
                    self.optimizer.restore(optimizer)?;
                }
                Err(error)
            }
        }
    }

    fn snapshot(&self, copy: bool) -> Result<Snapshot> {
        let weights = match copy {
            true => self.parameters().values().iter().map(Tensor::copy).collect::<Result<_, _>>()?,
            false => self.parameters().values().to_vec(),
        };
        Ok(Snapshot { weights, optimizer: self.optimizer.state(copy, self.parameters())? })
    }

    /// Replaces weights and moments by stored ones, one by one.
    ///
    /// # Errors
    /// A failure of a file or of the device. Then weights and moments are those of no step, and nothing can be done with them until a
    /// checkpoint has been restored to its end.
    pub(crate) fn restore(&mut self, stored: &dyn StoredState, numbers: StoredNumbers) -> Result<()> {
        let restored = self.replace(stored, numbers);
        self.explained(memory::Phase::Restoring, restored)
    }

    fn replace(&mut self, stored: &dyn StoredState, numbers: StoredNumbers) -> Result<()> {
        self.model.discard_gradients();
        self.torn = Some(stored.folder().to_owned());
        let device = self.parameters().device().clone();
        let moments_device = self.optimizer.moments().device(&device);
        for id in 0..self.parameters().specs().len() {
            self.model.parameters_mut().values_mut()[id] = stored.weights(id, &device)?;
            for moment in Moment::ALL {
                self.optimizer.moments_mut().set(moment, id, stored.moment(moment, id, &moments_device)?)?;
            }
        }
        self.optimizer.set_progress(numbers.optimizer);
        self.version = numbers.version;
        self.skipped = 0;
        self.set_seed(numbers.seed);
        self.torn = None;
        Ok(())
    }

    /// Refuses to work with what a folder that could not be read to its end has left.
    ///
    /// # Errors
    /// That folder, and what to do.
    pub(crate) fn check_whole(&self) -> Result<()> {
        match &self.torn {
            None => Ok(()),
            Some(folder) => Err(LearnerError::checkpoint(
                folder,
                "was not read to its end: load a checkpoint, or reset the learner, before anything else",
            )),
        }
    }

    #[cfg(test)]
    pub(crate) fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }
}
