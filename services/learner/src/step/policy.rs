//! One policy step, from its first group to the last update.

use evenkeel_objective::{Aggregation, GroupView, Normalizer, Quantities, StepCounts};
use evenkeel_seeds::{Stream, rng};
use rand::seq::SliceRandom;

use super::group_plan::{GroupPlan, PlannedResponse, is_regularized, plan};
use super::loss::{PolicyLoss, ResponseStats};
use super::report::{StepReport, UpdateStats};
use crate::error::{LearnerError, Result};
use crate::group::Group;
use crate::optimizer::Phase;
use crate::settings::OldLogp;
use crate::trainer::{Gradient, Trainer};

/// A step that takes groups as they arrive.
///
/// If one update takes the whole batch, gradients are summed while later groups are still being sampled, and the scalar
/// that depends on the whole step is applied at the end, before clipping. Otherwise groups wait for
/// [`PolicyStep::finish`]. Dropping a step changes nothing.
pub struct PolicyStep<'a> {
    trainer: &'a mut Trainer,
    groups: Vec<GroupPlan>,
    /// Responses that have not been through a pass.
    pending: Vec<PlannedResponse>,
    /// Of the responses whose gradients were summed while groups arrived.
    accumulated: Vec<ResponseStats>,
    trained_responses: usize,
    /// Set when a pass fails: the summed gradient is then incomplete.
    failed: bool,
}

impl<'a> PolicyStep<'a> {
    pub(crate) fn new(trainer: &'a mut Trainer) -> Self {
        trainer.begin_step();
        let (groups, pending, accumulated) = (Vec::new(), Vec::new(), Vec::new());
        Self { trainer, groups, pending, accumulated, trained_responses: 0, failed: false }
    }

    /// Adds a group, and runs passes when there is enough work.
    ///
    /// # Errors
    /// A refused group, which leaves the step unchanged; or a failure of the device, after which the step cannot
    /// continue.
    pub fn add(&mut self, group: Group) -> Result<()> {
        self.check_usable()?;
        let settings = self.trainer.settings();
        group.validate(self.groups.len(), self.trainer.config(), settings)?;
        let (plan, planned) = plan(&settings.objective, self.groups.len(), group)?;
        self.groups.push(plan);
        self.pending.extend(planned);
        let tokens: usize = self.pending.iter().map(PlannedResponse::length).sum();
        if self.is_streaming() && tokens >= self.trainer.settings().compute.tokens_worth_a_pass() {
            let responses = std::mem::take(&mut self.pending);
            let stats = pass(self.trainer, responses, 1.0).inspect_err(|_| self.failed = true)?;
            self.trained_responses += stats.len();
            self.accumulated.extend(stats);
        }
        Ok(())
    }

    /// Applies all updates or none, and returns a report.
    ///
    /// # Errors
    /// A step without groups, or a failure of the device. Weights, moments and version are then unchanged.
    pub fn finish(mut self) -> Result<StepReport> {
        self.check_usable()?;
        if self.groups.is_empty() {
            return Err(LearnerError::input("number of groups", 0, "1 or more"));
        }
        let settings = self.trainer.settings();
        let (aggregation, single) = (settings.objective.aggregation, settings.is_single_update());
        let counts: StepCounts = self.groups.iter().map(|plan| plan.counts).collect();
        let views: Vec<GroupView<'_>> = self.groups.iter().map(GroupPlan::view).collect();
        let quantities = Quantities::of(&views, settings.objective.max_tokens)?;
        let (pending, mut accumulated) = (std::mem::take(&mut self.pending), std::mem::take(&mut self.accumulated));
        let (groups, trained) = (&self.groups, &mut self.trained_responses);
        let (updates, version) = self.trainer.commit(!single, |trainer| {
            if counts.groups == 0 {
                return Ok(Vec::new());
            }
            if !single {
                return many_updates(trainer, groups, pending, trained);
            }
            let stats = pass(trainer, pending, regularizer_factor(trainer, counts))?;
            *trained += stats.len();
            accumulated.extend(stats);
            Ok(vec![update(trainer, &accumulated, counts)?])
        })?;
        Ok(StepReport::of(&self.groups, aggregation, quantities, self.trained_responses, updates, version))
    }

    fn check_usable(&self) -> Result<()> {
        match self.failed {
            false => Ok(()),
            true => Err(LearnerError::input("step", "unusable after an earlier failure", "a new step")),
        }
    }

    /// Whether passes may run before the last group has arrived: the ratio of the regularizer's scalar to the policy's must
    /// be known, and it is 1 for every rule that divides by P.
    fn is_streaming(&self) -> bool {
        let settings = self.trainer.settings();
        let known =
            settings.objective.aggregation.normalizer() == Normalizer::Groups || !is_regularized(&settings.objective);
        settings.is_single_update() && known
    }
}

/// Updates on mini-batches of whole groups, over all epochs.
fn many_updates(
    trainer: &mut Trainer,
    groups: &[GroupPlan],
    mut responses: Vec<PlannedResponse>,
    trained: &mut usize,
) -> Result<Vec<UpdateStats>> {
    if trainer.settings().old_logp == OldLogp::Recompute {
        let sequences: Vec<_> = responses.iter().map(PlannedResponse::sequence).collect();
        for (response, scores) in responses.iter_mut().zip(trainer.score_old(&sequences)?) {
            response.old_logp = Some(scores.logp);
        }
    }
    let size = match trainer.settings().mini_batch_groups {
        0 => groups.len(),
        size => size,
    };
    let mut updates = Vec::new();
    for epoch in 0..trainer.settings().epochs {
        for mini_batch in group_order(trainer, groups.len(), epoch).chunks(size) {
            let counts: StepCounts = mini_batch.iter().map(|&group| groups[group].counts).collect();
            if counts.groups == 0 {
                continue;
            }
            let members = responses.iter().filter(|response| mini_batch.contains(&response.group));
            let stats = pass(trainer, members.cloned().collect(), regularizer_factor(trainer, counts))?;
            *trained += stats.len();
            updates.push(update(trainer, &stats, counts)?);
        }
    }
    Ok(updates)
}

/// Indices of the groups in the order of an epoch, which depends on (seed, step, epoch) only.
fn group_order(trainer: &Trainer, groups: usize, epoch: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..groups).collect();
    if trainer.settings().shuffle {
        let stream = Stream::GroupOrder { step: trainer.version(), epoch: epoch as u64 };
        order.shuffle(&mut rng(trainer.settings().seed, stream));
    }
    order
}

/// The regularizer's scalar of the step divided by the policy's.
fn regularizer_factor(trainer: &Trainer, counts: StepCounts) -> f64 {
    let policy = counts.scale(trainer.settings().objective.aggregation);
    if policy == 0.0 { 1.0 } else { counts.scale(Aggregation::Token) / policy }
}

/// Forward and backward over responses; gradients stay summed in the trainer.
fn pass(
    trainer: &mut Trainer,
    mut responses: Vec<PlannedResponse>,
    regularizer_factor: f64,
) -> Result<Vec<ResponseStats>> {
    if responses.is_empty() {
        return Ok(Vec::new());
    }
    if trainer.settings().old_logp == OldLogp::Rollout {
        for response in &mut responses {
            response.old_logp = Some(response.rollout_logp.clone());
        }
    }
    let sequences: Vec<_> = responses.iter().map(PlannedResponse::sequence).collect();
    let batches = trainer.pack(&sequences)?;
    if let Some(scores) = trainer.score_reference(&batches)? {
        for (response, scores) in responses.iter_mut().zip(scores) {
            response.reference_logp = Some(scores.logp);
        }
    }
    let (objective, temperature) = (trainer.settings().objective.clone(), trainer.settings().temperature);
    let loss = PolicyLoss::new(&objective, regularizer_factor, &responses, &batches);
    trainer.accumulate(&batches, temperature, &loss)?;
    Ok(loss.into_stats())
}

/// Applies the step's scalar to the summed gradient and updates.
fn update(trainer: &mut Trainer, stats: &[ResponseStats], counts: StepCounts) -> Result<UpdateStats> {
    let scale = counts.scale(trainer.settings().objective.aggregation);
    let gradient = if stats.is_empty() { Gradient::Zero } else { Gradient::Accumulated };
    let finite = stats.iter().all(ResponseStats::is_finite);
    let report = trainer.update(Phase::Policy, gradient, scale, finite)?;
    Ok(UpdateStats::of(stats, scale, report))
}
