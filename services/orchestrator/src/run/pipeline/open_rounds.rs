//! The steps that are being sampled, whose later rounds begin with later weights.

use std::sync::Arc;

use evenkeel_proto::v1::WeightsRef;

use super::plan::VersionPlan;
use crate::rollout::Rounds;

/// The rounds of the steps that are being sampled.
pub(super) struct OpenRounds {
    plan: VersionPlan,
    /// By step, in order.
    steps: Vec<(u64, Arc<Rounds>)>,
}

impl OpenRounds {
    pub(super) fn new(plan: VersionPlan) -> Self {
        Self { plan, steps: Vec::new() }
    }

    /// A step begins, whose first round is of the weights after `weights_step` steps, as others of its rounds may be.
    pub(super) fn add(&mut self, step: u64, rounds: Arc<Rounds>, weights_step: u64, reference: &WeightsRef) {
        self.steps.retain(|(_, rounds)| !rounds.is_over());
        self.open(step, &rounds, weights_step, reference);
        self.steps.push((step, rounds));
    }

    /// The engines are on their way to the weights after `weights_step` steps: all rounds that are theirs begin.
    pub(super) fn begin(&mut self, weights_step: u64, reference: &WeightsRef) {
        self.steps.iter().for_each(|(step, rounds)| self.open(*step, rounds, weights_step, reference));
    }

    /// Waits until every sample of the rounds that have begun has begun them.
    pub(super) async fn all_begun(&self) {
        for (_, rounds) in &self.steps {
            rounds.all_begun().await;
        }
    }

    fn open(&self, step: u64, rounds: &Rounds, weights_step: u64, reference: &WeightsRef) {
        let is_next =
            |round: usize| round < self.plan.rounds() && self.plan.weights_of_round(step, round) == weights_step;
        while is_next(rounds.begun()) {
            rounds.open(reference);
        }
    }
}
