//! What the loop's actions begin, but for what engines do (`engines.rs`).

use evenkeel_proto::v1::RunState;
use tracing::Instrument;

use super::InProgress;
use crate::error::{Halt, RunError};
use crate::rollout::SampleKey;
use crate::run::position::Position;
use crate::run::state::{BegunStep, ClosedStep, EpisodeId, Next};
use crate::run::step_groups::StepGroups;
use crate::run::step_lengths::StepLengths;
use crate::settings::StepOrder;

impl<'a> InProgress<'a> {
    /// A step begins to be sampled.
    pub(in crate::run) fn begin_step(&mut self, begun: BegunStep, base_version: u64) {
        let BegunStep { step, version, first_prompt, is_audited } = begun;
        let events = self.parts.services.events();
        events.begin_samples();
        if self.samples_ahead && !self.parts.services.stop().is_requested() {
            events.enter_phase(RunState::Training);
        }
        let feed = self.parts.session.open_step(step, base_version);
        let audit = self.parts.sampler.audit(step, first_prompt, is_audited);
        let span = tracing::info_span!("step", step);
        self.clock.begin_sampling(step, version);
        self.steps.insert(step, StepGroups::new(feed, span, audit, self.parts.sampler.kept()));
    }

    /// A prompt becomes a group of episodes.
    pub(in crate::run) fn start_group(&mut self, step: u64, prompt: u64) {
        let span = self.steps.last_key_value().map_or_else(tracing::Span::current, |(_, groups)| groups.span.clone());
        self.rollouts.add(self.parts.sampler.request(step, prompt), span);
    }

    /// The next segment of an episode is sampled.
    pub(in crate::run) fn sample(&mut self, episode: EpisodeId, version: Option<u64>, is_last: bool) {
        let weights = version.and_then(|version| self.weights.get(&version)).map(|(weights, _)| weights.clone());
        self.rollouts.sample(SampleKey { group: episode.prompt, sample: episode.sample }, weights, is_last);
    }

    /// The step takes a finished group.
    pub(in crate::run) fn take(&mut self, step: u64, prompt: u64, index: u32, is_held: bool) {
        let group = self.finished.remove(&prompt);
        if let Some(groups) = self.steps.get_mut(&step) {
            groups.take(group, prompt, index, self.parts.sampler.masks_truncated(), is_held);
        }
    }

    /// The step leaves a finished group out.
    pub(in crate::run) fn leave_out(&mut self, step: u64, prompt: u64) {
        if let (Some(mut group), Some(groups)) = (self.finished.remove(&prompt), self.steps.get_mut(&step)) {
            if self.order == StepOrder::Completion && !self.parts.sampler.kept().tokens {
                group.forget_tokens();
            }
            groups.leave_out(group);
        }
    }

    /// The step has all its groups: it is checked, and engines sleep where they do while the learner trains.
    pub(in crate::run) fn close(&mut self, closed: ClosedStep) -> Result<(), Halt> {
        let step = closed.step;
        let sampler = self.parts.sampler;
        let Some(groups) = self.steps.get_mut(&step) else { return Ok(()) };
        let lengths = (self.order == StepOrder::Completion)
            .then(|| StepLengths::new(&groups.batch.groups, self.finished.values(), &self.rollouts, closed.overtaken));
        groups.close(closed, sampler.settings().dynamic, lengths);
        match sampler.check(step, &groups.batch) {
            // The verdicts that a judge's budget denied. Such a step is given up, and earlier ones are still kept.
            Err(RunError::Invalid { .. } | RunError::NoSamples { .. })
                if self.parts.services.stop().used_budget().is_some() => {}
            Err(error) => return Err(error.into()),
            Ok(()) => self.spawn_within(step, self.parts.end_sampling(step)),
        }
        Ok(())
    }

    /// The samples of a step that its audit has chosen are scored.
    pub(in crate::run) fn audit(&mut self, step: u64) {
        match self.steps.get_mut(&step).and_then(StepGroups::take_audited) {
            Some(scoring) => self.spawn_within(step, self.parts.audit(step, scoring)),
            None => self.defect("a step is audited twice, or without samples"),
        }
    }

    /// The learner gets the groups of a step that are held.
    pub(in crate::run) fn release(&mut self, step: u64) {
        if let Some(groups) = self.steps.get_mut(&step) {
            groups.release();
        }
    }

    /// The learner has all groups of a step.
    pub(in crate::run) fn end_step(&mut self, step: u64) -> Result<(), Halt> {
        self.steps.get_mut(&step).map_or(Ok(()), StepGroups::end)
    }

    /// The learner trains on a step.
    pub(in crate::run) fn train(&mut self, step: u64) {
        let Some(groups) = self.steps.get(&step) else { return self.defect("a step is trained that has not begun") };
        let work = self.parts.train(step, groups.feed.clone()).instrument(groups.span.clone());
        let trace = self.parts.session.trace(step);
        self.training = Some(Box::pin(trace.scope(work)));
    }

    /// The learner publishes the weights of a step.
    pub(in crate::run) fn publish(&mut self, version: u64, step: u64, needed: Vec<u64>) {
        let Some(groups) = self.steps.get(&step).filter(|_| self.report.is_some()) else {
            return self.defect("weights are published of a step that is not trained");
        };
        let also_keep = needed.into_iter().collect();
        let work = self.parts.publish(step, version, also_keep, self.clock.reported(), groups.feed.clone());
        self.spawn_within(step, work);
    }

    /// The line of a step is written.
    pub(in crate::run) fn record(&mut self, step: u64, position: &Position) {
        let Some((groups, report)) = self.steps.remove(&step).zip(self.report.take()) else {
            return self.defect("a step is recorded that is not trained");
        };
        let made = position.state().version_of(step);
        let Some((weights, published_in)) = self.weights.get(&made).cloned() else {
            return self.defect("a step is recorded whose weights are not published");
        };
        let Some(sampled) = groups.into_sampled(|prompt| self.parts.sampler.epoch_of(prompt)) else {
            return self.defect("a step is recorded that is not full");
        };
        let environment_idle = self.rollouts.take_environment_idle();
        match self.clock.finish(step, sampled, report, made, published_in, environment_idle) {
            Some(mut finished) => {
                finished.weights = weights.digest;
                self.spawn_within(step, self.parts.record(step, finished, position.warm_start_steps()));
            }
            None => self.defect("a step is recorded that has not begun"),
        }
    }

    /// A checkpoint is written where it is due.
    pub(in crate::run) fn keep(&mut self, next: Next, position: &Position) {
        self.forget_weights(position);
        match self.weights.get(&position.version()) {
            Some((weights, _)) => {
                // Without a lag a checkpoint is of a whole step: the samples of the next one have just begun.
                let kept = if self.samples_ahead { position.clone() } else { position.at_rest() };
                self.work.push(Box::pin(self.parts.keep(next, kept, weights.clone())));
            }
            None => self.defect("a checkpoint is written of weights that are not published"),
        }
    }
}
