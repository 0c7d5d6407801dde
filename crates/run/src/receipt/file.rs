//! The file of the receipt as a run writes it.

use std::path::Path;

use super::line::{Determined, Heads, LineKind, Observed, ReceiptLine, is_of_step, place};
use crate::error::RunFilesError;
use crate::layout::RECEIPT_FILE;
use crate::lines::{LineFile, LineMark, read_text};

/// The receipt of a run that is written. Each line is appended once, and cut with the run's other lines.
#[derive(Debug)]
pub struct ReceiptFile {
    lines: LineFile,
    /// Where each line stands, and the heads after it.
    heads: Vec<(u64, Heads)>,
}

impl ReceiptFile {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// A file that cannot be read; other lines, or lines out of order.
    pub fn open(directory: &Path) -> Result<Self, RunFilesError> {
        let place_of = |text: &str| ReceiptLine::from_json(text).map(|line| line.place());
        let lines = LineFile::open(directory, RECEIPT_FILE, "receipt", place_of)?;
        let heads = read_receipt(directory)?.into_iter().map(|line| (line.place(), line.heads)).collect();
        Ok(Self { lines, heads })
    }

    /// Whether the receipt has no line.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The heads after the last line; `None` without one.
    fn heads(&self) -> Option<&Heads> {
        self.heads.last().map(|(_, heads)| heads)
    }

    /// The heads after the line of the last step, or after the first line; `None` without one. They stay when the run
    /// goes on: what comes after that line is written again at a resume.
    pub fn lasting_heads(&self) -> Option<&Heads> {
        let of_step = self.heads.iter().rfind(|(line, _)| is_of_step(*line));
        of_step.or(self.heads.first()).map(|(_, heads)| heads)
    }

    /// How many lines there are up to that of a step.
    pub fn count_up_to(&self, step: u64) -> u64 {
        self.heads.partition_point(|(line, _)| *line <= place(step, LineKind::Step)) as u64
    }

    /// Appends a line after the last one. `before` are the heads of an empty file: those of a forked run's parent.
    ///
    /// # Errors
    /// A file that cannot be written; its content is then unchanged.
    pub fn append(
        &mut self,
        before: &Heads,
        (step, kind): (u64, LineKind),
        determined: Option<Determined>,
        observed: Observed,
    ) -> Result<(), RunFilesError> {
        let place = place(step, kind);
        if self.heads.last().is_some_and(|(last, _)| *last >= place) {
            return Ok(());
        }
        let line = ReceiptLine::after(self.heads().unwrap_or(before), step, kind, determined, observed);
        self.lines.append(place, &line.to_json())?;
        self.heads.push((place, line.heads));
        Ok(())
    }

    /// Removes everything after the line of a step: later steps, and what was noted of a checkpoint, a start or an end
    /// after it.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn truncate_after(&mut self, step: u64) -> Result<(), RunFilesError> {
        let last = place(step, LineKind::Step);
        self.lines.truncate(last + 1)?;
        self.heads.retain(|(place, _)| *place <= last);
        Ok(())
    }

    /// Marks of the lines up to that of a step, by which a change of them is noticed and found.
    pub fn marks(&self, step: u64) -> Vec<LineMark> {
        self.lines.marks(place(step, LineKind::Step) + 1)
    }

    /// Where the lines differ from those that had these marks, in words. Lines that are missing are not looked for.
    pub fn change(&self, marks: &[LineMark]) -> Option<String> {
        self.lines.change(marks)
    }

    /// Waits until all lines are on the disk.
    ///
    /// # Errors
    /// A disk that does not take them.
    pub fn sync(&self) -> Result<(), RunFilesError> {
        self.lines.sync()
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        self.lines.path()
    }
}

/// The complete lines of a directory; none where there is no file. The chain is not verified.
///
/// # Errors
/// A file that cannot be read; a line that is none of a receipt.
pub fn read_receipt(directory: &Path) -> Result<Vec<ReceiptLine>, RunFilesError> {
    let text = read_text(&directory.join(RECEIPT_FILE))?;
    let lines = text.lines().enumerate().map(|(index, line)| {
        let broken = || {
            let message = format!("{RECEIPT_FILE} line {}: not a valid receipt record", index + 1);
            RunFilesError::directory(directory, message)
        };
        ReceiptLine::from_json(line).ok_or_else(broken)
    });
    lines.collect()
}

/// The lines up to that of a step; none where it has none. What was noted after it, such as a checkpoint, is left out:
/// it may be another when the run is resumed.
pub fn receipt_up_to(lines: &[ReceiptLine], step: u64) -> &[ReceiptLine] {
    let is_last = |line: &ReceiptLine| line.step == step && line.kind == LineKind::Step;
    match (lines.iter().position(is_last), lines.first()) {
        (Some(at), _) => &lines[..=at],
        (None, Some(first)) if first.step == step => &lines[..1],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(file: &mut ReceiptFile, step: u64, kind: LineKind) {
        let engines = Some(step + kind as u64);
        file.append(&Heads::default(), (step, kind), None, Observed { engines, ..Observed::default() }).unwrap();
    }

    #[test]
    fn the_heads_that_are_published_stay_when_the_run_goes_on_after_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = ReceiptFile::open(dir.path()).unwrap();
        assert_eq!(file.lasting_heads(), None);
        append(&mut file, 0, LineKind::Start);
        assert_eq!(file.lasting_heads(), file.heads());
        [1, 2].into_iter().for_each(|step| append(&mut file, step, LineKind::Step));
        let published = file.heads().cloned();
        append(&mut file, 2, LineKind::Checkpoint);
        append(&mut file, 2, LineKind::End);
        assert_eq!(file.lasting_heads().cloned(), published);
        file.truncate_after(2).unwrap();
        append(&mut file, 2, LineKind::Start);
        append(&mut file, 3, LineKind::Step);
        drop(file);
        let lines = read_receipt(dir.path()).unwrap();
        assert!(lines.iter().any(|line| Some(&line.heads) == published.as_ref()));
        let file = ReceiptFile::open(dir.path()).unwrap();
        assert_eq!([0, 1, 2, 3].map(|step| file.count_up_to(step)), [0, 2, 3, 5]);
    }

    #[test]
    fn a_run_that_returns_to_a_checkpoint_continues_the_chain_to_the_same_heads() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = ReceiptFile::open(dir.path()).unwrap();
        append(&mut file, 0, LineKind::Start);
        (1..=3).for_each(|step| append(&mut file, step, LineKind::Step));
        let whole = file.heads().cloned();
        let marks = file.marks(2);
        append(&mut file, 3, LineKind::End);
        file.truncate_after(2).unwrap();
        assert_eq!(file.marks(2), marks);
        drop(file);
        let mut file = ReceiptFile::open(dir.path()).unwrap();
        assert_eq!(file.change(&marks), None);
        [2, 3].into_iter().for_each(|step| append(&mut file, step, LineKind::Step));
        assert_eq!(file.heads().cloned(), whole, "step 2 has its line already");
        file.sync().unwrap();
        assert_eq!(read_receipt(dir.path()).unwrap().len(), 4);
        file.truncate_after(0).unwrap();
        assert!(file.is_empty(), "the first line is written again");
    }
}
