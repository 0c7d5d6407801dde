//! What a terminal asks for: where a run is, and its lines from a step on.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use evenkeel_proto::Label;
use evenkeel_proto::v1::RunState;
use evenkeel_run::{CONFIG_FILE, EVALUATION_FILE, Labelled, METRICS_FILE, RunFilesError, RunPlan, Summary};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::stored::stored_state;

/// Lines of each kind in an answer; a reader asks again for the others.
const MAX_LINES: usize = 200;

/// The lines that a reader has already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LineCursor {
    pub steps: usize,
    pub evaluations: usize,
}

/// Where a run is, and what it wrote since.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunUpdate {
    pub state: Labelled<RunState>,
    /// Current activity, in words.
    pub doing: String,
    /// GRPO steps to do in all.
    pub total_steps: u64,
    /// Lines of GRPO steps, as they are written.
    pub steps: Vec<Box<RawValue>>,
    pub evaluations: Vec<Box<RawValue>>,
    /// Where the next lines begin.
    pub next: LineCursor,
}

/// Where a run is: its state, what is being done, and how many steps there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whereabouts {
    pub state: RunState,
    /// What is being done, in words.
    pub doing: String,
    /// GRPO steps to do in all.
    pub total_steps: u64,
}

impl Whereabouts {
    /// What the files of a run say. Blocks.
    pub fn stored(directory: &Path) -> Self {
        let config = std::fs::read_to_string(directory.join(CONFIG_FILE)).unwrap_or_default();
        let state = stored_state(directory, Summary::read(directory).as_ref());
        Self { state, doing: state.label().to_owned(), total_steps: RunPlan::of(&config).steps }
    }
}

/// What the files of a run have beyond the lines that a reader has. Blocks.
///
/// # Errors
/// Files that cannot be read.
pub fn run_update(directory: &Path, at: Whereabouts, since: LineCursor) -> Result<RunUpdate, RunFilesError> {
    let Whereabouts { state, doing, total_steps } = at;
    let lines =
        |name: &str, from| lines(&directory.join(name), from).map_err(RunFilesError::file(directory.join(name)));
    let (steps, steps_end) = lines(METRICS_FILE, since.steps)?;
    let (evaluations, evaluations_end) = lines(EVALUATION_FILE, since.evaluations)?;
    let next = LineCursor { steps: steps_end, evaluations: evaluations_end };
    Ok(RunUpdate { state: state.into(), doing, total_steps, steps, evaluations, next })
}

/// Complete lines after the first few, as they are written, and how many there are up to the last of them.
fn lines(path: &Path, from: usize) -> std::io::Result<(Vec<Box<RawValue>>, usize)> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((Vec::new(), from)),
        Err(error) => return Err(error),
    };
    let mut reader = BufReader::new(file);
    let mut line = String::new();
    let mut number = 0;
    let mut lines = Vec::new();
    while lines.len() < MAX_LINES {
        line.clear();
        reader.read_line(&mut line)?;
        let Some(text) = line.strip_suffix('\n') else { break };
        number += 1;
        if number > from
            && let Ok(value) = RawValue::from_string(text.to_owned())
        {
            lines.push(value);
        }
    }
    Ok((lines, number.max(from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_given_from_where_a_reader_is_and_never_half() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        std::fs::write(&path, "{\"a\":0}\n{\"a\":1}\nbroken\n{\"a\":2}\n{\"a\"").unwrap();
        let lines_from = |from| {
            let (lines, end) = lines(&path, from).unwrap();
            (lines.iter().map(|line| line.get().to_owned()).collect::<Vec<_>>(), end)
        };
        assert_eq!(lines_from(1), (vec!["{\"a\":1}".to_owned(), "{\"a\":2}".to_owned()], 4));
        assert_eq!((lines_from(9), lines(&dir.path().join("none"), 3).unwrap().1), ((vec![], 9), 3));
    }
}
