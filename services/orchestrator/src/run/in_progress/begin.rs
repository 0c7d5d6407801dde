//! What the loop's actions begin.

use std::time::Duration;

use evenkeel_proto::v1::{PauseMode, RunState, TrainReport};
use tracing::Instrument;

use super::InProgress;
use crate::error::Halt;
use crate::rollout::SampleKey;
use crate::run::position::Position;
use crate::run::state::{ClosedStep, EpisodeId, Next};
use crate::run::step_groups::StepGroups;
use crate::run::step_lengths::StepLengths;
use crate::run::step_metrics::{StepTimes, Waits};
use crate::run::step_writer::FinishedStep;
use crate::settings::StepOrder;

impl<'a> InProgress<'a> {
    /// A step begins to be sampled.
    pub(in crate::run) fn begin_step(&mut self, step: u64, version: u64, first_prompt: u64, base_version: u64) {
        let events = self.parts.services.events();
        events.begin_samples();
        if self.samples_ahead && !self.parts.services.stop().is_requested() {
            events.enter_phase(RunState::Training);
        }
        let waited = std::mem::take(&mut self.idle) + self.idle_since.map(|since| since.elapsed()).unwrap_or_default();
        self.idle_since = None;
        let feed = self.parts.session.open_step(step, base_version);
        let audit = self.parts.sampler.audit(step, first_prompt);
        let sleep = self.parts.weights.engines_sleep();
        let span = tracing::info_span!("step", step);
        self.steps.insert(step, StepGroups::new(feed, span, version, waited, audit, self.parts.sampler.kept(), sleep));
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
    pub(in crate::run) fn take(&mut self, step: u64, prompt: u64, index: u32) {
        let group = self.finished.remove(&prompt);
        if let Some(groups) = self.steps.get_mut(&step) {
            groups.take(group, prompt, index, self.parts.sampler.masks_truncated());
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

    /// The step has all its groups: it is checked, and the rest of it goes to the learner.
    pub(in crate::run) fn close(&mut self, closed: ClosedStep) -> Result<(), Halt> {
        let step = closed.step;
        let sampler = self.parts.sampler;
        let Some(groups) = self.steps.get_mut(&step) else { return Ok(()) };
        let lengths = (self.order == StepOrder::Completion)
            .then(|| StepLengths::new(&groups.batch.groups, self.finished.values(), &self.rollouts, closed.overtaken));
        groups.close(closed, sampler.settings().dynamic, lengths);
        sampler.check(step, &groups.batch)?;
        self.spawn_within(step, self.parts.end_sampling(step));
        Ok(())
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
        let (Some(groups), Some((_, reported))) = (self.steps.get(&step), &self.report) else {
            return self.defect("weights are published of a step that is not trained");
        };
        let also_keep = needed.into_iter().collect();
        let work = self.parts.publish(step, version, also_keep, *reported, groups.feed.clone());
        self.spawn_within(step, work);
    }

    /// Everything that was sent to the generation service is accepted first.
    pub(in crate::run) fn settle(&mut self) {
        self.work.push(Box::pin(self.parts.settle()));
    }

    /// The engines get weights, which are proven.
    pub(in crate::run) fn update_engines(&mut self, version: u64, of_step: u64) {
        let Some((reference, published_in)) = self.weights.get(&version).cloned() else {
            return self.defect("engines get weights that are not published");
        };
        let in_flight = match self.order {
            StepOrder::Data => PauseMode::Unspecified,
            StepOrder::Completion => PauseMode::Keep,
        };
        let update = self.parts.weights.begin_update(&reference, in_flight);
        let earlier = Some(of_step).filter(|step| *step < self.first_step);
        let work = self.parts.update_engines(update, reference, earlier, published_in);
        // It belongs to the step that made the weights.
        let is_of_step = std::mem::replace(&mut self.has_updated, true) && of_step > 0;
        match is_of_step {
            true => self.work.push(Box::pin(self.parts.session.trace(of_step).scope(work))),
            false => self.work.push(Box::pin(work)),
        }
    }

    /// The weights of a step are evaluated.
    pub(in crate::run) fn evaluate(&mut self, version: u64, step: u64) {
        match self.weights.get(&version) {
            Some((reference, _)) => self.work.push(Box::pin(self.parts.evaluate(step, reference.clone()))),
            None => self.defect("weights are evaluated that are not published"),
        }
    }

    /// The line of a step is written.
    pub(in crate::run) fn record(&mut self, step: u64, position: &Position) {
        let (Some(groups), Some((report, reported))) = (self.steps.remove(&step), self.report.take()) else {
            return self.defect("a step is recorded that is not trained");
        };
        let version = groups.version;
        let began = self.began;
        let state = position.state();
        // Without a lag the engines have got the weights of the step itself.
        let shown = if self.samples_ahead { version } else { state.version_of(step) };
        let published_in = self.weights.get(&state.version_of(step));
        let updated = self.updates.get(&shown).cloned();
        let published_in = published_in.map(|(_, took)| *took).unwrap_or_default();
        // Later steps are of this version or of a later one.
        self.updates = self.updates.split_off(&shown);
        let updated_in =
            updated.as_ref().filter(|_| !self.samples_ahead).map(|updated| updated.took).unwrap_or_default();
        let not_begun = groups.began.saturating_duration_since(began);
        let sampling_waited = groups.waited;
        let Some(sampled) = groups.into_sampled(|prompt| self.parts.sampler.epoch_of(prompt)) else {
            return self.defect("a step is recorded that is not full");
        };
        let last_rollout = sampled.last_rollout.max(began);
        let last_verdict = sampled.last_verdict.max(began);
        let times = StepTimes {
            generation: last_rollout - began,
            reward: last_verdict.saturating_duration_since(last_rollout),
            update_actor: reported.saturating_duration_since(last_verdict),
            update_weights: published_in + updated_in,
            step: began.elapsed(),
            environment_idle: self.rollouts.take_environment_idle(),
        };
        let oldest = sampled.batch.oldest_version().unwrap_or(version);
        let waits = Waits {
            lag: report.base_version.saturating_sub(oldest),
            learner: not_begun + idle(&report),
            sampling: sampling_waited,
        };
        let proof = updated.and_then(|updated| updated.proof);
        let says_waits = self.samples_ahead;
        let finished = FinishedStep { sampled, report, times, proof, waits, says_waits };
        self.spawn_within(step, self.parts.record(step, finished, position.warm_start_steps()));
    }

    /// A checkpoint is written where it is due.
    pub(in crate::run) fn keep(&mut self, next: Next, position: &Position) {
        self.forget_weights(position);
        match self.weights.get(&position.version()) {
            Some((weights, _)) => self.work.push(Box::pin(self.parts.keep(next, position.clone(), weights.clone()))),
            None => self.defect("a checkpoint is written of weights that are not published"),
        }
    }
}

/// How long the learner had nothing to do in a step.
fn idle(report: &TrainReport) -> Duration {
    let timings = report.timings.unwrap_or_default();
    let busy = timings.score_us + timings.gradient_us + timings.optimizer_us;
    Duration::from_micros(timings.total_us.saturating_sub(busy))
}
