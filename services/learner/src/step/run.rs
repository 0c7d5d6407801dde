//! One policy step, from its first group to the last update.

use std::sync::Mutex;

use candle_core::Tensor;
use evenkeel_objective::{Aggregation, GroupView, Quantities, StepCounts};
use evenkeel_seeds::{Stream, rng};
use rand::seq::SliceRandom;

use super::loss::{PolicyLoss, ResponseStats};
use super::plan::{GroupPlan, Planned, is_regularized, plan};
use super::report::{StepReport, UpdateStats};
use crate::error::{LearnerError, Result};
use crate::group::Group;
use crate::learner::{Learner, Phase};
use crate::settings::OldLogp;

/// A step that takes groups as they come.
///
/// Where one update takes the whole batch, the gradient of a group is summed while later groups are still being
/// sampled; the scalar that only the whole step knows is applied at the end, before clipping. Otherwise groups wait
/// until [`PolicyStep::finish`]. Dropping a step changes nothing.
pub struct PolicyStep<'a> {
    learner: &'a mut Learner,
    plans: Vec<GroupPlan>,
    /// Responses that no pass has taken yet.
    waiting: Vec<Planned>,
    /// Of those that were taken, while groups came.
    done: Vec<ResponseStats>,
    trained: usize,
    /// Set when a pass failed half way: the summed gradient is worthless then.
    broken: bool,
}

impl<'a> PolicyStep<'a> {
    pub(crate) fn new(learner: &'a mut Learner) -> Self {
        learner.network.discard_gradients();
        Self { learner, plans: Vec::new(), waiting: Vec::new(), done: Vec::new(), trained: 0, broken: false }
    }

    /// Takes a group, and computes with it what can be computed already.
    ///
    /// # Errors
    /// A group that is refused, which leaves the step as it was; or a failure of the device, after which the step
    /// cannot go on.
    pub fn add(&mut self, group: Group) -> Result<()> {
        self.usable()?;
        let learner = &*self.learner;
        group.validate(self.plans.len(), learner.network.config(), &learner.settings)?;
        let (plan, planned) = plan(&learner.settings.objective, self.plans.len(), group)?;
        self.plans.push(plan);
        self.waiting.extend(planned);
        let tokens: usize = self.waiting.iter().map(|r| r.prompt.len() + r.tokens.len()).sum();
        if self.is_streaming() && tokens >= self.learner.settings.compute.tokens_worth_a_pass() {
            let responses = std::mem::take(&mut self.waiting);
            let stats = self.pass(responses, 1.0)?;
            self.done.extend(stats);
        }
        Ok(())
    }

    /// Does the updates and reports what happened: all of them, or none.
    ///
    /// Until the last update is done the weights and moments from before the first are held: on a CPU a copy of 12 bytes
    /// for each parameter where there is more than one update, on a GPU the tensors themselves.
    ///
    /// # Errors
    /// A step without groups, or a failure of the device. Weights, moments and version are what they were then.
    pub fn finish(mut self) -> Result<StepReport> {
        self.usable()?;
        if self.plans.is_empty() {
            return Err(LearnerError::input("number of groups", 0, "1 or more"));
        }
        let counts: StepCounts = self.plans.iter().map(|plan| plan.counts).collect();
        let views: Vec<GroupView<'_>> = self.plans.iter().map(GroupPlan::view).collect();
        let quantities = Quantities::of(&views, self.learner.settings.objective.max_tokens)?;
        let most = if self.learner.settings.is_single_update() { 1 } else { usize::MAX };
        let before = self.learner.snapshot(most)?;
        let updates = match self.updates(counts) {
            Ok(updates) => updates,
            Err(error) => {
                self.learner.restore(before);
                return Err(error);
            }
        };
        self.learner.steps += 1;
        let aggregation = self.learner.settings.objective.aggregation;
        Ok(StepReport::of(&self.plans, aggregation, quantities, self.trained, updates, self.learner.steps))
    }

    fn updates(&mut self, counts: StepCounts) -> Result<Vec<UpdateStats>> {
        match counts.groups {
            0 => Ok(Vec::new()),
            _ if self.learner.settings.is_single_update() => Ok(vec![self.single_update(counts)?]),
            _ => self.many_updates(),
        }
    }

    fn usable(&self) -> Result<()> {
        match self.broken {
            false => Ok(()),
            true => Err(LearnerError::input("step", "broken by an earlier failure", "a new step")),
        }
    }

    /// Whether passes may run before the last group has come: the quotient of the regularizer's scalar and the
    /// policy's must be known, and is 1 for every rule but `batch-token`.
    fn is_streaming(&self) -> bool {
        let objective = &self.learner.settings.objective;
        let known = objective.aggregation != Aggregation::BatchToken || !is_regularized(objective);
        self.learner.settings.is_single_update() && known
    }

    fn single_update(&mut self, counts: StepCounts) -> Result<UpdateStats> {
        let responses = std::mem::take(&mut self.waiting);
        let factor = self.regularizer_factor(counts);
        let stats = self.pass(responses, factor)?;
        self.done.extend(stats);
        let done = std::mem::take(&mut self.done);
        self.update(&done, counts)
    }

    /// Mini-batches of whole groups, over and over for each epoch.
    fn many_updates(&mut self) -> Result<Vec<UpdateStats>> {
        let mut responses = std::mem::take(&mut self.waiting);
        if self.learner.settings.old_logp == OldLogp::Recompute {
            let scores = self.learner.score_planned(&responses)?;
            for (response, logp) in responses.iter_mut().zip(scores) {
                response.old_logp = Some(logp);
            }
        }
        let size = match self.learner.settings.mini_batch_groups {
            0 => self.plans.len(),
            size => size,
        };
        let mut updates = Vec::new();
        for epoch in 0..self.learner.settings.epochs {
            for batch in self.order(epoch).chunks(size) {
                let counts: StepCounts = batch.iter().map(|&group| self.plans[group].counts).collect();
                if counts.groups == 0 {
                    continue;
                }
                let of_batch = |r: &&Planned| batch.contains(&r.group);
                let chosen: Vec<Planned> = responses.iter().filter(of_batch).cloned().collect();
                let factor = self.regularizer_factor(counts);
                let stats = self.pass(chosen, factor)?;
                updates.push(self.update(&stats, counts)?);
            }
        }
        Ok(updates)
    }

    /// Indices of the groups in the order of an epoch, from (seed, step, epoch) alone.
    fn order(&self, epoch: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.plans.len()).collect();
        if self.learner.settings.shuffle {
            let stream = Stream::GroupOrder { step: self.learner.steps, epoch: epoch as u64 };
            order.shuffle(&mut rng(self.learner.settings.seed, stream));
        }
        order
    }

    fn regularizer_factor(&self, counts: StepCounts) -> f64 {
        let policy = counts.scale(self.learner.settings.objective.aggregation);
        if policy == 0.0 { 1.0 } else { counts.scale(Aggregation::Token) / policy }
    }

    /// Forward and backward; gradients stay summed in the network.
    fn pass(&mut self, mut responses: Vec<Planned>, regularizer_factor: f64) -> Result<Vec<ResponseStats>> {
        if responses.is_empty() {
            return Ok(Vec::new());
        }
        self.trained += responses.len();
        let learner = &mut *self.learner;
        if learner.settings.old_logp == OldLogp::Behaviour {
            for response in &mut responses {
                response.old_logp = Some(response.at_scored(&response.behaviour_logp));
            }
        }
        learner.add_reference(&mut responses)?;
        let (cuts, packed) = learner.pack(&responses)?;
        let stats = Mutex::new(vec![ResponseStats::default(); responses.len()]);
        let loss = PolicyLoss {
            settings: &learner.settings.objective,
            regularizer_factor,
            responses: &responses,
            cuts: &cuts,
            stats: &stats,
        };
        let passed = learner.network.accumulate(&packed, learner.settings.temperature, &loss);
        self.broken = passed.is_err();
        passed?;
        Ok(stats.into_inner().expect("a thread that panicked would have panicked here"))
    }

    /// Applies the step's scalar to the summed gradient and updates; a loss or gradient that is not finite does not.
    fn update(&mut self, stats: &[ResponseStats], counts: StepCounts) -> Result<UpdateStats> {
        let learner = &mut *self.learner;
        let scale = counts.scale(learner.settings.objective.aggregation);
        // Nothing pulls: a gradient of zeros, which moves what the moments still carry, as if it had been computed.
        let gradients = match stats.is_empty() {
            false => learner.network.take_gradients()?,
            true => learner.network.parameters().values().iter().map(Tensor::zeros_like).collect::<Result<_, _>>()?,
        };
        learner.enter(Phase::Policy)?;
        let settings = &learner.settings.optimizer;
        let finite = stats.iter().all(|s| (s.policy.loss + s.kl.loss + s.entropy_loss).is_finite());
        let scale_or_poison = if finite { scale } else { f64::NAN };
        let report = learner.moments.update(settings, learner.network.parameters_mut(), &gradients, scale_or_poison)?;
        if report.skipped {
            tracing::warn!(step = learner.steps, grad_norm = report.grad_norm, finite_loss = finite, "update skipped");
        }
        Ok(UpdateStats::of(stats, scale, report))
    }
}
