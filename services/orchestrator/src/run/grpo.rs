//! One GRPO step: sample, verify, feed the learner in data order, publish the new weights.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_proto::v1::{StepKind, TrainGroup, WeightsRef};
use evenkeel_proto::{Purpose, SamplingSettings};
use evenkeel_telemetry::TraceContext;

use super::journal::RunJournal;
use super::position::Position;
use super::prompt_record::prompt_line;
use super::proof::Proof;
use super::source_metrics::source_values;
use super::spans::record_step;
use super::step_metrics::{StepTimes, step_values};
use super::train_session::TrainSession;
use super::weight_sync::WeightSync;
use crate::clients::{Services, TrainFeed};
use crate::data::{PromptSampler, Prompts};
use crate::error::{Halt, RunError};
use crate::metrics::MetricsLine;
use crate::rollout::{
    GroupPlan, GroupSampling, RolloutContext, RolloutScheduler, RolloutSpec, SampledGroup, StepBatch, StepSelection,
    record_prompt,
};
use crate::settings::LoopSettings;

/// Does GRPO steps.
pub(super) struct GrpoTrainer {
    services: Arc<Services>,
    session: Arc<TrainSession>,
    weights: Arc<WeightSync>,
    proof: Arc<Proof>,
    sampler: StepSampler,
}

/// Samples the groups of a step.
struct StepSampler {
    rollouts: Arc<RolloutContext>,
    prompts: Arc<Prompts>,
    order: PromptSampler,
    settings: crate::settings::SamplingSettings,
    /// How each group is drawn.
    group: Arc<GroupSampling>,
    mask_truncated: bool,
    /// What its prompts count as in metrics by data source.
    data_sources: Vec<String>,
}

/// The sampled groups of a step, and when they were complete.
struct Sampled {
    batch: StepBatch,
    next_cursor: u64,
    last_rollout: Instant,
    last_verdict: Instant,
}

impl GrpoTrainer {
    pub(super) fn new(
        services: Arc<Services>,
        session: Arc<TrainSession>,
        weights: Arc<WeightSync>,
        proof: Arc<Proof>,
        rollouts: Arc<RolloutContext>,
        prompts: Arc<Prompts>,
        settings: &LoopSettings,
    ) -> Self {
        let weights_of_sources: Vec<f64> = prompts.sources.iter().map(|source| source.weight).collect();
        let (seed, shuffle) = (settings.run.seed, settings.data.shuffle);
        let sampler = StepSampler {
            rollouts,
            order: PromptSampler::new(prompts.sources_of_train(), &weights_of_sources, seed, shuffle),
            data_sources: prompts.data_sources(),
            prompts,
            settings: settings.sampling.clone(),
            group: Arc::new(group_sampling(&settings.sampling)),
            mask_truncated: settings.shaping.mask_truncated,
        };
        Self { services, session, weights, proof, sampler }
    }

    /// Does the next step and moves the position past it; its line is written then. Returns the weights that the engines now have.
    #[tracing::instrument(name = "step", skip_all, fields(step = position.step()))]
    pub(super) async fn step(
        &mut self,
        position: &mut Position,
        weights: &WeightsRef,
        journal: &mut RunJournal,
    ) -> Result<WeightsRef, Halt> {
        let trace = self.session.trace(position.step());
        trace.scope(self.step_within(trace, position, weights, journal)).await
    }

    async fn step_within(
        &mut self,
        trace: TraceContext,
        position: &mut Position,
        weights: &WeightsRef,
        journal: &mut RunJournal,
    ) -> Result<WeightsRef, Halt> {
        let (began, step) = (Instant::now(), position.step());
        let what = format!("step {step}");
        let events = self.services.events();
        events.at_step(step, position.warm_start_steps());
        let feed = self.session.open_step(position);
        let (sampled, report) = tokio::try_join!(
            self.sampler.sample(position, weights, &feed, &self.weights),
            self.session.train(&feed, &what)
        )?;
        let reported = Instant::now();

        // Engines first: the line includes what the whole step took.
        let weights = self.weights.publish(report.version).await?;
        let times = StepTimes {
            generation: sampled.last_rollout.saturating_duration_since(began),
            reward: sampled.last_verdict.saturating_duration_since(sampled.last_rollout),
            update_actor: reported.saturating_duration_since(sampled.last_verdict),
            update_weights: reported.elapsed(),
            step: Duration::ZERO,
        };
        let proof = self.proof.after_step(&weights, step + 1).await?;
        let times = StepTimes { step: began.elapsed(), ..times };
        let mut line = MetricsLine::new(StepKind::Train, step, report.version);
        step_values(&mut line, &sampled.batch, &report, self.sampler.order.epoch_of(position.cursor()), times);
        source_values(&mut line, &self.sampler.data_sources, &sampled.batch.groups);
        proof.iter().for_each(|proof| proof.add_to(&mut line));
        journal.append_prompts(&prompt_line(step, sampled.next_cursor, &sampled.batch, &report)).await?;
        journal.append(&line).await?;
        times.record();
        sampled.batch.record();
        let run_id = self.session.run_id();
        sampled.batch.groups.iter().for_each(|group| record_prompt(run_id, group, Some(trace)));
        sampled.batch.dropped.iter().for_each(|group| record_prompt(run_id, group, None));
        record_step(run_id, step, report.version, trace, times);
        position.finish_step(sampled.next_cursor, report.version);
        events.at_step(position.step(), position.warm_start_steps());
        journal.announce(line);
        Ok(weights)
    }
}

impl StepSampler {
    /// Samples until the step is full. Groups go to the feed as soon as they are next in data order.
    async fn sample(
        &mut self,
        position: &Position,
        weights: &WeightsRef,
        feed: &TrainFeed,
        engines: &WeightSync,
    ) -> Result<Sampled, Halt> {
        let (step, cursor) = (position.step(), position.cursor());
        let target = u64::from(self.settings.prompts_per_step);
        let mut selection = StepSelection::new(self.settings.dynamic, target, self.settings.prompts_limit(), cursor);
        let mut scheduler = RolloutScheduler::new(Arc::clone(&self.rollouts), spec(weights));
        let mut started = 0;
        // Engines that sleep share the learner's memory: it gets the groups once they do.
        let mut held: Vec<TrainGroup> = Vec::new();
        while !selection.is_full() {
            while started < selection.prompts_needed() {
                scheduler.add(self.plan(step, cursor + started));
                started += 1;
            }
            let group = scheduler.next_group().await?;
            let released = selection.add(group).into_iter();
            let released = released.map(|(index, group)| group.to_train(index, self.mask_truncated));
            if engines.engines_sleep() { held.extend(released) } else { released.for_each(|group| feed.push(group)) }
        }
        scheduler.check_late(&format!("step {step}"))?;
        let (batch, next_cursor) = selection.finish();
        let mut samples = batch.groups.iter().flat_map(SampledGroup::samples);
        if !samples.any(|sample| sample.rewards().is_some()) {
            return Err(RunError::NoSamples { step, last: scheduler.last_failure().to_owned() }.into());
        }
        scheduler.check_invalid(&format!("step {step}"))?;
        engines.sleep().await?;
        held.into_iter().for_each(|group| feed.push(group));
        // Only now, after every check: without its end the learner keeps nothing of a step.
        feed.close();
        Ok(Sampled { batch, next_cursor, last_rollout: scheduler.last_rollout(), last_verdict: Instant::now() })
    }

    fn plan(&mut self, step: u64, number: u64) -> GroupPlan {
        GroupPlan::new(Purpose::Train, step, number, &self.prompts.train[self.order.at(number)], &self.group)
    }
}

fn spec(weights: &WeightsRef) -> RolloutSpec {
    RolloutSpec { weights: Some(weights.clone()), for_training: true }
}

fn group_sampling(settings: &crate::settings::SamplingSettings) -> GroupSampling {
    let sampling = SamplingSettings {
        temperature: settings.temperature,
        top_p: settings.top_p,
        top_k: settings.top_k,
        min_p: settings.min_p,
        min_tokens: settings.min_tokens,
        stop_token_ids: settings.stop_token_ids.clone(),
        ..SamplingSettings::plain(settings.max_tokens, 0)
    };
    GroupSampling { settings: sampling, samples: settings.group_size }
}
