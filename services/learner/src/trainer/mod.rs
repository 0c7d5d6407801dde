//! What training changes: weights, optimizer state and version, and the only operations that change them.

mod accumulate;
mod rank_checkpoint;
mod ranks;
mod restore;
mod update;

use std::path::PathBuf;

use evenkeel_model::folder::AdapterBase;
use evenkeel_model::{Config, Parameters, Scores, TrainableModel};
use evenkeel_objective::TermStats;

use crate::blocks::{Blocks, Place};
use crate::error::{LearnerError, Result};
use crate::memory::{MemoryPhase, MemoryPlan};
use crate::micro_batch::MicroBatches;
use crate::model::Model;
use crate::optimizer::Optimizer;
use crate::ranks::Division;
use crate::sequence::Sequence;
use crate::settings::TrainingSettings;
use crate::terms::LossTerms;
use crate::timeline::{Pass, PassKind, Timeline, WorkDone};

pub(crate) use accumulate::{Passed, SequenceLoss, TokenGradient, TokenScores};
use ranks::OtherRanks;
pub use ranks::SharedCollective;
pub(crate) use restore::{StoredCounters, StoredState};
pub(crate) use update::{UpdateBy, Updated};

/// A model and its optimizer.
pub(crate) struct Trainer {
    settings: TrainingSettings,
    model: Model,
    optimizer: Optimizer,
    terms: LossTerms,
    /// Steps done, supervised and policy.
    version: u64,
    /// Updates skipped since the last that was applied.
    skipped: u64,
    /// The folder that was only partially loaded.
    partially_loaded: Option<PathBuf>,
    /// Whether a step ended in the middle of an exchange, so that weights and moments are of no step.
    is_torn: bool,
    ranks: OtherRanks,
    /// The memory plan; absent on a CPU.
    plan: Option<MemoryPlan>,
    /// The model that adapters belong to.
    base: AdapterBase,
    timeline: Timeline,
}

impl Trainer {
    /// Version 0 with fresh moments.
    pub(crate) fn new(
        config: Config,
        parameters: Parameters,
        settings: TrainingSettings,
        division: Division,
    ) -> Result<Self> {
        Self::of(Model::new(config, parameters, &settings, division)?, settings, division)
    }

    /// Version 0 of an existing model.
    pub(crate) fn of(mut model: Model, settings: TrainingSettings, division: Division) -> Result<Self> {
        let own = division.own_parameters(model.parameters().trained_specs());
        let optimizer = Optimizer::of_part(model.for_update(), settings.optimizer.moments, own)?;
        Ok(Self {
            terms: settings.loss_terms(),
            settings,
            model,
            optimizer,
            version: 0,
            skipped: 0,
            partially_loaded: None,
            is_torn: false,
            ranks: OtherRanks::new(division),
            plan: None,
            base: AdapterBase::default(),
            timeline: Timeline::default(),
        })
    }

    /// Sets the plan that errors of memory quote.
    pub(crate) fn set_plan(&mut self, plan: Option<MemoryPlan>) {
        self.plan = plan;
    }

    /// Sets the model that adapters belong to.
    pub(crate) fn set_base(&mut self, base: AdapterBase) {
        self.base = base;
    }

    pub(crate) fn base(&self) -> &AdapterBase {
        &self.base
    }

    pub(crate) fn plan(&self) -> Option<&MemoryPlan> {
        self.plan.as_ref()
    }

    /// Adds what was planned to an error of memory.
    fn explained<T>(&self, phase: MemoryPhase, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.explain(phase, error))
    }

    /// Adds what was planned to an error at hand.
    pub(crate) fn explain(&self, phase: MemoryPhase, error: LearnerError) -> LearnerError {
        error.during(phase, self.plan.as_ref(), &self.settings)
    }

    /// The network in training.
    pub(crate) fn network(&self) -> &dyn TrainableModel {
        self.model.policy()
    }

    pub(crate) fn settings(&self) -> &TrainingSettings {
        &self.settings
    }

    pub(crate) fn config(&self) -> &Config {
        self.model.config()
    }

    pub(crate) fn parameters(&self) -> &Parameters {
        self.model.parameters()
    }

    /// The parameters of the frozen networks that terms of the loss compare with.
    pub(crate) fn frozen(&self) -> impl Iterator<Item = &Parameters> {
        self.model.frozen()
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

    /// Records whose responses the last pass of a kind ran.
    pub(crate) fn pass_was_of(&mut self, kind: PassKind, groups: impl Iterator<Item = usize>) {
        self.timeline.of_groups(kind, groups);
    }

    /// Takes the passes since the step began.
    pub(crate) fn take_passes(&mut self) -> Vec<Pass> {
        self.timeline.take_passes()
    }

    /// Packs sequences to be scored by the micro-batch budget.
    pub(crate) fn pack(&self, sequences: &[Sequence]) -> Result<MicroBatches> {
        self.check_whole()?;
        self.model.pack(sequences)
    }

    /// The blocks of an update over this many groups.
    pub(crate) fn blocks(&self, groups: usize) -> Blocks {
        Blocks::new(self.settings.compute.gradient_blocks, groups)
    }

    /// Packs sequences whose gradient is summed, each at its place in the update; blocks ascend.
    fn pack_in_blocks(&self, sequences: &[Sequence], places: &[Place]) -> Result<MicroBatches> {
        self.check_whole()?;
        self.model.pack_in_blocks(sequences, places)
    }

    /// Log-probabilities and entropies of each sequence under the current weights.
    #[tracing::instrument(level = "debug", skip_all, fields(sequences = sequences.len()))]
    pub(crate) fn score(&self, sequences: &[Sequence], temperature: f32) -> Result<Vec<Scores>> {
        self.explained(MemoryPhase::Scoring, self.model.score(&self.pack(sequences)?, temperature))
    }

    /// Log-probabilities and entropies at the training temperature, as part of a step.
    #[tracing::instrument(level = "debug", skip_all, fields(micro_batches = batches.packed().len()))]
    pub(crate) fn score_old(&mut self, batches: &MicroBatches) -> Result<Vec<Scores>> {
        let began = Timeline::now();
        let scores = self.model.score(batches, self.settings.temperature);
        self.timeline.add(PassKind::Scoring, began, batches.packed().len());
        self.explained(MemoryPhase::Scoring, scores)
    }

    /// The terms of the loss beside the policy's and the entropy's.
    pub(crate) fn terms(&self) -> &LossTerms {
        &self.terms
    }

    /// Whether responses without an advantage have a gradient, by an entropy term or another.
    pub(crate) fn is_regularized(&self) -> bool {
        !self.terms.is_empty() || self.settings.objective.entropy_coefficient != 0.0
    }

    /// Tells the terms of the loss that a step is done, in which these updates were applied.
    pub(crate) fn terms_done(&mut self, applied: &[Vec<TermStats>]) {
        self.terms.step_done(applied);
    }

    /// Log-probabilities and entropies under the network of each term of the loss. `hinted`: the sequences with hints,
    /// where a term reads them.
    #[tracing::instrument(level = "debug", skip_all, fields(micro_batches = batches.packed().len()))]
    pub(crate) fn score_frozen(
        &mut self,
        batches: &MicroBatches,
        hinted: Option<&MicroBatches>,
    ) -> Result<Vec<Vec<Scores>>> {
        let mut of_terms = Vec::with_capacity(self.terms.len());
        for (number, term) in self.terms.iter().enumerate() {
            let began = Timeline::now();
            let temperature = term.temperature().unwrap_or(self.settings.temperature);
            let batches = hinted.filter(|_| term.reads_hints()).unwrap_or(batches);
            let scores = self.model.score_frozen(number, batches, temperature);
            self.timeline.add(PassKind::Scoring, began, batches.packed().len());
            of_terms.push(self.explained(MemoryPhase::Scoring, scores)?);
        }
        Ok(of_terms)
    }

    /// Runs passes and discards their gradients, together with what was summed before. Their work is not counted.
    pub(crate) fn discarding_gradients<T>(&mut self, passes: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let work = self.timeline.work();
        let done = passes(self);
        self.model.discard_gradients();
        self.timeline.set_work(work);
        done
    }

    pub(crate) fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }
}
