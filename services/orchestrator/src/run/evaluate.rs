//! Evaluation on problems that are never trained on.

use std::collections::BTreeMap;
use std::time::Instant;

use evenkeel_proto::v1::{RunState, StepKind, WeightsRef};
use evenkeel_proto::{Purpose, SamplingSettings};

use super::drive::Driver;
use super::position::Position;
use crate::error::Halt;
use crate::events::Event;
use crate::metrics::{Line, evaluation_values};
use crate::rollout::{Pump, plan};

impl Driver {
    /// Evaluates where it is due and not done: before the first step, after the last, and every so many.
    pub(super) async fn evaluate_if_due(&mut self, position: &Position, weights: &WeightsRef) -> Result<(), Halt> {
        let (settings, step) = (&self.recipe.evaluation, position.step);
        let due = (settings.before && step == 0)
            || (settings.after && step == self.recipe.run.steps)
            || (settings.every > 0 && step > 0 && step.is_multiple_of(settings.every));
        let none = settings.problems == 0 || self.prompts.held_out.is_empty();
        if !due || none || self.evaluations.has(step) {
            return Ok(());
        }
        self.tell_position(position);
        self.events.enter(RunState::Evaluating);
        let line = self.evaluate(step, weights).await?;
        let (path, lines) = (self.evaluations.path().to_owned(), &mut self.evaluations);
        self.services.retrier.write(&path, || lines.append(&line)).await?;
        self.events.emit(Event::Line(line));
        Ok(())
    }

    async fn evaluate(&self, step: u64, weights: &WeightsRef) -> Result<Line, Halt> {
        let began = Instant::now();
        let settings = &self.recipe.evaluation;
        let sampling = SamplingSettings {
            temperature: settings.temperature,
            top_p: settings.top_p,
            stop_token_ids: self.recipe.sampling.stop_token_ids.clone(),
            ..SamplingSettings::plain(self.recipe.sampling.max_tokens, 0)
        };
        let mut pump = Pump::new(self.pump_settings(sampling, settings.samples, weights, false));
        let problems = self.prompts.held_out.iter().take(settings.problems as usize);
        let mut count = 0;
        for (place, prompt) in (0..).zip(problems) {
            pump.add(plan(Purpose::Eval, step, place, prompt));
            count += 1;
        }
        let mut groups = BTreeMap::new();
        while groups.len() < count {
            let group = pump.next().await?;
            groups.insert(group.plan.id.prompt, group);
        }
        pump.check_late(&format!("evaluation at step {step}"))?;
        let groups: Vec<_> = groups.into_values().collect();
        let mut line = Line::new(StepKind::Evaluation, step, weights.version);
        evaluation_values(&mut line, &self.prompts.source, settings.samples, &groups, began.elapsed());
        Ok(line)
    }
}
