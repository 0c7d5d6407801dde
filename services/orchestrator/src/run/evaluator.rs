//! Evaluation on problems that are never trained on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use evenkeel_proto::v1::{RunState, StepKind, WeightsRef};
use evenkeel_proto::{Purpose, SamplingSettings};

use super::evaluation_metrics::evaluation_values;
use super::journal::RunJournal;
use super::position::Position;
use crate::clients::Services;
use crate::data::Prompts;
use crate::error::Halt;
use crate::instruments::{self, Phase};
use crate::metrics::MetricsLine;
use crate::rollout::{GroupPlan, RolloutContext, RolloutScheduler, RolloutSpec};
use crate::settings::EvaluationSettings;
use crate::settings::LoopSettings;

/// Evaluates the policy on held-out problems.
pub(super) struct Evaluator {
    services: Arc<Services>,
    rollouts: Arc<RolloutContext>,
    prompts: Arc<Prompts>,
    settings: EvaluationSettings,
    sampling: SamplingSettings,
    total_steps: u64,
}

impl Evaluator {
    pub(super) fn new(
        services: Arc<Services>,
        rollouts: Arc<RolloutContext>,
        prompts: Arc<Prompts>,
        run: &LoopSettings,
    ) -> Self {
        let settings = run.evaluation.clone();
        let sampling = SamplingSettings {
            temperature: settings.temperature,
            top_p: settings.top_p,
            stop_token_ids: run.sampling.stop_token_ids.clone(),
            ..SamplingSettings::plain(run.sampling.max_tokens, 0)
        };
        Self { services, rollouts, prompts, settings, sampling, total_steps: run.run.steps }
    }

    /// Evaluates where it is due and not done yet: before the first step, after the last, and every so many.
    pub(super) async fn run_if_due(
        &self,
        position: &Position,
        weights: &WeightsRef,
        journal: &mut RunJournal,
    ) -> Result<(), Halt> {
        if !self.is_due(position.step()) || journal.has_evaluation(position.step()) {
            return Ok(());
        }
        let events = self.services.events();
        events.at_step(position.step(), position.warm_start_steps());
        events.enter_phase(RunState::Evaluating);
        let line = self.evaluate(position.step(), weights).await?;
        journal.append(&line).await?;
        journal.announce(line);
        Ok(())
    }

    fn is_due(&self, step: u64) -> bool {
        let settings = &self.settings;
        let due = (settings.before && step == 0)
            || (settings.after && step == self.total_steps)
            || (settings.every > 0 && step > 0 && step.is_multiple_of(settings.every));
        due && settings.problems > 0 && !self.prompts.held_out.is_empty()
    }

    #[tracing::instrument(name = "evaluation", skip(self, weights))]
    async fn evaluate(&self, step: u64, weights: &WeightsRef) -> Result<MetricsLine, Halt> {
        let (began, settings) = (Instant::now(), &self.settings);
        let spec = RolloutSpec {
            sampling: self.sampling.clone(),
            group_size: settings.samples,
            weights: weights.clone(),
            for_training: false,
        };
        let mut scheduler = RolloutScheduler::new(Arc::clone(&self.rollouts), spec);
        let problems = self.prompts.held_out.iter().take(settings.problems as usize);
        let mut count = 0;
        for (number, prompt) in (0..).zip(problems) {
            scheduler.add(GroupPlan::new(Purpose::Eval, step, number, prompt));
            count += 1;
        }
        let mut groups = BTreeMap::new();
        while groups.len() < count {
            let group = scheduler.next_group().await?;
            groups.insert(group.number(), group);
        }
        scheduler.check_late(&format!("evaluation at step {step}"))?;
        scheduler.check_invalid(&format!("evaluation at step {step}"))?;
        let groups: Vec<_> = groups.into_values().collect();
        let mut line = MetricsLine::new(StepKind::Evaluation, step, weights.version);
        evaluation_values(&mut line, &self.prompts.name, settings.samples, &groups, began.elapsed());
        instruments::phase(Phase::Evaluation, began.elapsed());
        Ok(line)
    }
}
