//! Files with a line for each step: each line is appended exactly once, whatever happens in between.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use evenkeel_host::{FieldsDigest, hex};
use serde::{Deserialize, Serialize};

use crate::error::RunFilesError;
use crate::whole_file::refuse_other_than_file;

/// Most marks of a file: with that many lines or fewer each has one.
const MARKS: usize = 64;

/// Bytes of a digest that a mark keeps.
const MARK_BYTES: usize = 16;

/// What is remembered of the first lines of a file: how many they are, and a digest of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineMark {
    pub lines: u64,
    /// The first half of a SHA-256, in hexadecimal digits.
    pub digest: String,
}

/// A file with lines in ascending order of their steps. A line survives the end of this process once
/// [`LineFile::append`] returns, and that of the machine after [`LineFile::sync`].
#[derive(Debug)]
pub(crate) struct LineFile {
    path: PathBuf,
    file: File,
    ends: Vec<LineEnd>,
}

/// Where a line ends.
#[derive(Debug)]
struct LineEnd {
    step: u64,
    offset: u64,
    /// Chained SHA-256 of this line and all before it.
    digest: [u8; 32],
}

impl LineFile {
    /// Opens or creates the file. A last line without its line break (a write that was interrupted) is removed.
    /// `step_of` is the step of a line, `None` for what is not a valid record of `what`.
    ///
    /// # Errors
    /// A file that cannot be read; other lines, or lines out of order.
    pub(crate) fn open(
        directory: &Path,
        name: &str,
        what: &str,
        step_of: impl Fn(&str) -> Option<u64>,
    ) -> Result<Self, RunFilesError> {
        let path = directory.join(name);
        refuse_other_than_file(directory, name)?;
        let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let file = open.map_err(RunFilesError::file(&path))?;
        let text = std::fs::read(&path).map_err(RunFilesError::file(&path))?;
        let mut lines = Self { path, file, ends: Vec::new() };
        let mut end = 0;
        for (index, bytes) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
            if bytes.last() != Some(&b'\n') {
                tracing::warn!(file = name, line = index + 1, "the last line is incomplete and is removed");
                break;
            }
            end += bytes.len() as u64;
            let broken =
                |message: &str| RunFilesError::directory(directory, format!("{name} line {}: {message}", index + 1));
            let text = std::str::from_utf8(bytes).ok();
            let step = text.and_then(|text| Some((text, step_of(text)?)));
            let (text, step) = step.ok_or_else(|| broken(&format!("not a valid {what} record")))?;
            if lines.last_step().is_some_and(|last| last >= step) {
                return Err(broken("does not follow the line before it"));
            }
            lines.ends.push(LineEnd { step, offset: end, digest: lines.digest_with(text) });
        }
        lines.cut(end)?;
        Ok(lines)
    }

    /// Appends the line of a step, without its line break. A step that has a line already keeps it, so that a step may
    /// safely be appended twice.
    ///
    /// # Errors
    /// A file that cannot be written; its content is then unchanged.
    pub(crate) fn append(&mut self, step: u64, line: &str) -> Result<(), RunFilesError> {
        if self.last_step().is_some_and(|last| last >= step) {
            return Ok(());
        }
        let begin = self.length();
        let text = format!("{line}\n");
        let written = self.file.seek(SeekFrom::Start(begin)).and_then(|_| self.file.write_all(text.as_bytes()));
        if let Err(error) = written {
            // Part of the line may be written. If this fails as well, the next opening removes it.
            let _ = self.file.set_len(begin);
            return Err(RunFilesError::file(&self.path)(error));
        }
        self.ends.push(LineEnd { step, offset: begin + text.len() as u64, digest: self.digest_with(&text) });
        Ok(())
    }

    /// Waits until all lines are on the disk.
    pub(crate) fn sync(&self) -> Result<(), RunFilesError> {
        self.file.sync_data().map_err(RunFilesError::file(&self.path))
    }

    /// Removes the lines of `step` and later steps.
    pub(crate) fn truncate(&mut self, step: u64) -> Result<(), RunFilesError> {
        self.ends.truncate(self.count_before(step));
        self.cut(self.length())
    }

    pub(crate) fn last_step(&self) -> Option<u64> {
        self.ends.last().map(|line| line.step)
    }

    pub(crate) fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    pub(crate) fn has(&self, step: u64) -> bool {
        self.ends.binary_search_by_key(&step, |line| line.step).is_ok()
    }

    /// The steps that have a line, in order.
    pub(crate) fn steps(&self) -> impl Iterator<Item = u64> {
        self.ends.iter().map(|line| line.step)
    }

    /// Marks of the lines before a step, by which a change of them is noticed and found.
    pub(crate) fn marks(&self, before: u64) -> Vec<LineMark> {
        let count = self.count_before(before);
        let stride = count.div_ceil(MARKS).max(1);
        let marked = (1..=count).filter(|lines| lines % stride == 0 || *lines == count);
        marked.map(|lines| LineMark { lines: lines as u64, digest: self.mark(lines) }).collect()
    }

    /// Where the lines differ from those that had these marks, in words. Lines that are missing are not looked for.
    pub(crate) fn change(&self, marks: &[LineMark]) -> Option<String> {
        let marks = marks.iter().map(|mark| (usize::try_from(mark.lines).unwrap_or(usize::MAX), &mark.digest));
        let mut same = 0;
        for (lines, digest) in marks.filter(|(lines, _)| (1..=self.ends.len()).contains(lines)) {
            if self.mark(lines) != *digest {
                let name = self.path.file_name().unwrap_or_default().to_string_lossy();
                let from = self.offset_of(same);
                let to = self.offset_of(lines);
                let first = same + 1;
                let which =
                    if first == lines { format!("line {first} is") } else { format!("lines {first} to {lines} are") };
                return Some(format!("{name} {which} not what the run wrote (bytes {from} to {to})"));
            }
            same = lines;
        }
        None
    }

    fn mark(&self, lines: usize) -> String {
        let digest = lines.checked_sub(1).and_then(|last| self.ends.get(last)).map_or([0; 32], |line| line.digest);
        hex(&digest[..MARK_BYTES])
    }

    /// The digest of all lines with another one after them.
    fn digest_with(&self, line: &str) -> [u8; 32] {
        let mut digest = FieldsDigest::new();
        self.ends.last().map_or([0; 32], |last| last.digest).into_iter().for_each(|byte| {
            digest.byte(byte);
        });
        digest.last(line);
        digest.finish()
    }

    fn count_before(&self, step: u64) -> usize {
        self.ends.partition_point(|line| line.step < step)
    }

    fn offset_of(&self, lines: usize) -> u64 {
        lines.checked_sub(1).and_then(|last| self.ends.get(last)).map_or(0, |line| line.offset)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> u64 {
        self.offset_of(self.ends.len())
    }

    fn cut(&mut self, length: u64) -> Result<(), RunFilesError> {
        self.file.set_len(length).and_then(|()| self.file.sync_data()).map_err(RunFilesError::file(&self.path))
    }
}

/// The complete lines of a file as text, with their line breaks; none where there is no file.
pub(crate) fn read_text(path: &Path) -> Result<String, RunFilesError> {
    let failed = |error: std::io::Error| RunFilesError::file(path)(error);
    let bytes = evenkeel_host::read_optional(path, u64::MAX).map_err(|error| failed(error.into()))?.unwrap_or_default();
    let mut text = String::from_utf8(bytes).map_err(|error| failed(std::io::Error::other(error)))?;
    text.truncate(text.rfind('\n').map_or(0, |last| last + 1));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &Path) -> LineFile {
        LineFile::open(dir, "a.jsonl", "test", |text| text.trim().parse().ok()).unwrap()
    }

    fn written(dir: &Path, steps: std::ops::Range<u64>) -> LineFile {
        let mut lines = open(dir);
        steps.for_each(|step| lines.append(step, &format!("{step:05}")).unwrap());
        lines
    }

    #[test]
    fn marks_are_the_same_for_lines_that_were_appended_read_or_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut lines = written(dir.path(), 0..300);
        let marks = lines.marks(200);
        assert!(marks.len() <= MARKS && marks.last().unwrap().lines == 200);
        assert_eq!(open(dir.path()).marks(200), marks);
        lines.truncate(150).unwrap();
        (150..200).for_each(|step| lines.append(step, &format!("{step:05}")).unwrap());
        assert_eq!((lines.marks(200), lines.change(&marks)), (marks, None));
        assert_eq!(lines.marks(0), []);
    }

    /// A changed digit in each line in turn, as by a person who would like another result.
    #[test]
    fn a_changed_line_is_found_whichever_it_is() {
        for (count, width) in [(64, 1), (300, 5)] {
            let dir = tempfile::tempdir().unwrap();
            let marks = written(dir.path(), 0..count).marks(count);
            let path = dir.path().join("a.jsonl");
            let whole = std::fs::read_to_string(&path).unwrap();
            for changed in (0..count).step_by(7) {
                // A blank more: the line has the same step.
                let old = format!("{changed:05}\n");
                let new = format!("{changed:05} \n");
                std::fs::write(&path, whole.replace(&old, &new)).unwrap();
                let words = open(dir.path()).change(&marks).unwrap();
                let numbers: Vec<u64> =
                    words.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
                let (first, last) = if width == 1 { (numbers[0], numbers[0]) } else { (numbers[0], numbers[1]) };
                assert!((first..=last).contains(&(changed + 1)) && last - first < width, "{changed}: {words}");
            }
        }
    }

    #[test]
    fn lines_after_the_marks_may_be_others() {
        let dir = tempfile::tempdir().unwrap();
        let marks = written(dir.path(), 0..9).marks(5);
        let path = dir.path().join("a.jsonl");
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, whole.replace("00006", "00006 ")).unwrap();
        assert_eq!(open(dir.path()).change(&marks), None);
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        assert!(std::process::Command::new("mkfifo").arg(dir.path().join("a.jsonl")).status().unwrap().success());
        let error = LineFile::open(dir.path(), "a.jsonl", "test", |_| None).unwrap_err().to_string();
        assert!(error.contains("a.jsonl is no regular file"), "{error}");
        assert!(read_text(&dir.path().join("a.jsonl")).unwrap_err().to_string().contains("a regular file"));
    }
}
