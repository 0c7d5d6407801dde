//! Files of metrics that grow, read from where the last reading ended.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::PathBuf;

use evenkeel_proto::v1::StepKind;
use evenkeel_run::{Curves, MetricsLine};

/// What takes the lines.
pub(super) trait Sink {
    /// The file begins anew: everything so far is forgotten.
    fn clear(&mut self);

    fn push(&mut self, line: MetricsLine);
}

impl Sink for Curves {
    fn clear(&mut self) {
        *self = Self::default();
    }

    fn push(&mut self, line: MetricsLine) {
        Self::push(self, &line);
    }
}

impl Sink for Vec<MetricsLine> {
    fn clear(&mut self) {
        Self::clear(self);
    }

    fn push(&mut self, line: MetricsLine) {
        Self::push(self, line);
    }
}

/// A place in a file.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    kind: StepKind,
    offset: u64,
    last: Option<u64>,
}

impl Tail {
    pub(super) fn new(path: PathBuf, kind: StepKind) -> Self {
        Self { path, kind, offset: 0, last: None }
    }

    /// Passes on the complete lines since the last time. A file that was cut or replaced, as by a run that returned to
    /// a checkpoint, is read from its beginning. One that does not exist has no lines.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(super) fn read(&mut self, sink: &mut impl Sink) -> io::Result<()> {
        if !self.read_on(sink)? {
            (self.offset, self.last) = (0, None);
            sink.clear();
            self.read_on(sink)?;
        }
        Ok(())
    }

    /// Returns whether the file goes on where the last reading ended.
    fn read_on(&mut self, sink: &mut impl Sink) -> io::Result<bool> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self.offset == 0),
            Err(error) => return Err(error),
        };
        let length = file.metadata()?.len();
        if length <= self.offset {
            return Ok(length == self.offset);
        }
        let mut reader = BufReader::new(file);
        reader.seek(SeekFrom::Start(self.offset))?;
        let mut text = Vec::new();
        loop {
            text.clear();
            let read = reader.read_until(b'\n', &mut text)?;
            if text.last() != Some(&b'\n') {
                return Ok(true);
            }
            let line = std::str::from_utf8(&text).ok().and_then(|text| MetricsLine::from_json(self.kind, text));
            let follows = |line: &MetricsLine| self.last.is_none_or(|last| last < line.step);
            let Some(line) = line.filter(follows) else {
                // From its beginning such a file is read past the line.
                if self.offset > 0 && self.last.is_some() {
                    return Ok(false);
                }
                self.offset += read as u64;
                continue;
            };
            self.offset += read as u64;
            self.last = Some(line.step);
            sink.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn text(steps: std::ops::Range<u64>, value: f64) -> String {
        let line = |step| {
            let mut line = MetricsLine::new(StepKind::Train, step, step);
            line.set_named("a", value);
            format!("{}\n", line.to_json())
        };
        steps.map(line).collect()
    }

    #[test]
    fn lines_are_read_once_and_half_a_line_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut tail = Tail::new(path.clone(), StepKind::Train);
        let mut lines = Vec::new();
        tail.read(&mut lines).unwrap();
        assert!(lines.is_empty(), "there is no file yet");
        let all = text(0..3, 1.0);
        for cut in [0, 10, all.len() / 2, all.len()] {
            std::fs::write(&path, &all[..cut]).unwrap();
            tail.read(&mut lines).unwrap();
        }
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(text(3..5, 1.0).as_bytes()).unwrap();
        tail.read(&mut lines).unwrap();
        assert_eq!(lines.iter().map(|line| line.step).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_file_that_was_cut_is_read_again_whatever_its_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        for steps in [2, 5, 9] {
            let mut tail = Tail::new(path.clone(), StepKind::Train);
            let mut curves = Curves::default();
            std::fs::write(&path, text(0..5, 1.0)).unwrap();
            tail.read(&mut curves).unwrap();
            // The run returned to step 1 and went on with other values.
            std::fs::write(&path, text(0..1, 1.0) + &text(1..steps, 22.5)).unwrap();
            tail.read(&mut curves).unwrap();
            tail.read(&mut curves).unwrap();
            assert_eq!((curves.count(), curves.at("a", 1)), (steps, Some(22.5)), "{steps} steps");
        }
    }
}
