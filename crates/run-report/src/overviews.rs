//! The runs of a folder, each in a line.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use evenkeel_proto::v1::{RunState, StepKind};
use evenkeel_run::{
    CONFIG_FILE, EVALUATION_FILE, METRICS_FILE, MetricsLine, Quantity, RUN_FILE, RunFilesError, RunManifest, RunPlan,
    Summary, headline,
};

use crate::quantity::in_words;
use crate::stored::stored_state;

/// Bytes at the end of a file of metrics in which the last lines are looked for.
const END: u64 = 128 << 10;
/// Bytes of `config.toml` that are read.
const MAX_CONFIG: u64 = 1 << 20;

/// What a line about a run says, read from the ends of its files.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOverview {
    /// Name of its directory within the folder.
    pub name: String,
    pub path: PathBuf,
    /// Name of the run.
    pub run_id: String,
    pub steps: u64,
    /// State of the run when its files were read.
    pub state: RunState,
    /// GRPO steps to do in all.
    pub total_steps: u64,
    /// The rule by which token terms are summed, where the run's recipe names one.
    pub aggregation: Option<String>,
    /// Settings of the run, as they are written.
    pub config: String,
    pub last_step: Option<MetricsLine>,
    pub last_evaluation: Option<MetricsLine>,
    /// When its metrics were written last, or the run was started.
    pub modified: Option<SystemTime>,
}

impl RunOverview {
    /// Mean raw reward of the last step.
    pub fn reward(&self) -> Option<f64> {
        self.last_step.as_ref()?.get("critic/score/mean")
    }

    /// The accuracy of the last evaluation, or its mean reward.
    pub fn evaluated(&self) -> Option<(Quantity, f64)> {
        headline(self.last_evaluation.as_ref()?)
    }

    /// The result of the last evaluation in words; a mean reward is called one.
    pub fn evaluated_in_words(&self) -> Option<String> {
        let (quantity, value) = self.evaluated()?;
        let value = in_words(quantity, value, None);
        Some(if quantity == Quantity::Accuracy { value } else { format!("{} {value}", quantity.words()) })
    }
}

/// A directory that is skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedDirectory {
    /// Name within the folder.
    pub name: String,
    pub reason: String,
}

/// Why a directory is skipped.
#[derive(Debug, thiserror::Error)]
enum SkipReason {
    /// A file that cannot be read.
    #[error(transparent)]
    Unreadable(#[from] RunFilesError),
    /// The directory has no manifest.
    #[error("holds no run (there is no run.json)")]
    NoRun,
    /// A file of other lines than metrics.
    #[error("{} has no line of metrics that can be read", .0.display())]
    NoMetrics(PathBuf),
}

/// The runs of a folder, the newest first, and the directories in it that hold none or one that cannot be read.
///
/// # Errors
/// A folder that cannot be read.
pub fn overviews(folder: &Path) -> Result<(Vec<RunOverview>, Vec<SkippedDirectory>), RunFilesError> {
    let entries = std::fs::read_dir(folder).map_err(RunFilesError::file(folder))?;
    let mut runs = Vec::new();
    let mut skipped = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        match overview(&name, entry.path()) {
            Ok(run) => runs.push(run),
            Err(reason) => skipped.push(SkippedDirectory { name, reason: reason.to_string() }),
        }
    }
    runs.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.name.cmp(&b.name)));
    skipped.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((runs, skipped))
}

fn overview(name: &str, path: PathBuf) -> Result<RunOverview, SkipReason> {
    let manifest = RunManifest::read(&path)?.ok_or(SkipReason::NoRun)?;
    let last_step = last_line(&path.join(METRICS_FILE), StepKind::Train)?;
    let last_evaluation = last_line(&path.join(EVALUATION_FILE), StepKind::Evaluation)?;
    let modified = |name: &str| std::fs::metadata(path.join(name)).and_then(|data| data.modified()).ok();
    let summary = Summary::read(&path);
    let config = config(&path);
    Ok(RunOverview {
        name: name.to_owned(),
        run_id: manifest.run_id,
        steps: last_step.as_ref().map_or(0, |line| line.step),
        state: stored_state(&path, summary.as_ref()),
        total_steps: RunPlan::of(&config).steps,
        aggregation: manifest.aggregation,
        config,
        modified: modified(METRICS_FILE).or_else(|| modified(RUN_FILE)),
        last_step,
        last_evaluation,
        path,
    })
}

fn config(directory: &Path) -> String {
    let mut text = String::new();
    let read = File::open(directory.join(CONFIG_FILE)).and_then(|file| file.take(MAX_CONFIG).read_to_string(&mut text));
    if read.is_err() {
        text.clear();
    }
    text
}

/// The last complete line of a file; none where there is no file.
fn last_line(path: &Path, kind: StepKind) -> Result<Option<MetricsLine>, SkipReason> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(END)))?;
        let mut bytes = Vec::new();
        file.take(END).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = match read() {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(RunFilesError::file(path)(error).into()),
    };
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let last = lines.rev().find_map(|line| MetricsLine::from_json(kind, std::str::from_utf8(line).ok()?));
    match last {
        None if !bytes.is_empty() && bytes.ends_with(b"\n") => Err(SkipReason::NoMetrics(path.to_owned())),
        last => Ok(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_and_half_written_directories_are_named_and_the_others_listed() {
        let dir = tempfile::tempdir().unwrap();
        let write = |run: &str, name: &str, text: &str| {
            std::fs::create_dir_all(dir.path().join(run)).unwrap();
            std::fs::write(dir.path().join(run).join(name), text).unwrap();
        };
        let manifest = |run: &str| RunManifest::new(run, "sha256:0", None, Some("balanced".to_owned()));
        for run in ["whole", "begun", "broken"] {
            std::fs::create_dir_all(dir.path().join(run)).unwrap();
            manifest(run).write(&dir.path().join(run)).unwrap();
        }
        let line = |step| MetricsLine::new(StepKind::Train, step, step).to_json();
        write("whole", METRICS_FILE, &format!("{}\n{}\n{{\"half", line(1), line(2)));
        write("whole", CONFIG_FILE, "[run]\nsteps = 5\n");
        write("broken", METRICS_FILE, "{\"loss\": 1}\n");
        write("foreign", "thesis.tex", "");
        write("torn", "run.json", "{\"format\":");
        std::fs::write(dir.path().join("file"), "").unwrap();
        let (runs, skipped) = overviews(dir.path()).unwrap();
        let mut found: Vec<_> = runs.iter().map(|run| (run.name.as_str(), run.steps)).collect();
        found.sort_unstable();
        assert_eq!(found, [("begun", 0), ("whole", 2)]);
        assert_eq!(runs[0].aggregation.as_deref(), Some("balanced"));
        let names: Vec<_> = skipped.iter().map(|skipped| skipped.name.as_str()).collect();
        assert_eq!(names, ["broken", "foreign", "torn"]);
        assert!(skipped[0].reason.contains("no line of metrics") && skipped[1].reason.contains("no run.json"));
        assert!(overviews(&dir.path().join("nowhere")).is_err());
    }
}
