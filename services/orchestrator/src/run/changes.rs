//! Changes of what a run reads: refused, or taken down where they are of the user's own code or somebody accepts them.

use std::path::{Path, PathBuf};

use crate::error::RunError;

/// What becomes of changes between the two parts of a run.
#[derive(Debug)]
pub(super) struct ChangeGate {
    directory: PathBuf,
    accepts: bool,
    accepted: Vec<String>,
}

impl ChangeGate {
    /// For a run in that directory; `accepts` is what its user says.
    pub(super) fn new(directory: &Path, accepts: bool) -> Self {
        Self { directory: directory.to_owned(), accepts, accepted: Vec::new() }
    }

    /// Refuses changes, a sentence each, or takes them down.
    ///
    /// # Errors
    /// The changes, unless there are none or they are accepted.
    pub(super) fn admit(&mut self, changes: Vec<String>) -> Result<(), RunError> {
        if changes.is_empty() || self.accepts {
            self.accepted.extend(changes);
            return Ok(());
        }
        let message = format!(
            "inputs of the run have changed since it began: {}. Restore them, start another run from this one \
             (--from), or accept the change with --accept-changed-inputs (StartRun: accept_changed_inputs), which the \
             run then records",
            changes.join("; ")
        );
        Err(RunError::directory(&self.directory, message))
    }

    /// Takes down changes that need nobody's consent: those of code of the user's own.
    pub(super) fn take_down(&mut self, changes: Vec<String>) {
        self.accepted.extend(changes);
    }

    /// The changes that were accepted since the last call.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.accepted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_refused_unless_it_is_accepted_and_then_it_is_taken_down_once() {
        let changes = || vec!["data file /x has 1, it had 2".to_owned()];
        let mut gate = ChangeGate::new(Path::new("/runs/a"), false);
        gate.admit(Vec::new()).unwrap();
        let error = gate.admit(changes()).unwrap_err().to_string();
        assert!(error.starts_with(
            "run directory /runs/a: inputs of the run have changed since it began: data file /x has 1, it had 2. "
        ));
        assert!(error.contains("--accept-changed-inputs") && gate.take().is_empty());
        let mut gate = ChangeGate::new(Path::new("/runs/a"), true);
        gate.admit(changes()).unwrap();
        assert_eq!((gate.take(), gate.take()), (changes(), Vec::new()));
    }
}
