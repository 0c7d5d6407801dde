//! A run that starts from a step of another one, with other settings.

use std::path::{Path, PathBuf};

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::StepKind;
use serde::{Deserialize, Serialize};

use super::{EVALUATION_FILE, METRICS_FILE, MetricsFile, RunDirectory, RunRecord, WARM_START_FILE};
use crate::error::RunError;
use crate::recipe::ResolvedRecipe;

/// The step of another run from which a run starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkPoint {
    /// Name of the other run.
    pub run_id: String,
    /// GRPO steps that it had done.
    pub step: u64,
    /// Its directory.
    pub directory: PathBuf,
    /// Settings that differ from its own, as `section.key: theirs → ours`.
    #[serde(default)]
    pub changed: Vec<String>,
}

impl RunDirectory {
    /// Creates the directory of a run that starts from a step of another one. It inherits that run's lines of metrics up to the step, so
    /// that its curves are whole; the learner must have the checkpoint. Otherwise as [`create`](Self::create).
    ///
    /// # Errors
    /// As [`create`](Self::create); a run of the same name; a warm start of another length; lines that are missing.
    pub fn fork(path: &Path, recipe: &ResolvedRecipe, origin: ForkPoint) -> Result<Self, RunError> {
        let RunRecord { mut steps, warm_start, mut evaluations, .. } = RunRecord::read(&origin.directory)?;
        steps.retain(|line| line.step < origin.step);
        // Evaluations are of the weights after that many steps.
        evaluations.retain(|line| line.step <= origin.step);
        if steps.len() as u64 != origin.step {
            let message = format!("{METRICS_FILE} has {} lines before step {}", steps.len(), origin.step);
            return Err(RunError::directory(&origin.directory, message));
        }
        let (done, wanted) = (warm_start.len() as u64, recipe.settings.warm_start.steps);
        if done != wanted {
            let allowed = format!("{done}, the supervised steps that run `{}` did", origin.run_id);
            return Err(FieldError::new("warm_start.steps", wanted, allowed).into());
        }
        let mut directory = Self::create(path, recipe)?;
        if directory.run_id == origin.run_id {
            let allowed = "a name other than that of the run that it is forked from";
            return Err(FieldError::new("run.name", format_args!("`{}`", directory.run_id), allowed).into());
        }
        for (name, kind, lines) in [
            (METRICS_FILE, StepKind::Train, steps),
            (WARM_START_FILE, StepKind::WarmStart, warm_start),
            (EVALUATION_FILE, StepKind::Evaluation, evaluations),
        ] {
            let mut file = MetricsFile::open(directory.path(), name, kind)?;
            lines.iter().try_for_each(|line| file.append(line))?;
            file.sync()?;
        }
        directory.forked_from = Some(origin);
        Ok(directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::read_lines;
    use crate::metrics::MetricsLine;
    use crate::settings::LoopSettings;

    fn resolved(change: impl FnOnce(&mut LoopSettings)) -> ResolvedRecipe {
        let mut settings = LoopSettings::default();
        change(&mut settings);
        ResolvedRecipe::new(settings, PathBuf::from("model")).unwrap()
    }

    /// A run of five steps with an evaluation before each.
    fn origin(folder: &Path) -> ForkPoint {
        let directory = RunDirectory::create(&folder.join("old"), &resolved(|_| {})).unwrap();
        directory.start_run("").unwrap();
        for (name, kind) in [(METRICS_FILE, StepKind::Train), (EVALUATION_FILE, StepKind::Evaluation)] {
            let mut file = MetricsFile::open(directory.path(), name, kind).unwrap();
            (0..5).for_each(|step| file.append(&MetricsLine::new(kind, step, step)).unwrap());
        }
        let directory = directory.path().to_owned();
        ForkPoint { run_id: "old".to_owned(), step: 3, directory, changed: Vec::new() }
    }

    #[test]
    fn a_fork_inherits_the_lines_before_its_step_and_its_manifest_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let origin = origin(dir.path());
        let path = dir.path().join("new");
        let recipe = resolved(|settings| settings.sampling.top_k = 3);
        let directory = RunDirectory::fork(&path, &recipe, origin.clone()).unwrap();
        let steps = |name, kind| read_lines(&path.join(name), kind).unwrap().len();
        assert_eq!((steps(METRICS_FILE, StepKind::Train), steps(EVALUATION_FILE, StepKind::Evaluation)), (3, 4));
        directory.start_run(&recipe.toml).unwrap();
        drop(directory);
        let again = RunDirectory::resume(&path, &recipe.identity).unwrap();
        assert_eq!(again.forked_from(), Some(&origin));
    }

    #[test]
    fn a_fork_that_was_refused_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new");
        let directory = RunDirectory::fork(&path, &resolved(|_| {}), origin(dir.path())).unwrap();
        directory.discard();
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_be_forked_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let origin = origin(dir.path());
        let path = dir.path().join("new");
        let refused = |recipe: &ResolvedRecipe, origin: &ForkPoint| {
            let error = RunDirectory::fork(&path, recipe, origin.clone()).unwrap_err().to_string();
            assert!(!path.exists());
            error
        };
        let error = refused(&resolved(|settings| settings.warm_start.steps = 9), &origin);
        assert!(
            error.contains("warm_start.steps is 9, allowed: 0, the supervised steps that run `old` did"),
            "{error}"
        );
        let error = refused(&resolved(|settings| settings.run.name = "old".to_owned()), &origin);
        assert!(error.contains("run.name is `old`, allowed: a name other than"), "{error}");
        let error = refused(&resolved(|_| {}), &ForkPoint { step: 9, ..origin.clone() });
        assert!(error.contains("metrics.jsonl has 5 lines before step 9"), "{error}");
    }
}
