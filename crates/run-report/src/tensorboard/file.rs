//! One event file, which outlives the process that writes it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_run::RunFilesError;

use super::event::{EventContent, Meaning, event, meaning};
use super::record::{record, split};

/// TensorBoard takes files whose name contains `tfevents`.
const NAME: &str = "events.out.tfevents.evenkeel";

/// A file with events in ascending order of their steps, but for restarts.
pub(super) struct EventFile {
    path: PathBuf,
    file: File,
    length: u64,
    /// Last step of the events that count.
    last_step: Option<u64>,
}

impl EventFile {
    /// Opens the file in a folder, or creates it. A last event that is not whole (a write that was interrupted) is
    /// removed.
    pub(super) fn open(folder: &Path) -> Result<Self, RunFilesError> {
        std::fs::create_dir_all(folder).map_err(RunFilesError::file(folder))?;
        let path = folder.join(NAME);
        let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = open.map_err(RunFilesError::file(&path))?;
        let mut content = Vec::new();
        file.read_to_end(&mut content).map_err(RunFilesError::file(&path))?;
        let mut rest = content.as_slice();
        let mut last_step = None;
        while let Some((data, behind)) = split(rest) {
            match meaning(data) {
                None => break,
                Some(Meaning::None) => {}
                Some(Meaning::Step(step)) => last_step = Some(step),
                Some(Meaning::Restart(step)) => last_step = step.checked_sub(1),
            }
            rest = behind;
        }
        let length = (content.len() - rest.len()) as u64;
        file.set_len(length).map_err(RunFilesError::file(&path))?;
        let mut events = Self { path, file, length, last_step };
        if length == 0 {
            events.write(0, &EventContent::FileVersion)?;
        }
        Ok(events)
    }

    /// Adds the values of a step, unless it has some.
    pub(super) fn append(&mut self, step: u64, values: &BTreeMap<String, f64>) -> Result<(), RunFilesError> {
        if self.last_step.is_some_and(|last| last >= step) {
            return Ok(());
        }
        self.write(step, &EventContent::Scalars(values))?;
        self.last_step = Some(step);
        Ok(())
    }

    /// Events of this step and of later ones do not count any more.
    pub(super) fn forget_from(&mut self, step: u64) -> Result<(), RunFilesError> {
        if self.last_step.is_none_or(|last| last < step) {
            return Ok(());
        }
        self.write(step, &EventContent::Restart)?;
        self.last_step = step.checked_sub(1);
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, step: u64, what: &EventContent) -> Result<(), RunFilesError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let bytes = record(&event(now, step, what));
        let written = self.file.seek(SeekFrom::Start(self.length)).and_then(|_| self.file.write_all(&bytes));
        if let Err(error) = written {
            // Part of it may be written. If this fails as well, the next opening removes it.
            let _ = self.file.set_len(self.length);
            return Err(RunFilesError::file(&self.path)(error));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(file: &EventFile) -> Vec<Meaning> {
        let content = std::fs::read(&file.path).unwrap();
        let mut rest = content.as_slice();
        let records = std::iter::from_fn(|| {
            let (data, behind) = split(rest)?;
            rest = behind;
            Some(meaning(data).unwrap())
        });
        records.filter(|meaning| *meaning != Meaning::None).collect()
    }

    fn values() -> BTreeMap<String, f64> {
        BTreeMap::from([("critic/score/mean".to_owned(), 0.25)])
    }

    #[test]
    fn a_step_is_shown_once_until_it_is_done_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = EventFile::open(dir.path()).unwrap();
        [0, 1, 2, 2, 1].iter().for_each(|&step| file.append(step, &values()).unwrap());
        file.forget_from(7).unwrap();
        file.forget_from(1).unwrap();
        drop(file);
        let mut file = EventFile::open(dir.path()).unwrap();
        [0, 1, 2].iter().for_each(|&step| file.append(step, &values()).unwrap());
        let expected = [
            Meaning::Step(0),
            Meaning::Step(1),
            Meaning::Step(2),
            Meaning::Restart(1),
            Meaning::Step(1),
            Meaning::Step(2),
        ];
        assert_eq!(steps(&file), expected);
    }

    #[test]
    fn an_event_that_is_not_whole_is_removed_wherever_it_was_cut() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = EventFile::open(dir.path()).unwrap();
        file.append(1, &values()).unwrap();
        let whole = std::fs::read(&file.path).unwrap();
        file.append(2, &values()).unwrap();
        let longer = std::fs::read(&file.path).unwrap();
        let path = file.path.clone();
        for cut in whole.len()..longer.len() {
            std::fs::write(&path, &longer[..cut]).unwrap();
            let mut file = EventFile::open(dir.path()).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), whole, "cut at {cut}");
            file.append(2, &values()).unwrap();
            assert_eq!(steps(&file), [Meaning::Step(1), Meaning::Step(2)]);
        }
    }
}
