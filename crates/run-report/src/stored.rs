//! What the files of a run say about it, for those who look at it from outside: another process, or after its own has
//! ended.

use std::path::Path;

use evenkeel_proto::v1::RunState;
use evenkeel_run::{RunFilesError, RunManifest, RunPlan, Summary, WrittenLines, accepted_changes, is_locked};

/// The results of a run as far as its files have them. `state` is that of a run of this process.
///
/// # Errors
/// A directory without a run.
pub fn stored_summary(
    directory: &Path,
    config: &str,
    state: Option<RunState>,
    written: &WrittenLines<'_>,
) -> Result<Summary, RunFilesError> {
    let manifest = RunManifest::read(directory)?;
    let missing = || RunFilesError::directory(directory, "holds no run (there is no run.json)");
    let RunManifest { run_id, forked_from, aggregation, .. } = manifest.ok_or_else(missing)?;
    let stored = Summary::read(directory);
    let state = state.unwrap_or_else(|| stored_state(directory, stored.as_ref()));
    let (versions, objective, changed_settings) =
        stored.map(|stored| (stored.versions, stored.objective, stored.changed_settings)).unwrap_or_default();
    let summary = Summary::of(&run_id, RunPlan::of(config), aggregation.as_deref(), state, written, &versions);
    let accepted_changes = accepted_changes(directory);
    Ok(Summary { objective, forked_from, accepted_changes, changed_settings, ..summary })
}

/// The state of a run of another process: what its summary says, but active only while a process has its directory.
pub fn stored_state(directory: &Path, summary: Option<&Summary>) -> RunState {
    let said = summary.and_then(|summary| summary.state.known());
    match (is_locked(directory), said) {
        // A summary is written with the first checkpoint; a resumed run has the one from before.
        (true, said) => said.filter(|state| !state.has_ended()).unwrap_or(RunState::Training),
        (false, Some(state)) if state.has_ended() => state,
        // The process ended before it could write how.
        (false, _) => RunState::Stopped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_run::Curves;

    #[test]
    fn a_run_whose_process_has_exited_has_stopped_whatever_its_summary_says() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(stored_state(dir.path(), None), RunState::Stopped);
        let written = WrittenLines { steps: &Curves::default(), warm_start: &Curves::default(), evaluations: &[] };
        let summary = |state| Summary::of("a", RunPlan::default(), None, state, &written, &Default::default());
        assert_eq!(stored_state(dir.path(), Some(&summary(RunState::Training))), RunState::Stopped);
        assert_eq!(stored_state(dir.path(), Some(&summary(RunState::Failed))), RunState::Failed);
        assert!(stored_summary(dir.path(), "", None, &written).unwrap_err().to_string().contains("holds no run"));
    }
}
