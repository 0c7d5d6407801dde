//! A run that has finished no step: there is nothing to continue, and its directory may be used again.

use std::path::Path;

use evenkeel_proto::v1::StepKind;

use super::{ForkOrigin, RunManifest};
use crate::error::RunFilesError;
use crate::layout::{INCOMPLETE_FILE, METRICS_FILE, RUN_FILE, WARM_START_FILE};
use crate::lines::read_lines;

/// Whether the run of a directory has finished a step of its own; a fork inherits others.
///
/// # Errors
/// Lines or a manifest that cannot be read.
pub fn has_finished_step(path: &Path) -> Result<bool, RunFilesError> {
    let Some(RunManifest { forked_from, .. }) = RunManifest::read(path)? else { return Ok(false) };
    if let Some(ForkOrigin { step, .. }) = forked_from {
        return Ok(read_lines(&path.join(METRICS_FILE), StepKind::Train)?.iter().any(|line| line.step > step));
    }
    let has_lines = |name: &&str| std::fs::metadata(path.join(name)).is_ok_and(|file| file.len() > 0);
    Ok([METRICS_FILE, WARM_START_FILE].iter().any(has_lines))
}

/// Refuses a directory whose run has finished a step.
pub(super) fn refuse_finished_steps(path: &Path) -> Result<(), RunFilesError> {
    match RunManifest::read(path)? {
        Some(RunManifest { run_id, .. }) if has_finished_step(path)? => {
            let message =
                format!("holds run `{run_id}` already, allowed: an empty or a new directory (or resume that run)");
            Err(RunFilesError::directory(path, message))
        }
        _ => Ok(()),
    }
}

/// Makes the directory of a run without a finished step an incomplete one, which the next run clears but for
/// the judge's record.
pub(super) fn give_up_unfinished(path: &Path) -> Result<(), RunFilesError> {
    let manifest = path.join(RUN_FILE);
    if manifest.exists() {
        // First: what is left of a removal that is interrupted stays one that may be cleared.
        let incomplete = path.join(INCOMPLETE_FILE);
        std::fs::write(&incomplete, "").map_err(RunFilesError::file(&incomplete))?;
        std::fs::remove_file(&manifest).map_err(RunFilesError::file(&manifest))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::RunDirectory;
    use super::super::test_recipe::{TestRecipe, begin};
    use super::*;
    use crate::layout::JUDGE_FILE;

    fn create(path: &Path) -> Result<RunDirectory, RunFilesError> {
        RunDirectory::create(path, TestRecipe::new(&[]).record())
    }

    #[test]
    fn a_directory_is_used_again_until_its_run_has_finished_a_step() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        begin(&create(&path).unwrap());
        // An evaluation before the first step, and a model that was made for the run.
        std::fs::write(path.join("evaluation.jsonl"), "{}\n").unwrap();
        std::fs::create_dir(path.join("model")).unwrap();
        assert!(!has_finished_step(&path).unwrap());
        let again = create(&path).unwrap();
        assert!(!path.join("evaluation.jsonl").exists() && !path.join("model").exists(), "what was there is gone");
        begin(&again);
        drop(again);
        for name in [METRICS_FILE, WARM_START_FILE] {
            std::fs::write(path.join(name), "{}\n").unwrap();
            assert!(has_finished_step(&path).unwrap());
            let error = create(&path).unwrap_err().to_string();
            assert!(error.contains("holds run `run` already"), "{error}");
            std::fs::write(path.join(name), "").unwrap();
        }
    }

    #[test]
    fn verdicts_of_a_judge_survive_whatever_clears_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        begin(&create(&path).unwrap());
        let record = path.join(JUDGE_FILE);
        let has_verdicts = || std::fs::read_to_string(&record).is_ok_and(|text| text == "{}\n");
        std::fs::write(&record, "{}\n").unwrap();
        let again = create(&path).unwrap();
        assert!(has_verdicts(), "the first step is tried again");
        again.discard();
        assert!(has_verdicts() && !path.join(INCOMPLETE_FILE).exists(), "the second try was refused");
        drop(create(&path).unwrap());
        assert!(has_verdicts(), "the third never started");
        std::fs::write(&record, "").unwrap();
        drop(create(&path).unwrap());
        assert!(!path.exists(), "a record without verdicts is nothing");
    }
}
