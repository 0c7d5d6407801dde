//! Files with a line for each step: each line is appended exactly once, whatever happens in between.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::error::RunError;

/// A file with lines in ascending order of their steps. A line survives the end of this process once [`LineFile::append`] returns, and that
/// of the machine after [`LineFile::sync`].
#[derive(Debug)]
pub(super) struct LineFile {
    path: PathBuf,
    file: File,
    /// Step of each line, and the offset of its end.
    ends: Vec<(u64, u64)>,
}

impl LineFile {
    /// Opens or creates the file. A last line without its line break (a write that was interrupted) is removed. `step_of` is the step of a
    /// line, `None` for what is not a valid record of `what`.
    ///
    /// # Errors
    /// A file that cannot be read; other lines, or lines out of order.
    pub(super) fn open(
        directory: &Path,
        name: &str,
        what: &str,
        step_of: impl Fn(&str) -> Option<u64>,
    ) -> Result<Self, RunError> {
        let path = directory.join(name);
        let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let file = open.map_err(RunError::file(&path))?;
        let text = std::fs::read(&path).map_err(RunError::file(&path))?;
        let mut lines = Self { path, file, ends: Vec::new() };
        let mut end = 0;
        for (index, bytes) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
            if bytes.last() != Some(&b'\n') {
                tracing::warn!(file = name, line = index + 1, "the last line is incomplete and is removed");
                break;
            }
            end += bytes.len() as u64;
            let broken =
                |message: &str| RunError::directory(directory, format!("{name} line {}: {message}", index + 1));
            let step = std::str::from_utf8(bytes).ok().and_then(&step_of);
            let step = step.ok_or_else(|| broken(&format!("not a valid {what} record")))?;
            if lines.last_step().is_some_and(|last| last >= step) {
                return Err(broken("does not follow the line before it"));
            }
            lines.ends.push((step, end));
        }
        lines.cut(end)?;
        Ok(lines)
    }

    /// Appends the line of a step, without its line break. A step that has a line already keeps it, so that a step may safely be appended
    /// twice.
    ///
    /// # Errors
    /// A file that cannot be written; its content is then unchanged.
    pub(super) fn append(&mut self, step: u64, line: &str) -> Result<(), RunError> {
        if self.last_step().is_some_and(|last| last >= step) {
            return Ok(());
        }
        let begin = self.length();
        let text = format!("{line}\n");
        let written = self.file.seek(SeekFrom::Start(begin)).and_then(|_| self.file.write_all(text.as_bytes()));
        if let Err(error) = written {
            // Part of the line may be written. If this fails as well, the next opening removes it.
            let _ = self.file.set_len(begin);
            return Err(RunError::file(&self.path)(error));
        }
        self.ends.push((step, begin + text.len() as u64));
        Ok(())
    }

    /// Waits until all lines are on the disk.
    pub(super) fn sync(&self) -> Result<(), RunError> {
        self.file.sync_data().map_err(RunError::file(&self.path))
    }

    /// Removes the lines of `step` and later steps.
    pub(super) fn truncate(&mut self, step: u64) -> Result<(), RunError> {
        let keep = self.ends.partition_point(|(line, _)| *line < step);
        self.ends.truncate(keep);
        self.cut(self.length())
    }

    pub(super) fn last_step(&self) -> Option<u64> {
        self.ends.last().map(|(step, _)| *step)
    }

    pub(super) fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    pub(super) fn has(&self, step: u64) -> bool {
        self.ends.binary_search_by_key(&step, |(line, _)| *line).is_ok()
    }

    /// The steps that have a line, in order.
    pub(super) fn steps(&self) -> impl Iterator<Item = u64> {
        self.ends.iter().map(|(step, _)| *step)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> u64 {
        self.ends.last().map_or(0, |(_, end)| *end)
    }

    fn cut(&mut self, length: u64) -> Result<(), RunError> {
        self.file.set_len(length).and_then(|()| self.file.sync_data()).map_err(RunError::file(&self.path))
    }
}

/// The complete lines of a file as text, with their line breaks; none where there is no file.
pub(super) fn read_text(path: &Path) -> Result<String, RunError> {
    let mut text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(RunError::file(path)(error)),
    };
    text.truncate(text.rfind('\n').map_or(0, |last| last + 1));
    Ok(text)
}
