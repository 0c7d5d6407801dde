//! Problems and notes that a dry run found.

use serde::Serialize;

/// What keeps a run from starting, and what the user should know before it does.
#[derive(Debug, Default, Serialize)]
pub(super) struct Findings {
    pub(super) problems: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Findings {
    pub(super) fn problem(&mut self, problem: impl ToString) {
        self.problems.push(problem.to_string());
    }

    pub(super) fn note(&mut self, note: impl ToString) {
        self.notes.push(note.to_string());
    }
}
