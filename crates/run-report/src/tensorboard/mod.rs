//! Event files for TensorBoard: the lines of a run as it reads them.
//!
//! A file is a sequence of TFRecords, each with an `Event` message of TensorFlow. Only scalars are written, so both
//! formats are a few lines here ([`record`], [`event`]).

mod event;
mod file;
mod record;

use std::path::Path;

use evenkeel_proto::Label;
use evenkeel_proto::v1::StepKind;

use evenkeel_run::{MetricsLine, RunFilesError, TENSORBOARD_FOLDER};
use file::EventFile;

/// The event files of a run: one for each kind of lines, which TensorBoard shows as runs of their own, since each
/// counts its own steps.
pub struct EventFiles {
    warm_start: EventFile,
    steps: EventFile,
    evaluations: EventFile,
}

impl EventFiles {
    /// Opens the files in a run directory, or creates them.
    ///
    /// # Errors
    /// A file that cannot be written, or is not an event file.
    pub fn open(directory: &Path) -> Result<Self, RunFilesError> {
        let file = |kind: StepKind| EventFile::open(&directory.join(TENSORBOARD_FOLDER).join(kind.label()));
        Ok(Self {
            warm_start: file(StepKind::WarmStart)?,
            steps: file(StepKind::Train)?,
            evaluations: file(StepKind::Evaluation)?,
        })
    }

    /// Adds a line, unless it was added before.
    ///
    /// # Errors
    /// A file that cannot be written; its content is then unchanged.
    pub fn append(&mut self, line: &MetricsLine) -> Result<(), RunFilesError> {
        self.of(line.kind).append(line.step, &line.values)
    }

    /// What was shown of a line and those after it does not count any more.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn forget_from(&mut self, kind: StepKind, step: u64) -> Result<(), RunFilesError> {
        self.of(kind).forget_from(step)
    }

    /// The file of a kind.
    pub fn path(&self, kind: StepKind) -> &Path {
        match kind {
            StepKind::WarmStart => self.warm_start.path(),
            StepKind::Evaluation => self.evaluations.path(),
            StepKind::Train | StepKind::Progress | StepKind::Unspecified => self.steps.path(),
        }
    }

    fn of(&mut self, kind: StepKind) -> &mut EventFile {
        match kind {
            StepKind::WarmStart => &mut self.warm_start,
            StepKind::Evaluation => &mut self.evaluations,
            StepKind::Train | StepKind::Progress | StepKind::Unspecified => &mut self.steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::event::{EventContent, event};
    use super::record::record;

    /// What `tests/golden/make_tfevents.py` wrote with the package of TensorBoard itself.
    const GOLDEN: &[u8] = include_bytes!("../../tests/golden/tfevents.bin");

    #[test]
    fn events_are_those_that_tensorboard_writes_itself_to_the_byte() {
        let values = |values: &[(&str, f64)]| -> BTreeMap<String, f64> {
            values.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
        };
        let first = values(&[("critic/score/mean", 0.1), ("actor/lr", 1.5e-4)]);
        let second = values(&[("critic/score/mean", -2.5), ("timing_s/step", 12.0)]);
        let began = 1_700_000_000.25;
        let events = [
            event(began, 0, &EventContent::FileVersion),
            event(began + 1.0, 1, &EventContent::Scalars(&first)),
            event(began + 300.0, 300, &EventContent::Scalars(&second)),
            event(began + 300.0, 300, &EventContent::Restart),
        ];
        let written: Vec<u8> = events.iter().flat_map(|event| record(event)).collect();
        assert_eq!(written, GOLDEN);
    }
}
