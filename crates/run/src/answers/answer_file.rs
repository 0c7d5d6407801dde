//! Files of answers: `BENCHMARK.jsonl.zst`, a JSON object on each line.
//!
//! Each group is a zstd frame of its own, so that a killed process leaves a file that can be read up to its last whole
//! group, by any program that reads zstd. While answers come in they stand in the order in which groups were complete;
//! a finished file has them in the order of the benchmark.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use evenkeel_host::replace_with;

use super::answer::EvaluationAnswer;
use crate::error::RunFilesError;

/// What follows the benchmark's name.
const EXTENSION: &str = ".jsonl.zst";
/// Fast compared with sampling, and a quarter of the size.
const LEVEL: i32 = 3;

/// The answers of each group, with the number of its problem.
pub type AnsweredGroups = Vec<(u64, Vec<EvaluationAnswer>)>;

/// Answers that are being written.
#[derive(Debug)]
pub struct AnswerFile {
    path: PathBuf,
    file: File,
    /// Where the answers to each problem are.
    frames: BTreeMap<u64, Range<usize>>,
    length: usize,
}

impl AnswerFile {
    /// Opens or creates the file of a benchmark. Returns the groups that it has, by problem; whatever follows the last
    /// whole one is removed.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn open(folder: &Path, benchmark: &str) -> Result<(Self, AnsweredGroups), RunFilesError> {
        let path = folder.join(format!("{benchmark}{EXTENSION}"));
        let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let file = open.map_err(RunFilesError::file(&path))?;
        let bytes = evenkeel_host::read(&path, u64::MAX).map_err(|error| RunFilesError::file(&path)(error.into()))?;
        let mut frames = BTreeMap::new();
        let mut groups = BTreeMap::new();
        let mut length = 0;
        while let Some((end, answers)) = group_at(&bytes, length) {
            if let Some(index) = answers.first().map(|answer| answer.index) {
                frames.insert(index, length..end);
                groups.insert(index, answers);
            }
            length = end;
        }
        file.set_len(length as u64).map_err(RunFilesError::file(&path))?;
        Ok((Self { path, file, frames, length }, groups.into_iter().collect()))
    }

    /// Removes all answers.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn clear(&mut self) -> Result<(), RunFilesError> {
        self.frames.clear();
        self.length = 0;
        self.file.set_len(0).map_err(RunFilesError::file(&self.path))
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends the answers to a problem; the file has them even if this process ends now. They replace earlier ones.
    ///
    /// # Errors
    /// A file that cannot be written; its content is then unchanged.
    pub fn append(&mut self, index: u64, answers: &[EvaluationAnswer]) -> Result<(), RunFilesError> {
        let mut lines = Vec::new();
        for answer in answers {
            serde_json::to_writer(&mut lines, answer).map_err(|error| RunFilesError::Defect(error.to_string()))?;
            lines.push(b'\n');
        }
        let written = zstd::bulk::compress(&lines, LEVEL).and_then(|frame| {
            self.file.seek(SeekFrom::Start(self.length as u64))?;
            self.file.write_all(&frame)?;
            Ok(frame.len())
        });
        match written {
            Ok(bytes) => {
                self.frames.insert(index, self.length..self.length + bytes);
                self.length += bytes;
                Ok(())
            }
            Err(error) => {
                // Part of the frame may be written. If this fails as well, the next opening removes it.
                let _ = self.file.set_len(self.length as u64);
                Err(RunFilesError::file(&self.path)(error))
            }
        }
    }

    /// Puts the answers into the order of the benchmark, and waits until they are on the disk.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn finish(&self) -> Result<(), RunFilesError> {
        let in_order = self.frames.values().try_fold(0, |end, frame| (frame.start == end).then_some(frame.end));
        if in_order == Some(self.length) {
            return self.file.sync_all().map_err(RunFilesError::file(&self.path));
        }
        let rewritten = std::fs::read(&self.path).and_then(|bytes| {
            replace_with(&self.path, |file| {
                self.frames
                    .values()
                    .try_for_each(|frame| file.write_all(bytes.get(frame.clone()).ok_or(io::ErrorKind::UnexpectedEof)?))
            })
        });
        rewritten.map_err(RunFilesError::file(&self.path))
    }
}

/// The group that begins at an offset, and where it ends. `None` where there is no whole one.
fn group_at(bytes: &[u8], begin: usize) -> Option<(usize, Vec<EvaluationAnswer>)> {
    let rest = bytes.get(begin..).filter(|rest| !rest.is_empty())?;
    let size = zstd::zstd_safe::find_frame_compressed_size(rest).ok()?;
    let lines = zstd::decode_all(rest.get(..size)?).ok()?;
    let answers: Result<Vec<EvaluationAnswer>, _> =
        lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(serde_json::from_slice).collect();
    Some((begin + size, answers.ok()?))
}

/// Reads a file of answers from its beginning; one that is being written ends with its last whole group.
pub struct AnswerReader {
    path: PathBuf,
    lines: io::Lines<BufReader<zstd::Decoder<'static, BufReader<File>>>>,
}

impl AnswerReader {
    /// Opens a file.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn open(path: &Path) -> Result<Self, RunFilesError> {
        let decoder = File::open(path).and_then(zstd::Decoder::new).map_err(RunFilesError::file(path))?;
        Ok(Self { path: path.to_owned(), lines: BufReader::new(decoder).lines() })
    }
}

impl Iterator for AnswerReader {
    type Item = Result<EvaluationAnswer, RunFilesError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.lines.next()? {
            Ok(line) => line,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return None,
            Err(error) => return Some(Err(RunFilesError::file(&self.path)(error))),
        };
        let answer = serde_json::from_str(&line);
        Some(answer.map_err(|error| RunFilesError::directory(&self.path, format!("is not a file of answers: {error}"))))
    }
}

/// The files of answers in a folder: benchmark and path, by name.
///
/// # Errors
/// A folder that cannot be read.
pub fn list_answers(folder: &Path) -> Result<Vec<(String, PathBuf)>, RunFilesError> {
    let entries = std::fs::read_dir(folder).map_err(RunFilesError::file(folder))?;
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.strip_suffix(EXTENSION)?.to_owned(), entry.path())))
        .collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(index: u64) -> Vec<EvaluationAnswer> {
        let answer = |sample: u32| {
            serde_json::from_value(serde_json::json!({
                "benchmark": "sums", "problem": format!("p{index}"), "index": index, "sample": sample,
                "prompt": "1+1=", "text": "2", "token_ids": [7, 1], "finish_reason": "stop", "verdict": "correct",
                "reason": "equal", "score": 1.0, "answer": "2",
            }))
        };
        (0..2).map(|sample| answer(sample).unwrap()).collect()
    }

    fn indices(groups: &[(u64, Vec<EvaluationAnswer>)]) -> Vec<u64> {
        groups.iter().map(|(index, _)| *index).collect()
    }

    #[test]
    fn a_finished_file_has_the_answers_in_the_order_of_the_benchmark() {
        let dir = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        for (folder, order) in [(dir.path(), [2, 0, 1]), (other.path(), [0, 1, 2])] {
            let (mut file, groups) = AnswerFile::open(folder, "sums").unwrap();
            assert!(groups.is_empty());
            order.into_iter().for_each(|index| file.append(index, &answers(index)).unwrap());
            file.finish().unwrap();
        }
        let bytes = |folder: &Path| std::fs::read(folder.join("sums.jsonl.zst")).unwrap();
        assert_eq!(bytes(dir.path()), bytes(other.path()), "whichever was complete first");
        let (name, path) = list_answers(dir.path()).unwrap().remove(0);
        let read: Vec<EvaluationAnswer> = AnswerReader::open(&path).unwrap().map(Result::unwrap).collect();
        assert_eq!((name.as_str(), read), ("sums", (0..3).flat_map(answers).collect()));
    }

    #[test]
    fn a_file_that_was_cut_anywhere_has_its_whole_groups_and_goes_on_behind_them() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, _) = AnswerFile::open(dir.path(), "sums").unwrap();
        file.append(4, &answers(4)).unwrap();
        let first = file.length;
        file.append(9, &answers(9)).unwrap();
        let whole = file.length;
        let path = file.path().to_owned();
        let bytes = std::fs::read(&path).unwrap();
        for cut in 0..whole {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let read = AnswerReader::open(&path).unwrap().map(Result::unwrap).count();
            assert_eq!(read >= 2, cut >= first, "cut at {cut}");
            let (mut file, groups) = AnswerFile::open(dir.path(), "sums").unwrap();
            let expected: &[u64] = if cut < first { &[] } else { &[4] };
            assert_eq!(indices(&groups), expected, "cut at {cut}");
            file.append(9, &answers(9)).unwrap();
            assert!(indices(&AnswerFile::open(dir.path(), "sums").unwrap().1).contains(&9), "cut at {cut}");
        }
    }

    #[test]
    fn answers_that_were_sampled_again_replace_the_earlier_ones() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, _) = AnswerFile::open(dir.path(), "sums").unwrap();
        file.append(0, &answers(1)).unwrap();
        file.append(1, &answers(1)).unwrap();
        file.append(0, &answers(0)).unwrap();
        file.finish().unwrap();
        let (_, groups) = AnswerFile::open(dir.path(), "sums").unwrap();
        assert_eq!(groups, [(0, answers(0)), (1, answers(1))]);
    }
}
