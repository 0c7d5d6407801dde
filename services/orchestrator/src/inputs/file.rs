//! One input: a file, or several that are one thing.

use std::path::{Path, PathBuf};

use evenkeel_data::{Cancel, Cancelled, DataReport, Purpose};
use evenkeel_environment::{Description, Descriptions, EnvironmentOrigin};
use evenkeel_host::{FileDigest, FileStamp};
use evenkeel_run::{Input, InputKind};

use crate::error::RunError;

/// From this size on, in bytes, a file that is where it was, with the length, times and inode that it had, is not read
/// again.
const LARGE: u64 = 64 << 20;

/// What is known of inputs from before, so that large files need not be read again.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) inputs: &'a [Input],
    /// Whether everything is read all the same.
    pub(crate) read_again: bool,
    pub(crate) cancel: Cancel<'a>,
}

/// An input that consists of these files, all in or below `path`. `digest` reads them.
pub(super) fn input(
    kind: InputKind,
    name: &str,
    path: &Path,
    files: &[PathBuf],
    known: Known<'_>,
    digest: impl FnOnce() -> Result<String, RunError>,
) -> Result<Input, RunError> {
    Cancelled::check(known.cancel)?;
    let stamps = || -> Result<Vec<FileStamp>, RunError> {
        let stamps = files.iter().map(|file| FileStamp::of(file).map_err(RunError::file(file)));
        let stamps = stamps.collect::<Result<Vec<_>, _>>()?;
        let is_large = stamps.iter().map(|stamp| stamp.bytes).sum::<u64>() >= LARGE;
        Ok(if is_large { stamps } else { Vec::new() })
    };
    let before = stamps()?;
    let same = |input: &&Input| {
        (input.kind, input.name.as_str(), input.path.as_path()) == (kind, name, path) && input.stamps == before
    };
    let known = known.inputs.iter().find(same).filter(|_| !before.is_empty() && !known.read_again);
    let digest = match known {
        Some(input) => input.digest.clone(),
        None => digest()?,
    };
    // A file that is written meanwhile is read the next time.
    let stamps = if stamps()? == before { before } else { Vec::new() };
    Ok(Input { kind, name: name.to_owned(), path: path.to_owned(), digest, stamps })
}

/// The data files that a report names, in the order in which they are read. Their digests are added to the report, so
/// that it is known later what a run was trained on.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn of_data(report: &mut DataReport, known: Known<'_>) -> Result<Vec<Input>, RunError> {
    let files = report.files.iter_mut().filter(|file| !file.file.is_empty());
    let inputs = files.map(|file| {
        let path = std::path::absolute(&file.file).map_err(RunError::file(&file.file))?;
        let kind = kind_of(file.part);
        let read = || FileDigest::of(&path).map(|digest| digest.to_string()).map_err(RunError::file(&path));
        let input = input(kind, &file_name(&path), &path, std::slice::from_ref(&path), known, read)?;
        file.digest = Some(input.digest.clone());
        Ok(input)
    });
    inputs.collect()
}

/// The files with reward functions that a run calls, in the order of the names of verifiers.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn of_rewards<'a>(files: impl Iterator<Item = &'a Path>, known: Known<'_>) -> Result<Vec<Input>, RunError> {
    let inputs = files.map(|file| {
        let path = std::path::absolute(file).map_err(RunError::file(file))?;
        let read = || FileDigest::of(&path).map(|digest| digest.to_string()).map_err(RunError::file(&path));
        input(InputKind::Reward, &file_name(&path), &path, std::slice::from_ref(&path), known, read)
    });
    inputs.collect()
}

/// The environments that do not come with the program, in the order of their names, by what their workers say of them.
pub(crate) fn of_environments(described: &Descriptions) -> Vec<Input> {
    let described = described.values().filter(|environment| !environment.digest.is_empty());
    let input = |environment: &Description| {
        let path = match EnvironmentOrigin::of("environment", &environment.name) {
            Ok(EnvironmentOrigin::Agent(path)) => Path::new(path),
            _ => Path::new(&environment.name),
        };
        Input {
            kind: InputKind::Environment,
            name: file_name(path),
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            digest: environment.digest.clone(),
            stamps: Vec::new(),
        }
    };
    described.map(input).collect()
}

fn kind_of(part: Purpose) -> InputKind {
    match part {
        Purpose::Training => InputKind::TrainingData,
        Purpose::Evaluation => InputKind::EvaluationData,
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs::{File, FileTimes};

    use super::*;

    /// The digest of a file of that size, and how often it was read; the first time nothing is known of it.
    struct Looks {
        path: PathBuf,
        inputs: Vec<Input>,
        reads: Cell<u32>,
    }

    impl Looks {
        fn at(path: PathBuf) -> Self {
            let mut looks = Self { path, inputs: Vec::new(), reads: Cell::new(0) };
            looks.inputs.push(looks.look(false));
            looks
        }

        fn look(&self, read_again: bool) -> Input {
            let known = Known { inputs: &self.inputs, read_again, cancel: &|| false };
            let read = || {
                self.reads.set(self.reads.get() + 1);
                Ok(FileDigest::of(&self.path).unwrap().to_string())
            };
            let files = std::slice::from_ref(&self.path);
            input(InputKind::TrainingData, "a", &self.path, files, known, read).unwrap()
        }
    }

    #[test]
    fn a_large_file_is_read_again_only_where_it_may_have_changed_or_the_settings_say_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = File::create(&path).unwrap();
        file.set_len(LARGE).unwrap();
        let looks = Looks::at(path.clone());
        assert_eq!((looks.look(false), looks.reads.get()), (looks.inputs[0].clone(), 1));
        assert_eq!((looks.look(true), looks.reads.get()), (looks.inputs[0].clone(), 2));
        // The same length and time of writing, another content.
        let written = file.metadata().unwrap().modified().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        std::os::unix::fs::FileExt::write_at(&file, b"1", 7).unwrap();
        file.set_times(FileTimes::new().set_modified(written)).unwrap();
        let changed = looks.look(false);
        assert_eq!(looks.reads.get(), 3);
        assert_ne!(changed.digest, looks.inputs[0].digest);
    }

    #[test]
    fn a_small_file_is_always_read_and_a_start_that_nobody_wants_reads_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "1").unwrap();
        let looks = Looks::at(path.clone());
        looks.look(false);
        assert_eq!(looks.reads.get(), 2);
        let known = Known { inputs: &[], read_again: false, cancel: &|| true };
        let refused = input(InputKind::TrainingData, "a", &path, &[], known, || panic!("nothing is read"));
        assert!(matches!(refused, Err(RunError::Cancelled)));
    }
}
