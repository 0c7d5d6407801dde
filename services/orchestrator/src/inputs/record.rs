//! `inputs.json`: what a run was begun with.

use std::path::Path;

use evenkeel_files::{FileDigest, read_optional};
use evenkeel_tasks::DataReport;
use serde::{Deserialize, Serialize};

use super::file::{Input, InputKind, kind_of};
use super::rules::Rules;
use crate::error::RunError;

/// The file of a run directory.
pub(crate) const INPUTS_FILE: &str = "inputs.json";

/// Its layout.
const FORMAT: u32 = 1;

/// What stands for the layout where there is no file, and not everything is known.
const EARLIER: u32 = 0;

/// Largest such file, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Changes of what a run reads that somebody accepted when it was resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedChanges {
    /// GRPO steps that it had done.
    pub step: u64,
    /// What had changed, a sentence each.
    pub changes: Vec<String>,
}

/// What a run reads, and the settings that decide what it computes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InputRecord {
    format: u32,
    /// As they were when the run began.
    pub(crate) settings: Rules,
    /// Data files in the order in which they are read, then the parts of the model.
    pub(crate) inputs: Vec<Input>,
    /// The changes since the run began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) accepted: Vec<AcceptedChanges>,
}

impl InputRecord {
    pub(crate) fn new(settings: Rules, inputs: Vec<Input>) -> Self {
        Self { format: FORMAT, settings, inputs, accepted: Vec::new() }
    }

    /// What there is to know of a run that an earlier version of the program began: the digests of its data files.
    pub(crate) fn of_earlier_run(data: &DataReport) -> Self {
        let files = data
            .files
            .iter()
            .filter_map(|file| Some(Input::earlier(kind_of(file.part), Path::new(&file.file), file.digest.as_ref()?)));
        Self { format: EARLIER, ..Self::new(Rules::new(), files.collect()) }
    }

    /// Whether it says of the model what it was.
    pub(crate) fn has_model(&self) -> bool {
        self.inputs.iter().any(|input| input.kind == InputKind::Model)
    }

    /// With changes that were accepted.
    pub(crate) fn with_accepted(self, accepted: Vec<AcceptedChanges>) -> Self {
        Self { accepted, ..self }
    }

    /// That of a run directory; `None` where there is none.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, RunError> {
        let broken = |message: String| RunError::directory(directory, format!("{INPUTS_FILE} {message}"));
        let bytes =
            read_optional(&directory.join(INPUTS_FILE), MAX_BYTES).map_err(|error| broken(error.to_string()))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let record: Self = serde_json::from_slice(&bytes)
            .map_err(|error| broken(format!("was not written by this program: {error}")))?;
        match record.format {
            FORMAT => Ok(Some(record)),
            other => Err(broken(format!("has format {other}, allowed: {FORMAT}"))),
        }
    }

    /// What is not as it was, a sentence each.
    pub(crate) fn changes(&self, found: &[Input]) -> Vec<String> {
        let kinds = [InputKind::TrainingData, InputKind::EvaluationData, InputKind::Model];
        kinds.into_iter().flat_map(|kind| self.changes_of(kind, found)).collect()
    }

    /// The same of the inputs of one kind.
    pub(crate) fn changes_of(&self, kind: InputKind, found: &[Input]) -> Vec<String> {
        let of = |inputs: &[Input]| inputs.iter().filter(|input| input.kind == kind).cloned().collect::<Vec<_>>();
        let (before, now) = (of(&self.inputs), of(found));
        match self.format == EARLIER && before.is_empty() {
            true => Vec::new(),
            false => changes_of(kind, &before, &now),
        }
    }

    /// The data files that are where they were and have another content.
    pub(crate) fn changed_data(&self) -> Vec<String> {
        let data = self.inputs.iter().filter(|input| input.kind != InputKind::Model);
        let now = data.filter_map(|input| {
            let digest = FileDigest::of(&input.path).ok()?.to_string();
            (digest != input.digest).then(|| changed(input, &input.digest, &digest))
        });
        now.collect()
    }
}

/// The changes that the run in a directory went on with; none where its record cannot be read, which a resume reports.
pub(crate) fn accepted_changes(directory: &Path) -> Vec<AcceptedChanges> {
    InputRecord::read(directory).ok().flatten().map(|record| record.accepted).unwrap_or_default()
}

/// What is not as it was among inputs of one kind.
fn changes_of(kind: InputKind, before: &[Input], now: &[Input]) -> Vec<String> {
    let same = |one: &Input, other: &Input| (&one.name, &one.digest) == (&other.name, &other.digest);
    if before.len() == now.len() && before.iter().zip(now).all(|(one, other)| same(one, other)) {
        return Vec::new();
    }
    // A name may come twice, from several folders: each stands for the next one that is not taken.
    let mut left: Vec<&Input> = before.iter().collect();
    let mut changes = Vec::new();
    for input in now {
        let at = left.iter().position(|other| same(other, input));
        match at.or_else(|| left.iter().position(|other| other.name == input.name)).map(|at| left.remove(at)) {
            None => changes.push(format!("{} is new, with {}", shown(input), input.digest)),
            Some(other) if other.digest != input.digest => {
                changes.push(changed(input, &other.digest, &input.digest));
            }
            Some(_) => {}
        }
    }
    changes.extend(left.into_iter().map(|input| format!("{} with {} is gone", shown(input), input.digest)));
    if changes.is_empty() {
        changes.push(format!("each {} is as it was, and they are read in another order", kind.words()));
    }
    changes
}

fn shown(input: &Input) -> String {
    match input.kind {
        InputKind::Model => format!("{} of the model {}", input.name, input.path.display()),
        kind => format!("{} {}", kind.words(), input.path.display()),
    }
}

fn changed(input: &Input, before: &str, now: &str) -> String {
    format!("{} has {now}, it had {before}", shown(input))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(kind: InputKind, path: &str, digest: &str) -> Input {
        Input::earlier(kind, Path::new(path), digest)
    }

    fn data(files: &[(&str, &str)]) -> Vec<Input> {
        files.iter().map(|(path, digest)| input(InputKind::TrainingData, path, digest)).collect()
    }

    #[test]
    fn what_changed_is_named_with_both_digests() {
        let record = InputRecord::new(Rules::new(), data(&[("/x/a", "sha256:1"), ("/x/b", "sha256:2")]));
        let changes = |files: &[(&str, &str)]| record.changes(&data(files));
        assert!(changes(&[("/x/a", "sha256:1"), ("/x/b", "sha256:2")]).is_empty());
        assert!(changes(&[("/y/a", "sha256:1"), ("/z/b", "sha256:2")]).is_empty(), "moved");
        /// Files with their digests, and what is said of them.
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
        let cases: [Case<'_>; 5] = [
            (&[("/x/a", "sha256:1"), ("/x/b", "sha256:3")], &["data file /x/b has sha256:3, it had sha256:2"]),
            (&[("/x/a", "sha256:1")], &["data file /x/b with sha256:2 is gone"]),
            (
                &[("/x/a", "sha256:1"), ("/x/c", "sha256:2")],
                &["data file /x/c is new, with sha256:2", "data file /x/b with sha256:2 is gone"],
            ),
            (
                &[("/x/b", "sha256:2"), ("/x/a", "sha256:1")],
                &["each data file is as it was, and they are read in another order"],
            ),
            (
                &[("/x/a", "sha256:1"), ("/x/b", "sha256:2"), ("/y/b", "sha256:2")],
                &["data file /y/b is new, with sha256:2"],
            ),
        ];
        for (files, expected) in cases {
            assert_eq!(changes(files), expected);
        }
    }

    #[test]
    fn of_a_run_of_an_earlier_version_the_data_are_compared_and_the_model_is_not() {
        let mut report = DataReport::of("x", 3);
        report.files[0].file = "/x/a".to_owned();
        report.files[0].digest = Some("sha256:1".to_owned());
        let record = InputRecord::of_earlier_run(&report);
        let mut found = data(&[("/x/a", "sha256:1")]);
        found.push(input(InputKind::Model, "/m/config.json", "sha256:5"));
        assert!(record.changes(&found).is_empty() && !record.has_model());
        found[0].digest = "sha256:2".to_owned();
        assert_eq!(record.changes(&found), ["data file /x/a has sha256:2, it had sha256:1"]);
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_another_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(InputRecord::read(dir.path()).unwrap(), None);
        let record = InputRecord::new(Rules::new(), data(&[("/x/a", "sha256:1")]));
        let path = dir.path().join(INPUTS_FILE);
        std::fs::write(&path, serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(InputRecord::read(dir.path()).unwrap(), Some(record));
        std::fs::write(&path, "{}").unwrap();
        let error = InputRecord::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("inputs.json was not written by this program"), "{error}");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let error = InputRecord::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("inputs.json is a directory"), "{error}");
    }
}
