//! What the files of a run say about it, for those who look at it from outside: another process, or after its own has ended.

use std::path::Path;

use evenkeel_proto::v1::RunState;
use serde::Deserialize;

use crate::directory::{RunManifest, SUMMARY_FILE, is_locked};
use crate::error::RunError;
use crate::inputs::accepted_changes;
use crate::labelled::Labelled;
use crate::settings::RunSettings;
use crate::summary::{Summary, WrittenLines};

/// The results of a run as far as its files have them. `state` is that of a run of this process.
///
/// # Errors
/// A directory without a run.
pub(crate) fn stored_summary(
    directory: &Path,
    config: &str,
    state: Option<RunState>,
    written: &WrittenLines<'_>,
) -> Result<Summary, RunError> {
    let manifest = RunManifest::read(directory)?;
    let missing = || RunError::directory(directory, "holds no run (there is no run.json)");
    let RunManifest { run_id, forked_from, aggregation, .. } = manifest.ok_or_else(missing)?;
    let stored = Summary::read(directory);
    let aggregation = aggregation.or_else(|| stored.as_ref()?.aggregation.clone());
    let state = state.unwrap_or_else(|| stored_state(directory, stored.as_ref()));
    let versions = stored.map(|stored| stored.versions).unwrap_or_default();
    let summary = Summary::of(&run_id, &run_settings(config), aggregation.as_deref(), state, written, &versions);
    Ok(Summary { forked_from, accepted_changes: accepted_changes(directory), ..summary })
}

/// The state of a run of another process: what its summary says, but active only while a process has its directory.
pub(crate) fn stored_state(directory: &Path, summary: Option<&Summary>) -> RunState {
    let said = summary.and_then(|summary| summary.state.known());
    match (is_locked(directory), said) {
        // Its summary is written with its first checkpoint; one that was resumed has that of the time before.
        (true, said) => said.filter(|state| !state.has_ended()).unwrap_or(RunState::Training),
        (false, Some(state)) if state.has_ended() => state,
        // Its process ended before it could write how.
        (false, _) => RunState::Stopped,
    }
}

/// Whether the summary of a run says that it has done all of its steps, and that they are as many as these.
pub fn did_all_steps(directory: &Path, steps: u64) -> bool {
    #[derive(Deserialize)]
    struct Done {
        state: Labelled<RunState>,
        steps: u64,
    }
    let text = evenkeel_files::read(&directory.join(SUMMARY_FILE), u64::MAX).ok();
    let done = text.and_then(|text| serde_json::from_slice::<Done>(&text).ok());
    done.is_some_and(|done| done.state.known() == Some(RunState::Completed) && done.steps == steps)
}

/// The section `run` of `config.toml`, whose other sections may be those of services that are not known here. What it does not say is as by
/// default.
pub(crate) fn run_settings(config: &str) -> RunSettings {
    let mut table: toml::Table = config.parse().unwrap_or_default();
    table.remove("run").and_then(|run| run.try_into().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Curves;

    #[test]
    fn a_run_whose_process_has_exited_has_stopped_whatever_its_summary_says() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(stored_state(dir.path(), None), RunState::Stopped);
        let written = WrittenLines { steps: &Curves::default(), warm_start: &Curves::default(), evaluations: &[] };
        let of = |state| Summary::of("a", &RunSettings::default(), None, state, &written, &Default::default());
        assert_eq!(stored_state(dir.path(), Some(&of(RunState::Training))), RunState::Stopped);
        assert_eq!(stored_state(dir.path(), Some(&of(RunState::Failed))), RunState::Failed);
        assert!(stored_summary(dir.path(), "", None, &written).unwrap_err().to_string().contains("holds no run"));
    }

    #[test]
    fn a_configuration_is_read_without_the_settings_of_other_services() {
        assert_eq!(run_settings("[run]\nsteps = 7\n[engine]\nthreads = 2\n").steps, 7);
        assert_eq!(run_settings("no toml"), RunSettings::default());
    }

    #[test]
    fn the_rule_of_a_run_without_one_in_its_manifest_is_that_of_its_summary() {
        let dir = tempfile::tempdir().unwrap();
        let written = WrittenLines { steps: &Curves::default(), warm_start: &Curves::default(), evaluations: &[] };
        let of = || stored_summary(dir.path(), "", None, &written).unwrap().aggregation;
        RunManifest::new("a", "sha256:0", None, None).write(dir.path()).unwrap();
        assert_eq!(of(), None);
        let rule = Some("token");
        let summary =
            Summary::of("a", &RunSettings::default(), rule, RunState::Training, &written, &Default::default());
        std::fs::write(dir.path().join(SUMMARY_FILE), serde_json::to_string(&summary).unwrap()).unwrap();
        assert_eq!(of().as_deref(), rule);
        RunManifest::new("a", "sha256:0", None, Some("balanced".to_owned())).write(dir.path()).unwrap();
        assert_eq!(of().as_deref(), Some("balanced"));
    }
}
