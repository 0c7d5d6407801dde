//! What a dry run found.

use serde::Serialize;

use super::cost::Costs;
use super::findings::Findings;
use super::memory::Memory;
use super::model::ModelFacts;
use super::sets::DataFacts;

/// Whether a run can start, and what it takes. As JSON it is what `--dry-run --json` prints.
#[derive(Debug, Serialize)]
pub struct DryRunReport {
    pub(super) recipe: String,
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
    #[serde(flatten)]
    pub(super) findings: Findings,
}

impl DryRunReport {
    /// What keeps the run from starting.
    pub fn problems(&self) -> &[String] {
        &self.findings.problems
    }

    /// What is worth knowing before the run starts.
    pub fn notes(&self) -> &[String] {
        &self.findings.notes
    }
}
