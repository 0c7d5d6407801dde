//! `report.html`: a self-contained page with every curve of a run.

mod benchmarks;
mod chart;
mod html;
mod page;
mod panels;
mod scale;

use std::path::Path;

use evenkeel_proto::v1::StepKind;

use crate::directory::{EVALUATION_FILE, METRICS_FILE, WARM_START_FILE, read_lines};
use crate::error::RunError;
use crate::summary::Summary;

pub(crate) use page::page;

/// The report of a run directory, from its files.
///
/// # Errors
/// A directory without `summary.json`; files that cannot be read.
pub fn render(directory: &Path) -> Result<String, RunError> {
    let path = directory.join("summary.json");
    let text = std::fs::read_to_string(&path).map_err(RunError::file(&path))?;
    let summary: Summary = serde_json::from_str(&text).map_err(|error| {
        RunError::directory(directory, format!("summary.json was not written by this program: {error}"))
    })?;
    let config = std::fs::read_to_string(directory.join("config.toml")).unwrap_or_default();
    let lines = |name, kind| read_lines(&directory.join(name), kind);
    let metrics = lines(METRICS_FILE, StepKind::Train)?;
    let warm_start = lines(WARM_START_FILE, StepKind::WarmStart)?;
    let evaluations = lines(EVALUATION_FILE, StepKind::Evaluation)?;
    Ok(page(&summary, &config, &metrics, &warm_start, &evaluations))
}
