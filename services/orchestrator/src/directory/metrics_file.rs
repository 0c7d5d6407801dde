//! Files of metrics: each line is appended exactly once, whatever happens in between.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use evenkeel_proto::Label;
use evenkeel_proto::v1::StepKind;

use crate::error::RunError;
use crate::metrics::MetricsLine;

/// A file with the lines of one kind, in ascending order of their steps. A line survives the end of this process once
/// [`MetricsFile::append`] returns, and that of the machine after [`MetricsFile::sync`].
#[derive(Debug)]
pub(crate) struct MetricsFile {
    path: PathBuf,
    kind: StepKind,
    file: File,
    /// Step of each line, and the offset of its end.
    ends: Vec<(u64, u64)>,
}

impl MetricsFile {
    /// Opens or creates the file. A last line without its line break (a write that was interrupted) is removed.
    ///
    /// # Errors
    /// A file that cannot be read; lines that are no metrics of this kind, or out of order.
    pub(crate) fn open(directory: &Path, name: &str, kind: StepKind) -> Result<Self, RunError> {
        let path = directory.join(name);
        let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let file = open.map_err(RunError::file(&path))?;
        let text = std::fs::read(&path).map_err(RunError::file(&path))?;
        let mut metrics = Self { path, kind, file, ends: Vec::new() };
        let mut end = 0;
        for (index, bytes) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
            if bytes.last() != Some(&b'\n') {
                tracing::warn!(file = name, line = index + 1, "the last line is incomplete and is removed");
                break;
            }
            end += bytes.len() as u64;
            let line = std::str::from_utf8(bytes).ok().and_then(|text| MetricsLine::from_json(kind, text));
            let broken =
                |message: &str| RunError::directory(directory, format!("{name} line {}: {message}", index + 1));
            let line = line.ok_or_else(|| broken(&format!("is no line of metrics of kind {}", kind.label())))?;
            if metrics.last_step().is_some_and(|last| last >= line.step) {
                return Err(broken("does not follow the line before it"));
            }
            metrics.ends.push((line.step, end));
        }
        metrics.cut(end)?;
        Ok(metrics)
    }

    /// Appends a line. A step that has a line already keeps it, so that a step may safely be appended twice.
    ///
    /// # Errors
    /// A file that cannot be written; its content is then unchanged.
    pub(crate) fn append(&mut self, line: &MetricsLine) -> Result<(), RunError> {
        if self.last_step().is_some_and(|last| last >= line.step) {
            return Ok(());
        }
        let begin = self.length();
        let text = format!("{}\n", line.to_json());
        let written = self.file.seek(SeekFrom::Start(begin)).and_then(|_| self.file.write_all(text.as_bytes()));
        if let Err(error) = written {
            // Part of the line may be written. If this fails as well, the next opening removes it.
            let _ = self.file.set_len(begin);
            return Err(RunError::file(&self.path)(error));
        }
        self.ends.push((line.step, begin + text.len() as u64));
        Ok(())
    }

    /// Waits until all lines are on the disk.
    pub(crate) fn sync(&self) -> Result<(), RunError> {
        self.file.sync_data().map_err(RunError::file(&self.path))
    }

    /// Removes the lines of `step` and later steps.
    pub(crate) fn truncate(&mut self, step: u64) -> Result<(), RunError> {
        let keep = self.ends.partition_point(|(line, _)| *line < step);
        self.ends.truncate(keep);
        self.cut(self.length())
    }

    pub(crate) fn last_step(&self) -> Option<u64> {
        self.ends.last().map(|(step, _)| *step)
    }

    pub(crate) fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    pub(crate) fn has(&self, step: u64) -> bool {
        self.ends.binary_search_by_key(&step, |(line, _)| *line).is_ok()
    }

    /// The steps that have a line, in order.
    pub(crate) fn steps(&self) -> impl Iterator<Item = u64> {
        self.ends.iter().map(|(step, _)| *step)
    }

    pub(crate) fn kind(&self) -> StepKind {
        self.kind
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// All lines.
    pub(crate) fn read(&self) -> Result<Vec<MetricsLine>, RunError> {
        read_lines(&self.path, self.kind)
    }

    fn length(&self) -> u64 {
        self.ends.last().map_or(0, |(_, end)| *end)
    }

    fn cut(&mut self, length: u64) -> Result<(), RunError> {
        self.file.set_len(length).and_then(|()| self.file.sync_data()).map_err(RunError::file(&self.path))
    }
}

/// The complete lines of a file; none where there is no file.
pub(crate) fn read_lines(path: &Path, kind: StepKind) -> Result<Vec<MetricsLine>, RunError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RunError::file(path)(error)),
    };
    Ok(text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .filter_map(|line| MetricsLine::from_json(kind, line))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(step: u64) -> MetricsLine {
        let mut line = MetricsLine::new(StepKind::Train, step, step + 1);
        line.set("critic/rewards/mean", 0.25);
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
        assert_eq!((lines.count(), lines.last_step()), (3, Some(2)));
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
        assert!(error.contains("metrics.jsonl line 1: is no line of metrics of kind train"), "{error}");
        let twice = format!("{}\n{}\n", line(3).to_json(), line(3).to_json());
        std::fs::write(dir.path().join("metrics.jsonl"), twice).unwrap();
        assert!(MetricsFile::open(dir.path(), "metrics.jsonl", StepKind::Train).is_err());
    }
}
