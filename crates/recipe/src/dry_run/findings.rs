//! Problems and notes that a dry run found.

use serde::Serialize;

/// What keeps a run from starting, and what the user should know before it does.
#[derive(Debug, Default, Serialize)]
pub(super) struct Findings {
    pub(super) problems: Vec<String>,
    pub(super) notes: Vec<String>,
    /// Whether a problem is one of a data file, so that the data as a whole cannot be read.
    #[serde(skip)]
    pub(super) is_data_incomplete: bool,
}

impl Findings {
    pub(super) fn problem(&mut self, problem: impl ToString) {
        self.problems.push(problem.to_string());
    }

    /// A problem of a data file.
    pub(super) fn data_problem(&mut self, problem: impl ToString) {
        self.is_data_incomplete = true;
        self.problem(problem);
    }

    pub(super) fn note(&mut self, note: impl ToString) {
        self.notes.push(note.to_string());
    }
}
