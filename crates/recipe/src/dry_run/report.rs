//! What a dry run found.

use serde::Serialize;

use super::cost::Costs;
use super::findings::Findings;
use super::memory::Memory;
use super::model::ModelFacts;
use super::sets::DataFacts;
use super::time::{MeasuredTimes, RunTime};
use crate::recipe::Recipe;

/// Whether a run can start, and what it takes. As JSON it is what `--dry-run --json` prints.
#[derive(Debug, Serialize)]
pub struct DryRunReport {
    pub(super) recipe: String,
    /// The aggregation rule, which a recipe that is put over another may have changed.
    pub(super) aggregation: String,
    /// Whether there is no problem.
    pub can_start: bool,
    pub(super) steps: u64,
    pub(super) prompts_per_step: u32,
    pub(super) group_size: u32,
    pub(super) model: ModelFacts,
    pub(super) data: DataFacts,
    /// Absent where the shape of the model is unknown.
    pub(super) costs: Option<Costs>,
    /// Absent where the shape of the model is unknown.
    pub(super) memory: Option<Memory>,
    pub(super) time: RunTime,
    #[serde(flatten)]
    pub(super) findings: Findings,
}

impl DryRunReport {
    /// What keeps the run from starting.
    pub fn problems(&self) -> &[String] {
        &self.findings.problems
    }

    /// How long the run will take, by what a trial of it has measured, or why nothing was measured.
    pub fn timed(&mut self, recipe: &Recipe, measured: Result<MeasuredTimes, String>) {
        self.time = match (measured, &self.costs) {
            (Ok(measured), Some(costs)) => {
                let evaluated = costs.evaluation_at_half.as_ref().map_or(0, |cost| cost.samples);
                RunTime::of(recipe, &measured, costs.evaluations, evaluated)
            }
            (Ok(_), None) => return,
            (Err(why), _) => RunTime::unknown(why),
        };
    }

    /// How long the run will take, where that is known.
    pub fn time(&self) -> &RunTime {
        &self.time
    }

    /// The floating-point operations of a step, where the shape of the model is known.
    pub fn step_flops(&self) -> Option<f64> {
        let step = &self.costs.as_ref()?.step_at_most;
        Some(step.generation_flops + step.scoring_flops + step.training_flops)
    }

    /// What is worth knowing before the run starts.
    pub fn notes(&self) -> &[String] {
        &self.findings.notes
    }
}
