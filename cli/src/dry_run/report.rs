//! What a dry run found.

use serde::Serialize;

use super::cost::Costs;
use super::findings::Findings;
use super::memory::Memory;
use super::model::ModelFacts;
use super::sets::DataFacts;
use crate::recipe::Recipe;

/// Everything; `--json` prints it as it is.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) recipe: String,
    /// Whether there is no problem.
    pub(super) can_start: bool,
    pub(super) steps: u64,
    pub(super) prompts_per_step: u32,
    pub(super) group_size: u32,
    pub(super) model: ModelFacts,
    pub(super) data: DataFacts,
    /// Absent where the shape of the model is unknown.
    pub(super) costs: Option<Costs>,
    /// Absent where the shape of the model is unknown.
    pub(super) memory: Option<Memory>,
    #[serde(flatten)]
    pub(super) findings: Findings,
}

impl Report {
    pub(super) fn new(
        recipe: &Recipe,
        name: &str,
        model: ModelFacts,
        data: DataFacts,
        costs: Option<Costs>,
        memory: Option<Memory>,
        findings: Findings,
    ) -> Self {
        Self {
            recipe: name.to_owned(),
            can_start: findings.problems.is_empty(),
            steps: recipe.run.steps,
            prompts_per_step: recipe.sampling.prompts_per_step,
            group_size: recipe.sampling.group_size,
            model,
            data,
            costs,
            memory,
            findings,
        }
    }
}
