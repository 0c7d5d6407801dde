//! An arm of a task as it is planned, and the warm start that it begins with.

use crate::recipes::ComparedSettings;
use crate::run::Arm;

/// Settings that decide nothing before the first GRPO step: arms that differ in these alone share their warm start.
const AFTER_WARM_START: &[&str] = &[
    "run.steps",
    "sampling.",
    "shaping.",
    "evaluation.every",
    "learner.objective.",
    "learner.optimizer.",
    "learner.epochs",
    "learner.mini_batch_groups",
    "learner.old_logp",
    "pipeline.",
];

/// A task and an arm with their settings.
#[derive(Debug, Clone)]
pub struct PlannedArm {
    /// Name of the task.
    pub task: String,
    pub arm: Arm,
    /// The recipe of the task.
    pub recipe: String,
    /// Settings of the run with the seed 0.
    pub settings: ComparedSettings,
}

impl PlannedArm {
    /// The task and the arm, for messages.
    pub fn name(&self) -> String {
        format!("{}{}", self.prefix(), self.arm.label())
    }

    pub(super) fn prefix(&self) -> String {
        format!("{}: ", self.task)
    }

    /// The varied settings that a warm start depends on: arms with the same ones share it.
    pub fn warm_start(&self) -> Arm {
        let before = |key: &String| !AFTER_WARM_START.iter().any(|after| key.starts_with(after));
        Arm(self.arm.0.iter().filter(|(key, _)| before(key)).map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}
