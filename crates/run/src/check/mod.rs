//! Compares the files of a run with its receipt.
//!
//! A difference names a file and, where there is one, a step. What is not there and need not be (samples that were
//! thinned out, checkpoints that were removed) is a note.

mod chain;
mod checkpoints;
mod rollouts;
mod start_files;
mod step_lines;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use evenkeel_host::FileDigest;

use crate::error::RunFilesError;
use crate::layout::RECEIPT_FILE;
use crate::receipt::{Heads, LineKind, ReceiptLine, receipt_up_to};
pub use rollouts::other_rollouts;

/// A place where a run's files are not what its receipt says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The file or folder, relative to the run's directory.
    pub file: String,
    pub step: Option<u64>,
    /// What is wrong, to follow the file's name.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Some(step) => write!(f, "{} (step {step}) {}", self.file, self.what),
            None => write!(f, "{} {}", self.file, self.what),
        }
    }
}

/// What a receipt and the files beside it show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReceiptCheck {
    /// Where the receipt and the files differ; empty if they belong together.
    pub differences: Vec<Difference>,
    /// What the receipt covers but is no longer there to compare, a sentence each.
    pub notes: Vec<String>,
    /// The heads after each line of the chain, with its step.
    pub heads: Vec<(u64, Heads)>,
    /// The heads after the line of the last step, which stay when the run continues.
    pub last_step: Option<(u64, Heads)>,
    /// Evaluations in lines after that one.
    pub evaluations_after: Vec<u64>,
    /// Whether the run had not ended when it wrote its last line: files of the next step may be there.
    pub is_open: bool,
    /// Whether the run was resumed after some step: what it had done beyond that may still be there.
    pub is_resumed: bool,
    /// Digests of published weights by version, with the step that made them.
    pub weights: BTreeMap<u64, (u64, String)>,
}

impl ReceiptCheck {
    /// Adds a place where a file is not what the receipt says.
    pub fn differs(&mut self, file: impl Into<String>, step: Option<u64>, what: impl Into<String>) {
        self.differences.push(Difference { file: file.into(), step, what: what.into() });
    }

    /// The line whose head this is; `None` for a head of another run.
    pub fn find_head(&self, head: &str) -> Option<FoundHead> {
        let (step, heads) = self.heads.iter().rfind(|(_, heads)| heads.determined == head || heads.whole == head)?;
        let is_last = self.heads.last().is_some_and(|(_, last)| last.determined == head || last.whole == head);
        Some(FoundHead { step: *step, is_last, is_whole: heads.whole == head })
    }
}

/// A head in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundHead {
    /// The step of the head's line.
    pub step: u64,
    /// Whether it is the head after the last line.
    pub is_last: bool,
    /// Whether the head also covers what was observed; the head of the determined part does not.
    pub is_whole: bool,
}

/// Verifies the chain of a run and compares it with the run's files, all of which are read. `None` where the run has no
/// receipt. Published weights are left to the caller.
///
/// # Errors
/// A file that cannot be read.
pub fn check_receipt(run: &Path) -> Result<Option<ReceiptCheck>, RunFilesError> {
    let mut check = ReceiptCheck::default();
    let lines = chain::read(run, &mut check)?;
    let Some(first) = lines.first() else {
        return Ok((!check.differences.is_empty()).then_some(check));
    };
    if first.kind != LineKind::Start {
        check.differs(RECEIPT_FILE, Some(first.step), "begins with no line of a start: lines were removed");
    } else if first.step > 0 {
        let whose = match &first.observed.parent {
            Some(parent) => format!("they are those of run `{}`", parent.run_id),
            None => "the run had no receipt then".to_owned(),
        };
        check.notes.push(format!("steps up to {} are not in the chain: {whose}", first.step));
    }
    let covered = Covered::new(&lines);
    check.is_open = !covered.has_ended;
    check.is_resumed = covered.is_resumed;
    let last_step = receipt_up_to(&lines, covered.last);
    check.last_step = last_step.last().map(|line| (line.step, line.heads.clone()));
    let after = lines[last_step.len()..].iter();
    check.evaluations_after = after.flat_map(|line| line.observed.evaluations.keys().copied()).collect();
    start_files::compare(run, &lines, &mut check)?;
    step_lines::compare(run, &covered, &mut check)?;
    rollouts::compare(run, &covered, &mut check)?;
    checkpoints::compare(run, &covered, &mut check)?;
    Ok(Some(check))
}

/// The lines of a receipt by what they say.
struct Covered<'a> {
    /// The step after which the chain begins.
    first: u64,
    /// The last step that it has.
    last: u64,
    lines: &'a [ReceiptLine],
    /// Lines of steps.
    steps: BTreeMap<u64, &'a ReceiptLine>,
    /// Whether the run ended after the last line.
    has_ended: bool,
    /// Whether it was resumed after some step.
    is_resumed: bool,
}

impl<'a> Covered<'a> {
    fn new(lines: &'a [ReceiptLine]) -> Self {
        let of_steps = lines.iter().filter(|line| line.kind == LineKind::Step);
        Self {
            first: lines.first().map_or(0, |line| line.step),
            last: lines.iter().map(|line| line.step).max().unwrap_or_default(),
            lines,
            steps: of_steps.map(|line| (line.step, line)).collect(),
            has_ended: lines.last().is_some_and(|line| line.kind == LineKind::End),
            is_resumed: lines.iter().any(ReceiptLine::resumes),
        }
    }
}

/// The digest of a file; `None` where there is none.
fn digest_of(path: &Path) -> Result<Option<FileDigest>, RunFilesError> {
    match FileDigest::of(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(RunFilesError::file(path)),
    }
}

/// Numbers as people write them: `1, 2, 3 and 9 more`.
fn listed(numbers: &[u64]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<_> = numbers.iter().take(SHOWN).map(u64::to_string).collect();
    match numbers.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
