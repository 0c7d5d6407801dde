//! One policy step, from its first group to the last update.

use candle_core::Tensor;
use evenkeel_objective::{Aggregation, Constants, Quantities, Settings, SideDial, TermStats};

use super::batch::{Batch, StepPhase, StepProgress};
use super::group_weights::{GroupWeights, PlannedResponse, weigh};
use super::probe::{Weighing, gradients_by_weight, probe, scored};
use super::report::{SidesReport, StepReport, UpdateStats};
use super::rule_gradients::GradientProbe;
use crate::error::{LearnerError, Result};
use crate::group::ResponseGroup;
use crate::optimizer::TrainingPhase;
use crate::trainer::Trainer;

/// A step that takes groups as they arrive.
///
/// While later groups are still being sampled, the gradients of the first update's groups are summed, and those of
/// later updates are scored under the weights before the first. The updates themselves, and the passes of the later
/// ones, follow in [`PolicyStep::finish`]. Dropping a step changes nothing.
pub struct PolicyStep<'a> {
    trainer: &'a mut Trainer,
    expected: Option<usize>,
    batch: Batch,
    /// Groups that wait for the last one, after which the gradients of all rules are computed first; absent in other
    /// steps.
    held: Option<Vec<(GroupWeights, Vec<PlannedResponse>)>>,
    /// Whether a probe computes the gradient of each side as well, and further dials of `sides` that it takes.
    detail: Option<Vec<SideDial>>,
    /// The objective at this step.
    objective: Settings,
    /// Set when a pass fails: sums and scores are then incomplete.
    failed: bool,
}

impl<'a> PolicyStep<'a> {
    /// A step of `expected` groups, or of a number that is not known yet.
    pub(crate) fn new(trainer: &'a mut Trainer, expected: Option<usize>) -> Self {
        trainer.begin_step();
        let batch = Batch::new(trainer, expected);
        let objective = trainer.settings().objective.at_step(trainer.version() + 1);
        Self { trainer, expected, batch, held: None, detail: None, objective, failed: false }
    }

    /// Says which step of its run this is, from 1, for settings that change over the steps. Without it, the version of
    /// the weights is counted, to which supervised steps add.
    ///
    /// # Errors
    /// A step that has a group.
    pub fn numbered(mut self, step: u64) -> Result<Self> {
        match self.groups() {
            0 => {
                self.objective = self.trainer.settings().objective.at_step(step);
                Ok(self)
            }
            groups => Err(LearnerError::StepBegun { measurement: "the number of the step", groups }),
        }
    }

    /// Computes the gradient of every rule of [`probe_gradients`](crate::TrainingSettings::probe_gradients) as well,
    /// after the last group and before the first update. No pass runs before the last group then; the updates have the
    /// same bits.
    ///
    /// # Errors
    /// A step that has a group.
    pub fn with_probe(mut self) -> Result<Self> {
        match self.groups() {
            0 => {
                self.held = Some(Vec::new());
                Ok(self)
            }
            groups => Err(LearnerError::StepBegun { measurement: "the gradients of all rules", groups }),
        }
    }

    /// Does what [`with_probe`](Self::with_probe) does, and computes the gradient of each side and that of `sides` with
    /// further dials: see [`GradientProbe::details`]. Two more passes for each rule and dial.
    ///
    /// # Errors
    /// A step that has a group.
    pub fn with_detailed_probe(self, dials: Vec<SideDial>) -> Result<Self> {
        Ok(Self { detail: Some(dials), ..self.with_probe()? })
    }

    /// The gradients of several rules, with their numbers, on the groups of the step, by as few passes as there are
    /// different weights. `take` gets a gradient in the order of the model's parameters, which is that of the policy
    /// term of responses that all rules weigh alike, and what each rule weighs it. The gradient of a rule, without the
    /// mini-batch normalizer, is the sum of weight times gradient. Nothing is updated. Needs
    /// [`with_probe`](Self::with_probe).
    ///
    /// # Errors
    /// Numbers that a rule does not take; a failure of the device or of `take`.
    pub fn gradients_by_weight(
        self,
        rules: &[(Aggregation, Constants)],
        take: impl FnMut(Vec<Tensor>, &[f64]) -> candle_core::Result<()>,
    ) -> Result<()> {
        let held = self.held.unwrap_or_default();
        let weighing = |&(aggregation, constants): &(Aggregation, Constants)| Weighing { aggregation, constants };
        let weighings: Vec<Weighing> = rules.iter().map(weighing).collect();
        self.trainer.discarding_gradients(|trainer| {
            let mut responses = scored(trainer, &held)?;
            gradients_by_weight(trainer, &weighings, &held, &mut responses, take)
        })
    }

    /// Reports statistics for each lag as well: see [`StepReport::lags`]. They cost an exponential for each token that
    /// goes through the model, and no pass; the updates have the same bits.
    ///
    /// # Errors
    /// A step that has a group.
    pub fn with_lags(mut self) -> Result<Self> {
        match self.groups() {
            0 => {
                self.batch.measure_lags();
                Ok(self)
            }
            groups => Err(LearnerError::StepBegun { measurement: "statistics by lag", groups }),
        }
    }

    /// Adds a group, and runs passes when there is enough work.
    ///
    /// # Errors
    /// A refused group, which leaves the step unchanged; or a failure of the device, after which the step cannot
    /// continue.
    pub fn add(&mut self, group: ResponseGroup) -> Result<()> {
        self.check_usable()?;
        let index = self.groups();
        let settings = self.trainer.settings();
        if let Some(expected) = self.expected.filter(|&expected| index >= expected) {
            return Err(wrong_number(index + 1, expected));
        }
        group.validate(index, self.trainer.config(), settings)?;
        let selected = (self.trainer.is_regularized(), self.held.is_some());
        let (weights, planned) = weigh(&self.objective, settings, selected, index, group)?;
        if let Some(held) = &mut self.held {
            held.push((weights, planned));
            return Ok(());
        }
        self.batch.add(self.trainer, weights, planned).inspect_err(|_| self.failed = true)
    }

    /// What is trained, which nothing has changed yet.
    pub(crate) fn trainer(&self) -> &Trainer {
        self.trainer
    }

    /// The progress of the step.
    pub fn progress(&self) -> StepProgress {
        self.batch.progress()
    }

    /// Applies all updates or none, and returns a report.
    ///
    /// # Errors
    /// A step without groups or with fewer than expected, or a failure of the device. Weights, moments and version are
    /// then unchanged.
    pub fn finish(self) -> Result<StepReport> {
        self.finish_with(|_, _| {})
    }

    /// [`PolicyStep::finish`] with a callback for its progress: before each pass and each update.
    ///
    /// # Errors
    /// As [`PolicyStep::finish`].
    pub fn finish_with(mut self, mut observe: impl FnMut(StepPhase, StepProgress)) -> Result<StepReport> {
        let complete = match (self.groups(), self.expected) {
            _ if self.failed => Err(LearnerError::StepFailed),
            (groups, Some(expected)) if groups != expected => Err(wrong_number(groups, expected)),
            (0, _) => Err(LearnerError::input("groups", "empty", "1 or more")),
            _ => Ok(()),
        };
        self.trainer.agree(format_args!("{} groups", self.groups()), complete)?;
        let is_probed = self.held.is_some();
        let probe = self.held.take().map(|held| self.probe_and_add(held, &mut observe)).transpose();
        let probe = if is_probed { self.trainer.agree("probed", probe)? } else { probe? };
        let aggregation = self.objective.aggregation;
        let quantities = Quantities::of(&self.batch.views(), self.objective.constants())?;
        let sides = SidesReport::of(&self.objective, self.batch.groups());
        let several = self.batch.updates() > 1;
        let batch = &mut self.batch;
        let ((updates, responses, trained), version) =
            self.trainer.commit(TrainingPhase::Policy, several, |trainer| batch.run_updates(trainer, &mut observe))?;
        let metrics = self.trainer.terms().metrics(&terms_of(updates.iter()));
        self.trainer.terms_done(&terms_of(updates.iter().filter(|update| update.skipped.is_none())));
        let report = StepReport::of(self.batch.groups(), aggregation, quantities, trained, updates, version);
        let lags = self.batch.take_lags();
        let compared = self.batch.compared();
        Ok(StepReport { metrics, probe, lags, compared, sides, response_reports: responses, ..report })
    }

    /// Number of groups received so far.
    fn groups(&self) -> usize {
        self.batch.groups().len() + self.held.as_ref().map_or(0, Vec::len)
    }

    /// Computes the gradients of all rules, then does with the groups what would have been done as they arrived.
    fn probe_and_add(
        &mut self,
        held: Vec<(GroupWeights, Vec<PlannedResponse>)>,
        observe: &mut dyn FnMut(StepPhase, StepProgress),
    ) -> Result<GradientProbe> {
        let settings = self.trainer.settings();
        let constants = self.objective.constants();
        let rules = settings.probe_gradients.rules(&self.objective).into_iter();
        let mut weighings: Vec<_> = rules.map(|aggregation| Weighing { aggregation, constants }).collect();
        let dials = self.detail.iter().flatten().map(|&dial| Weighing {
            aggregation: Aggregation::Sides,
            constants: Constants { sides: Some(dial), ..constants },
        });
        weighings.extend(dials.filter(|dial| constants.sides != dial.constants.sides));
        let by_side = self.detail.is_some();
        let probed =
            self.trainer.discarding_gradients(|trainer| probe(trainer, &weighings, by_side, &held, observe))?;
        let regularized = self.trainer.is_regularized();
        for (weights, mut planned) in held {
            planned.retain(|response| regularized || response.advantage() * response.weight() != 0.0);
            self.batch.add(self.trainer, weights, planned)?;
        }
        Ok(probed)
    }

    fn check_usable(&self) -> Result<()> {
        if self.failed { Err(LearnerError::StepFailed) } else { Ok(()) }
    }
}

/// The sums of the loss's further terms in each update, with the normalizer in their losses.
fn terms_of<'a>(updates: impl Iterator<Item = &'a UpdateStats>) -> Vec<Vec<TermStats>> {
    let of_update = |update: &UpdateStats| {
        let terms = update.terms.iter().zip(&update.term_losses);
        terms.map(|(sums, &loss)| TermStats { loss, ..*sums }).collect()
    };
    updates.map(of_update).collect()
}

fn wrong_number(groups: usize, expected: usize) -> LearnerError {
    let allowed = format!("{expected}, the number given in the header");
    LearnerError::input("groups", format_args!("a list of {groups}"), allowed)
}
