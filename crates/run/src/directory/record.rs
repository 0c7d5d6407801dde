//! What the directory of a run holds, for those who look at runs afterwards.

use std::path::{Path, PathBuf};

use evenkeel_config::Loader;
use evenkeel_data::DataReport;
use evenkeel_proto::v1::StepKind;

use super::{ForkOrigin, RunDirectory, RunManifest};
use crate::error::RunFilesError;
use crate::layout::{DATA_FILE, EVALUATION_FILE, METRICS_FILE, WARM_START_FILE};
use crate::lines::read_lines;
use crate::metrics::MetricsLine;
use crate::whole_file::optional_json;

/// A run that is over, or as far as it is. Nothing is locked.
#[derive(Debug, Clone)]
pub struct RunRecord {
    pub path: PathBuf,
    /// Name of the run.
    pub run_id: String,
    /// Version and bits of the program that started it, as [`PROGRAM`](crate::PROGRAM) has them.
    pub program_version: String,
    /// Origin of a fork.
    pub forked_from: Option<ForkOrigin>,
    /// The lines of supervised steps.
    pub warm_start: Vec<MetricsLine>,
    /// The lines of GRPO steps.
    pub steps: Vec<MetricsLine>,
    /// The lines of evaluations.
    pub evaluations: Vec<MetricsLine>,
    /// Report on the rows of the run's data.
    pub data: Option<DataReport>,
}

impl RunRecord {
    /// Reads a directory.
    ///
    /// # Errors
    /// A directory without a run; files that cannot be read.
    pub fn read(path: &Path) -> Result<Self, RunFilesError> {
        let path = std::fs::canonicalize(path).map_err(RunFilesError::file(path))?;
        let Some(RunManifest { run_id, program_version, forked_from, .. }) = RunManifest::read(&path)? else {
            return Err(RunFilesError::directory(&path, "holds no run (there is no run.json)"));
        };
        let lines = |name: &str, kind| read_lines(&path.join(name), kind);
        Ok(Self {
            run_id,
            program_version,
            forked_from,
            warm_start: lines(WARM_START_FILE, StepKind::WarmStart)?,
            steps: lines(METRICS_FILE, StepKind::Train)?,
            evaluations: lines(EVALUATION_FILE, StepKind::Evaluation)?,
            data: read_data(&path),
            path,
        })
    }

    /// A loader with its settings.
    ///
    /// # Errors
    /// As [`RunDirectory::settings_of`].
    pub fn settings(&self) -> Result<Loader, RunFilesError> {
        RunDirectory::settings_of(&self.path)
    }
}

/// The report on the rows of a run's data, if the directory has one.
pub fn read_data(directory: &Path) -> Option<DataReport> {
    serde_json::from_value(optional_json(&directory.join(DATA_FILE)).ok()??).ok()
}
