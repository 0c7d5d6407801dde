//! Files of metrics: a line for each step.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_host::sha256;
use evenkeel_proto::Label;
use evenkeel_proto::v1::StepKind;

use super::line_file::{LineFile, LineMark, read_text};
use crate::error::RunFilesError;
use crate::metrics::MetricsLine;

/// A file with the lines of one kind, in ascending order of their steps, each of which is appended exactly once.
#[derive(Debug)]
pub struct MetricsFile {
    kind: StepKind,
    lines: LineFile,
}

impl MetricsFile {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// A file that cannot be read; other lines, or lines out of order.
    pub fn open(directory: &Path, name: &str, kind: StepKind) -> Result<Self, RunFilesError> {
        let what = format!("{} metrics", kind.label());
        let step_of = |text: &str| MetricsLine::from_json(kind, text).map(|line| line.step);
        Ok(Self { kind, lines: LineFile::open(directory, name, &what, step_of)? })
    }

    /// Appends a line.
    ///
    /// # Errors
    /// A file that cannot be written; its content is then unchanged.
    pub fn append(&mut self, line: &MetricsLine) -> Result<(), RunFilesError> {
        self.lines.append(line.step, &line.to_json())
    }

    /// Waits until all lines are on the disk.
    ///
    /// # Errors
    /// A disk that does not take them.
    pub fn sync(&self) -> Result<(), RunFilesError> {
        self.lines.sync()
    }

    /// Removes the lines of `step` and later steps.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn truncate(&mut self, step: u64) -> Result<(), RunFilesError> {
        self.lines.truncate(step)
    }

    /// How many lines it has.
    pub fn count(&self) -> u64 {
        self.lines.count()
    }

    /// Whether a step has a line.
    pub fn has(&self, step: u64) -> bool {
        self.lines.has(step)
    }

    /// The steps that have a line, in order.
    pub fn steps(&self) -> impl Iterator<Item = u64> {
        self.lines.steps()
    }

    /// The kind of its lines.
    pub fn kind(&self) -> StepKind {
        self.kind
    }

    /// Marks of the lines before a step, by which a change of them is noticed and found.
    pub fn marks(&self, before: u64) -> Vec<LineMark> {
        self.lines.marks(before)
    }

    /// Where the lines differ from those that had these marks, in words. Lines that are missing are not looked for.
    pub fn change(&self, marks: &[LineMark]) -> Option<String> {
        self.lines.change(marks)
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        self.lines.path()
    }

    /// The digest of each line, without its line break, by its step.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn digests(&self) -> Result<BTreeMap<u64, String>, RunFilesError> {
        let text = read_text(self.path())?;
        let digests = text.lines().zip(self.steps()).map(|(line, step)| (step, sha256(line)));
        Ok(digests.collect())
    }

    /// All lines.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(&self) -> Result<Vec<MetricsLine>, RunFilesError> {
        read_lines(self.path(), self.kind)
    }
}

/// The complete lines of a file; none where there is no file.
///
/// # Errors
/// A file that cannot be read.
pub fn read_lines(path: &Path, kind: StepKind) -> Result<Vec<MetricsLine>, RunFilesError> {
    let text = read_text(path)?;
    Ok(text.lines().filter_map(|line| MetricsLine::from_json(kind, line)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(step: u64) -> MetricsLine {
        let mut line = MetricsLine::new(StepKind::Train, step, step + 1);
        line.set_named("critic/rewards/mean", 0.25);
        line
    }

    fn open(dir: &Path) -> MetricsFile {
        MetricsFile::open(dir, "metrics.jsonl", StepKind::Train).unwrap()
    }

    #[test]
    fn a_step_has_one_line_and_it_persists() {
        let dir = tempfile::tempdir().unwrap();
        let mut lines = open(dir.path());
        for step in [0, 1, 1, 0, 2] {
            lines.append(&line(step)).unwrap();
        }
        drop(lines);
        let lines = open(dir.path());
        assert_eq!(lines.count(), 3);
        assert_eq!(lines.read().unwrap(), [line(0), line(1), line(2)]);
        assert!(lines.has(1) && !lines.has(3));
    }

    #[test]
    fn an_incomplete_line_is_removed_wherever_it_was_cut() {
        let whole = format!("{}\n", line(0).to_json());
        let next = format!("{}\n", line(1).to_json());
        for cut in 0..next.len() {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("metrics.jsonl"), format!("{whole}{}", &next[..cut])).unwrap();
            let mut lines = open(dir.path());
            assert_eq!(lines.count(), 1, "cut at {cut}");
            lines.append(&line(1)).unwrap();
            assert_eq!(std::fs::read_to_string(dir.path().join("metrics.jsonl")).unwrap(), format!("{whole}{next}"));
        }
    }

    #[test]
    fn truncating_removes_later_lines() {
        let dir = tempfile::tempdir().unwrap();
        let mut lines = open(dir.path());
        (0..5).for_each(|step| lines.append(&line(step)).unwrap());
        lines.truncate(2).unwrap();
        lines.append(&line(2)).unwrap();
        assert_eq!(lines.read().unwrap().len(), 3);
    }

    #[test]
    fn a_foreign_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("metrics.jsonl"), "{\"loss\": 1}\n").unwrap();
        let error = MetricsFile::open(dir.path(), "metrics.jsonl", StepKind::Train).unwrap_err().to_string();
        assert!(error.contains("metrics.jsonl line 1: not a valid train metrics record"), "{error}");
        let twice = format!("{}\n{}\n", line(3).to_json(), line(3).to_json());
        std::fs::write(dir.path().join("metrics.jsonl"), twice).unwrap();
        assert!(MetricsFile::open(dir.path(), "metrics.jsonl", StepKind::Train).is_err());
    }
}
