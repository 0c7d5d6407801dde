//! The file with the outcome of every prompt: a line for each GRPO step.

use std::path::Path;

use super::line_file::{LineFile, LineMark, read_text};
use super::prompt_line::PromptLine;
use crate::error::RunFilesError;
use crate::layout::PROMPTS_FILE;

/// The file of a run, each line of which is appended exactly once.
#[derive(Debug)]
pub struct PromptFile {
    lines: LineFile,
}

impl PromptFile {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// A file that cannot be read; other lines, or lines out of order.
    pub fn open(directory: &Path) -> Result<Self, RunFilesError> {
        let step_of = |text: &str| PromptLine::from_json(text).map(|line| line.step);
        Ok(Self { lines: LineFile::open(directory, PROMPTS_FILE, "prompts", step_of)? })
    }

    /// Appends a line.
    ///
    /// # Errors
    /// A file that cannot be written; its content is then unchanged.
    pub fn append(&mut self, line: &PromptLine) -> Result<(), RunFilesError> {
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
}

/// The complete lines of a directory; none where there is no file.
///
/// # Errors
/// A file that cannot be read; a line that is none of prompts.
pub fn read_prompts(directory: &Path) -> Result<Vec<PromptLine>, RunFilesError> {
    let text = read_text(&directory.join(PROMPTS_FILE))?;
    let lines = text.lines().enumerate().map(|(index, line)| {
        let broken = || {
            RunFilesError::directory(
                directory,
                format!("{PROMPTS_FILE} line {}: not a valid prompts record", index + 1),
            )
        };
        PromptLine::from_json(line).ok_or_else(broken)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_once_and_removed_with_their_steps() {
        let dir = tempfile::tempdir().unwrap();
        let line = |step| PromptLine { step, ..PromptLine::default() };
        let mut file = PromptFile::open(dir.path()).unwrap();
        [0, 1, 1, 2].into_iter().for_each(|step| file.append(&line(step)).unwrap());
        file.truncate(2).unwrap();
        drop(file);
        assert_eq!(read_prompts(dir.path()).unwrap(), [line(0), line(1)]);
        assert_eq!(read_prompts(&dir.path().join("elsewhere")).unwrap(), []);
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let good = PromptLine::default().to_json();
        std::fs::write(dir.path().join(PROMPTS_FILE), format!("{good}\n{{\"step\": 1}}\n")).unwrap();
        for error in [read_prompts(dir.path()).map(|_| ()), PromptFile::open(dir.path()).map(|_| ())] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("prompts.jsonl line 2: not a valid prompts record"), "{error}");
        }
    }
}
