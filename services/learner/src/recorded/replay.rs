//! Steps done again, from weights that the run still has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evenkeel_objective::{Aggregation, Settings as Objective, SideDial};
use evenkeel_run::rollout_name;

use super::difference::{Agreement, Precision, compare};
use super::effect::RuleEffect;
use super::error::{Deviation, ReplayError};
use super::run::{RecordedRun, RecordedStep};
use super::weights::{Source, StoredWeights};
use crate::error::LearnerError;
use crate::initial;
use crate::learner::Learner;
use crate::service::PublishType;
use crate::settings::{ProbeSettings, TrainingSettings};
use crate::step::StepReport;

/// How steps are done again.
pub struct ReplaySettings {
    /// The settings of the run's learner.
    pub training: TrainingSettings,
    /// Rules whose gradients [`Replay::step`] computes as well, besides the recorded one.
    pub rules: Vec<Aggregation>,
    /// The numbers with which `sides` is computed if it is among the rules; none for those of the run, or of `balanced`
    /// where the run has none.
    pub dials: Vec<SideDial>,
    /// `run.seed`.
    pub seed: u64,
    /// `pipeline.max_lag`.
    pub max_lag: u32,
    /// How close a step must be to the recorded one.
    pub precision: Precision,
    /// `model.publish_type`: how weights are written whose digest is compared with the recorded one.
    pub publish_type: PublishType,
    /// Folder for weights that are written to be compared; they are removed again.
    pub scratch: PathBuf,
}

/// Does recorded steps again, in one process, whatever ran them.
pub struct Replay {
    pub(super) learner: Learner,
    pub(super) run: RecordedRun,
    pub(super) weights: StoredWeights,
    pub(super) settings: ReplaySettings,
    /// The version that the learner has with the moments of the run; `None` where it has another state.
    at: Option<u64>,
    /// For weights from before a step, the first step from there on that cannot be replayed, and why.
    gaps: BTreeMap<u64, (u64, String)>,
}

/// A step that was done again and agrees with what the run recorded.
#[derive(Clone, Debug)]
pub struct ReplayedStep {
    /// Number of the step, from 1.
    pub step: u64,
    /// How close it is to the recorded one.
    pub agreement: Agreement,
    /// Whether the weights that it made were compared, and are those of the receipt.
    pub has_equal_weights: bool,
    /// Each rule on the groups of the step, the recorded one among them.
    pub effects: Vec<RuleEffect>,
    /// All that the learner reports of it.
    pub report: StepReport,
}

impl Replay {
    /// Opens the folder of the model that the run began with.
    ///
    /// # Errors
    /// A rule that does not go with the run's objective; a model or a device that cannot be opened.
    pub fn open(
        model: &Path,
        run: RecordedRun,
        weights: StoredWeights,
        mut settings: ReplaySettings,
    ) -> Result<Self, ReplayError> {
        let recorded = &settings.training.objective;
        for rule in &settings.rules {
            let plain = Objective { length_exponent: None, side_ratio: None, ..recorded.clone() };
            Objective { aggregation: *rule, ..plain }.validate().map_err(LearnerError::from)?;
        }
        for dial in &settings.dials {
            dial.validate().map_err(LearnerError::from)?;
        }
        let has_dial = recorded.aggregation == Aggregation::Sides;
        if settings.rules.contains(&Aggregation::Sides) && !has_dial && settings.dials.is_empty() {
            settings.dials.push(SideDial::default());
        }
        let probe_gradients = if settings.rules.is_empty() && settings.dials.is_empty() {
            ProbeSettings::default()
        } else {
            // The rule in use is always computed, and dials are no rules of the run.
            let mut rules = settings.rules.clone();
            rules.retain(|rule| *rule != Aggregation::Sides);
            rules.push(recorded.aggregation);
            ProbeSettings { every: 1, rules }
        };
        let training = TrainingSettings { probe_gradients, ranks: None, ..settings.training.clone() };
        let learner = Learner::open(model, training)?;
        Ok(Self { learner, run, weights, settings, at: None, gaps: BTreeMap::new() })
    }

    /// The recorded run.
    pub fn run(&self) -> &RecordedRun {
        &self.run
    }

    /// Does a step again, with earlier ones where the weights before it were not kept. Steps in a row need the weights
    /// before the first one only.
    ///
    /// # Errors
    /// [`ReplayError::Missing`] where it cannot be done, [`ReplayError::Different`] where the result is another one,
    /// [`ReplayError::BeyondTolerance`] where another device does not come close enough to tell.
    pub fn step(&mut self, step: u64) -> Result<ReplayedStep, ReplayError> {
        let recorded = self.run.step(step)?;
        let has_moments = self.reach(&recorded)?;
        let (report, agreement) = self.train(&recorded, has_moments, true)?;
        let is_exact = has_moments && agreement == Agreement::Equal;
        let has_equal_weights = is_exact && self.has_recorded_weights(step)?;
        let effects = RuleEffect::of_step(&report, &recorded.rollouts);
        Ok(ReplayedStep { step, agreement, has_equal_weights, effects, report })
    }

    /// Brings the learner to the weights before a step. Returns whether it has the run's moments as well.
    fn reach(&mut self, recorded: &RecordedStep) -> Result<bool, ReplayError> {
        let step = recorded.step;
        if self.at == Some(recorded.base_version) {
            return Ok(true);
        }
        if let Some(source) = self.weights.before(step) {
            self.load(&source, recorded)?;
            return Ok(true);
        }
        // A second update depends on the moments of the first.
        let published = self.weights.published(recorded.base_version);
        if let Some(source) = published.filter(|_| self.settings.training.is_single_update()) {
            self.load(&source, recorded)?;
            return Ok(false);
        }
        let first = self.weights.nearest(step).ok_or_else(|| self.no_weights(step))?;
        // Before any work: a step in between whose files are gone ends it, also for later steps.
        if let Some(error) = (first..step).find_map(|number| self.run.files(number).err()) {
            self.note_gap(first, &error);
        }
        self.refuse_gap(first, step)?;
        for number in first..step {
            let earlier = match self.run.step(number) {
                Err(error @ ReplayError::Missing { .. }) => {
                    self.note_gap(first, &error);
                    self.refuse_gap(first, step)?;
                    return Err(error);
                }
                read => read?,
            };
            if self.at != Some(earlier.base_version) {
                let source = self.weights.before(number).ok_or_else(|| self.no_weights(step))?;
                self.load(&source, &earlier)?;
            }
            self.train(&earlier, true, false)?;
        }
        Ok(true)
    }

    fn note_gap(&mut self, first: u64, error: &ReplayError) {
        let ReplayError::Missing { step, .. } = error else { return };
        if self.gaps.get(&first).is_none_or(|(known, _)| known > step) {
            self.gaps.insert(first, (*step, error.to_string()));
        }
    }

    /// Refuses a step that a known gap lies before.
    fn refuse_gap(&self, first: u64, step: u64) -> Result<(), ReplayError> {
        match self.gaps.get(&first) {
            Some((gap, why)) if *gap < step => {
                let kept = self.weights.described();
                let reason = format!("only weights from before step {first} are left, and {why}; {kept}");
                Err(ReplayError::missing(step, reason))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn no_weights(&self, step: u64) -> ReplayError {
        let kept = self.weights.described();
        let keeps = "checkpoint.keep and checkpoint.keep_weights say how many a run keeps";
        ReplayError::missing(step, format!("no weights from before it are left ({keeps}); {kept}"))
    }

    pub(super) fn load(&mut self, source: &Source, recorded: &RecordedStep) -> Result<(), ReplayError> {
        self.load_version(source, recorded.base_version, recorded.step)
    }

    /// Loads weights, which must be of a version, for a step.
    pub(super) fn load_version(&mut self, source: &Source, wanted: u64, step: u64) -> Result<(), ReplayError> {
        self.at = None;
        match source {
            Source::Checkpoint(folder) => drop(self.learner.restore_checkpoint(folder)?),
            Source::Published(folder) => initial::restore_published(self.learner.trainer_mut(), folder)?,
            Source::Model => self.learner.reset()?,
        }
        let found = self.learner.version();
        if found == wanted {
            return Ok(());
        }
        let what = format!("has version {found} of the weights, and version {wanted} is needed");
        match source {
            Source::Checkpoint(folder) | Source::Published(folder) => {
                Err(Deviation { file: self.run.name_of(folder), what }.at(step))
            }
            Source::Model => Err(ReplayError::missing(step, format!("the model {what}"))),
        }
    }

    /// Does a step from the weights at hand, and compares it with what was recorded.
    pub(super) fn train(
        &mut self,
        recorded: &RecordedStep,
        has_moments: bool,
        is_probed: bool,
    ) -> Result<(StepReport, Agreement), ReplayError> {
        self.at = None;
        let ReplaySettings { seed, max_lag, precision, .. } = self.settings;
        self.learner.set_seed(seed);
        let report = self.trained(recorded, is_probed, max_lag > 0, precision == Precision::Bits)?;
        let agreement = compare(recorded, &report, precision, has_moments)?;
        self.at = has_moments.then_some(report.version);
        Ok((report, agreement))
    }

    /// `is_exact`: whether log-probabilities of engines with the learner's arithmetic must be its own.
    fn trained(
        &mut self,
        recorded: &RecordedStep,
        is_probed: bool,
        has_lags: bool,
        is_exact: bool,
    ) -> Result<StepReport, ReplayError> {
        let mut step = self.learner.step_of(recorded.groups.len()).numbered(recorded.step)?;
        if is_probed {
            step = step.with_detailed_probe(self.settings.dials.clone())?;
        }
        if has_lags {
            step = step.with_lags()?;
        }
        for group in &recorded.groups {
            let mut group = group.clone();
            if !is_exact {
                group.responses.iter_mut().for_each(|response| response.comparisons.clear());
            }
            step.add(group).map_err(|error| failed(recorded, error))?;
        }
        step.finish().map_err(|error| failed(recorded, error))
    }
}

/// The error of a step whose rollouts the learner refuses.
fn failed(recorded: &RecordedStep, error: LearnerError) -> ReplayError {
    let step = recorded.step;
    match error {
        LearnerError::SampledOtherwise { group, index, token, reported, computed, .. } => {
            let prompt = recorded.groups.get(group).map_or("", |group| &group.id);
            let what = format!(
                "sampled token {token} of sample {index} of {prompt} has the log-probability {reported:?} in its \
                 rollouts, and now {computed:?}: tokens, log-probabilities or weights are others"
            );
            Deviation { file: rollout_name(step), what }.at(step)
        }
        LearnerError::Input(error) => {
            Deviation { file: rollout_name(step), what: format!("is refused by the learner: {error}") }.at(step)
        }
        other => other.into(),
    }
}
