//! Runs as their files tell them, for those who look at them from outside: of another process, or of none.

use std::path::Path;

use evenkeel_proto::Label;
use evenkeel_proto::v1::RunState;

use crate::directory::{RunManifest, RunOverview, is_locked};
use crate::error::RunError;
use crate::settings::RunSettings;
use crate::summary::{Summary, WrittenLines, accuracy};

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
    let RunManifest { run_id, forked_from, .. } = manifest.ok_or_else(missing)?;
    let stored = Summary::read(directory);
    let planned = Planned::of(config);
    let state = state.unwrap_or_else(|| stored_state(directory, stored.as_ref()));
    let versions = stored.map(|stored| stored.versions).unwrap_or_default();
    let rule = planned.aggregation.as_deref();
    Ok(Summary { forked_from, ..Summary::of(&run_id, &planned.run, rule, state, written, &versions) })
}

/// The state of a run of another process: what its summary says, but active only while a process has its directory.
pub(crate) fn stored_state(directory: &Path, summary: Option<&Summary>) -> RunState {
    let said = summary.and_then(|summary| RunState::from_label(&summary.state));
    let has_ended = matches!(said, Some(RunState::Completed | RunState::Stopped | RunState::Failed));
    match (is_locked(directory), said) {
        // Its summary is written with its first checkpoint; one that was resumed has that of the time before.
        (true, said) => said.filter(|_| !has_ended).unwrap_or(RunState::Training),
        (false, Some(state)) if has_ended => state,
        // Its process ended before it could write how.
        (false, _) => RunState::Stopped,
    }
}

/// What a configuration says about a run, without the settings of services that are not known here.
pub(crate) struct Planned {
    pub(crate) run: RunSettings,
    pub(crate) aggregation: Option<String>,
}

impl Planned {
    /// Of `config.toml`; what it does not say is as by default.
    pub(crate) fn of(config: &str) -> Self {
        let table: toml::Table = config.parse().unwrap_or_default();
        let run = table.get("run").cloned().and_then(|run| run.try_into().ok()).unwrap_or_default();
        let objective = table.get("learner").and_then(|learner| learner.get("objective"));
        let aggregation = objective.and_then(|objective| objective.get("aggregation")).and_then(toml::Value::as_str);
        Self { run, aggregation: aggregation.map(str::to_owned) }
    }
}

impl RunOverview {
    /// The label of its state.
    pub fn state(&self) -> &'static str {
        stored_state(&self.path, Summary::read(&self.path).as_ref()).label()
    }

    /// GRPO steps to do in all.
    pub fn total_steps(&self) -> u64 {
        Planned::of(&self.config).run.steps
    }

    /// The rule by which token terms are summed, where its settings name it.
    pub fn aggregation(&self) -> Option<String> {
        Planned::of(&self.config).aggregation
    }

    /// Mean raw reward of the last step.
    pub fn reward(&self) -> Option<f64> {
        self.last_step.as_ref()?.get("critic/score/mean")
    }

    /// The accuracy of the last evaluation.
    pub fn accuracy(&self) -> Option<f64> {
        accuracy(self.last_evaluation.as_ref()?)
    }
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
        let planned =
            Planned::of("[run]\nsteps = 7\n[learner.objective]\naggregation = \"token\"\n[engine]\nthreads = 2\n");
        assert_eq!((planned.run.steps, planned.aggregation.as_deref()), (7, Some("token")));
        assert_eq!(Planned::of("no toml").run, RunSettings::default());
    }
}
