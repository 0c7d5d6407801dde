//! One GRPO step: sample, verify, feed the learner in data order, publish, switch.

use std::time::Instant;

use evenkeel_proto::v1::{StepKind, TrainHeader, TrainKind, WeightsRef};
use evenkeel_proto::{Purpose, SamplingSettings};
use evenkeel_telemetry::TraceContext;

use super::drive::Driver;
use super::position::Position;
use crate::clients::Feed;
use crate::error::{Halt, RunError};
use crate::events::Event;
use crate::metrics::{Line, StepTimes, step_values};
use crate::rollout::{Pump, PumpSettings, Selection, Shaping, StepBatch, plan};

/// What sampling a step came to.
struct Sampled {
    batch: StepBatch,
    next_cursor: u64,
    last_rollout: Instant,
    last_verdict: Instant,
}

impl Driver {
    /// Does the next step and moves the position behind it; the line is on the disk then. Returns the weights that engines now have.
    pub(super) async fn step(&mut self, position: &mut Position, weights: &WeightsRef) -> Result<WeightsRef, Halt> {
        let (began, step) = (Instant::now(), position.step);
        self.tell_position(position);
        let trace = TraceContext::for_id(self.directory.run_id(), &format!("step/{step}"));
        let feed = Feed::new(TrainHeader {
            run_id: self.directory.run_id().to_owned(),
            step,
            base_version: position.version,
            expected_groups: self.recipe.sampling.prompts_per_step,
            settings_hash: self.hash(),
            kind: TrainKind::Grpo.into(),
            traceparent: trace.to_string(),
            seed: self.recipe.run.seed,
            ..TrainHeader::default()
        });
        // Each only borrows the driver, so that the order is taken out for as long as prompts are drawn from it.
        let mut order = self.order.clone();
        let what = format!("step {step}");
        let (sampled, report) = tokio::try_join!(
            self.sample(position, weights, &mut order, &feed),
            trace.scope(self.services.train(&feed, &what))
        )?;
        let epoch = order.epoch_of(position.cursor);
        self.order = order;
        let reported = Instant::now();

        // Engines first: the line says what the whole step took.
        let weights = self.switch(report.version).await?;
        let times = StepTimes {
            generation: sampled.last_rollout.saturating_duration_since(began),
            reward: sampled.last_verdict.saturating_duration_since(sampled.last_rollout),
            update_actor: reported.saturating_duration_since(sampled.last_verdict),
            update_weights: reported.elapsed(),
            step: began.elapsed(),
        };
        let mut line = Line::new(StepKind::Train, step, report.version);
        step_values(&mut line, &sampled.batch, &report, epoch, times);
        let (path, lines) = (self.metrics.path().to_owned(), &mut self.metrics);
        self.services.retrier.write(&path, || lines.append(&line)).await?;
        (position.step, position.cursor, position.version) = (step + 1, sampled.next_cursor, report.version);
        self.tell_position(position);
        self.events.emit(Event::Line(line));
        Ok(weights)
    }

    /// Samples until the step is full; groups go to the feed as soon as they are next in data order.
    async fn sample(
        &self,
        position: &Position,
        weights: &WeightsRef,
        order: &mut crate::data::Order,
        feed: &Feed,
    ) -> Result<Sampled, Halt> {
        let sampling = &self.recipe.sampling;
        let wanted = u64::from(sampling.prompts_per_step);
        let mut selection = Selection::new(sampling.dynamic, wanted, sampling.prompts_limit(), position.cursor);
        let mut pump = Pump::new(self.pump_settings(self.sampling(), sampling.group_size, weights, true));
        let mut launched = 0;
        let mask = self.recipe.shaping.mask_truncated;
        // The learner needs the memory of engines that are to sleep with the first group.
        let (rests, mut held) = (self.engines_rest(), Vec::new());
        while !selection.is_full() {
            while launched < selection.to_launch() {
                let place = position.cursor + launched;
                pump.add(plan(Purpose::Train, position.step, place, &self.prompts.train[order.at(place)]));
                launched += 1;
            }
            let group = pump.next().await?;
            let ended = selection.end(group).into_iter().map(|(index, group)| group.to_train(index, mask));
            if rests { held.extend(ended) } else { ended.for_each(|group| feed.push(group)) }
        }
        pump.check_late(&format!("step {}", position.step))?;
        let (batch, next_cursor) = selection.finish();
        let some_valid = batch.groups.iter().flat_map(|group| &group.samples).any(|sample| sample.rewards().is_some());
        if !some_valid {
            return Err(RunError::NoSamples { step: position.step, last: pump.last_failure().to_owned() }.into());
        }
        self.rest_engines().await?;
        held.into_iter().for_each(|group| feed.push(group));
        // Not before: without its end the learner keeps nothing of a step.
        feed.close();
        Ok(Sampled { batch, next_cursor, last_rollout: pump.last_rollout(), last_verdict: Instant::now() })
    }

    fn sampling(&self) -> SamplingSettings {
        let sampling = &self.recipe.sampling;
        SamplingSettings {
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            top_k: sampling.top_k,
            min_p: sampling.min_p,
            min_tokens: sampling.min_tokens,
            stop_token_ids: sampling.stop_token_ids.clone(),
            ..SamplingSettings::plain(sampling.max_tokens, 0)
        }
    }

    pub(super) fn pump_settings<'a>(
        &'a self,
        sampling: SamplingSettings,
        group_size: u32,
        weights: &'a WeightsRef,
        trained: bool,
    ) -> PumpSettings<'a> {
        PumpSettings {
            services: &self.services,
            tokenizer: &self.tokenizer,
            run_id: self.directory.run_id(),
            run_seed: self.recipe.run.seed,
            group_size,
            sampling,
            weights,
            vocabulary_size: self.vocabulary_size,
            shaping: Shaping::new(&self.recipe.shaping, &self.recipe.sampling),
            trained,
        }
    }
}
