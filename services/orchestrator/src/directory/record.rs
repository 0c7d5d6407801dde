//! What the directory of a run holds, for those who look at runs afterwards.

use std::path::{Path, PathBuf};

use evenkeel_config::Loader;
use evenkeel_proto::v1::StepKind;
use evenkeel_tasks::DataReport;

use super::files::optional_json;
use super::{
    DATA_FILE, EVALUATION_FILE, ForkOrigin, METRICS_FILE, RunDirectory, RunManifest, WARM_START_FILE, read_lines,
    read_prompts,
};
use crate::audit::Audit;
use crate::error::RunError;
use crate::metrics::MetricsLine;

/// A run that is over, or as far as it is. Nothing is locked.
#[derive(Debug, Clone)]
pub struct RunRecord {
    /// The directory.
    pub path: PathBuf,
    /// Name of the run.
    pub run_id: String,
    /// Version of the program that started it.
    pub program_version: String,
    /// Where it began, if not at the start.
    pub forked_from: Option<ForkOrigin>,
    /// The lines of supervised steps.
    pub warm_start: Vec<MetricsLine>,
    /// The lines of GRPO steps.
    pub steps: Vec<MetricsLine>,
    /// The lines of evaluations.
    pub evaluations: Vec<MetricsLine>,
    /// What became of the rows of its data.
    pub data: Option<DataReport>,
}

impl RunRecord {
    /// Reads a directory.
    ///
    /// # Errors
    /// A directory without a run; files that cannot be read.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let path = std::fs::canonicalize(path).map_err(RunError::file(path))?;
        let Some(RunManifest { run_id, program_version, forked_from, .. }) = RunManifest::read(&path)? else {
            return Err(RunError::directory(&path, "holds no run (there is no run.json)"));
        };
        let lines = |name: &str, kind| read_lines(&path.join(name), kind);
        let data = optional_json(&path.join(DATA_FILE))?;
        Ok(Self {
            run_id,
            program_version,
            forked_from,
            warm_start: lines(WARM_START_FILE, StepKind::WarmStart)?,
            steps: lines(METRICS_FILE, StepKind::Train)?,
            evaluations: lines(EVALUATION_FILE, StepKind::Evaluation)?,
            data: data.and_then(|json| serde_json::from_value(json).ok()),
            path,
        })
    }

    /// Whether each prompt of its data order was trained on, filtered for a stated reason or invalid, exactly once.
    ///
    /// # Errors
    /// A file that cannot be read or has other lines.
    pub fn audit(&self) -> Result<Audit, RunError> {
        Ok(Audit::of(&read_prompts(&self.path)?, self.steps.len() as u64))
    }

    /// A loader with its settings.
    ///
    /// # Errors
    /// As [`RunDirectory::settings_of`].
    pub fn settings(&self) -> Result<Loader, RunError> {
        RunDirectory::settings_of(&self.path)
    }
}
