//! `inputs.json`: what a run was begun with.

use std::path::Path;

use evenkeel_host::{FieldsDigest, FileDigest, read_optional};
use serde::{Deserialize, Serialize};

use super::input::{Input, InputKind};
use super::rules::{Rules, without_place};
use crate::error::RunFilesError;
use crate::layout::INPUTS_FILE;

/// The layout of the file.
const FORMAT: u32 = 1;

/// Largest such file, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// All kinds, in the order in which changes are told.
const KINDS: [InputKind; 6] = [
    InputKind::TrainingData,
    InputKind::EvaluationData,
    InputKind::Model,
    InputKind::Teacher,
    InputKind::Reward,
    InputKind::Environment,
];

/// Changes of what a run reads with which it was resumed: of code of the user's own, and others that the user accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedChanges {
    /// GRPO steps that it had done.
    pub step: u64,
    /// What had changed, a sentence each.
    pub changes: Vec<String>,
}

/// What a run reads, and the settings that decide what it computes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRecord {
    format: u32,
    /// Settings of rules when the run began.
    pub settings: Rules,
    /// Data files in the order in which they are read, then the parts of the model.
    pub inputs: Vec<Input>,
    /// The changes since the run began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<AcceptedChanges>,
}

impl InputRecord {
    /// The record of a run that begins.
    pub fn new(settings: Rules, inputs: Vec<Input>) -> Self {
        Self { format: FORMAT, settings, inputs, accepted: Vec::new() }
    }

    /// The digest of the settings, without the places of files and servers.
    pub fn settings_digest(&self) -> String {
        let mut digest = FieldsDigest::new();
        let settings = self.settings.iter().filter_map(|(key, value)| Some((key, without_place(key, value)?)));
        for (key, value) in settings {
            digest.text(key).text(&value);
        }
        digest.finish_named()
    }

    /// The digest of what is in the files, in their order: for each what it is read for, its name and its digest.
    pub fn inputs_digest(&self) -> String {
        let mut digest = FieldsDigest::new();
        for Input { kind, name, digest: content, .. } in &self.inputs {
            digest.text(kind.words()).text(name).text(content);
        }
        digest.finish_named()
    }

    /// The record with changes that were accepted.
    pub fn with_accepted(self, accepted: Vec<AcceptedChanges>) -> Self {
        Self { accepted, ..self }
    }

    /// The record of a run directory; `None` where there is none.
    ///
    /// # Errors
    /// A file that cannot be read or was not written by this program.
    pub fn read(directory: &Path) -> Result<Option<Self>, RunFilesError> {
        let broken = |message: String| RunFilesError::directory(directory, format!("{INPUTS_FILE} {message}"));
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
    pub fn changes(&self, found: &[Input]) -> Vec<String> {
        KINDS.into_iter().flat_map(|kind| self.changes_of(kind, found)).collect()
    }

    /// What is not as it was, a sentence each: first for inputs that are code of the user's own, then for all others.
    pub fn changes_of_code(&self, found: &[Input]) -> (Vec<String>, Vec<String>) {
        let (code, others): (Vec<_>, Vec<_>) = KINDS.into_iter().partition(|kind| kind.is_code());
        let changes = |kinds: Vec<InputKind>| kinds.into_iter().flat_map(|kind| self.changes_of(kind, found)).collect();
        (changes(code), changes(others))
    }

    /// What is not as it was among the inputs of one kind, a sentence each.
    pub fn changes_of(&self, kind: InputKind, found: &[Input]) -> Vec<String> {
        let of_kind = |inputs: &[Input]| inputs.iter().filter(|input| input.kind == kind).cloned().collect::<Vec<_>>();
        let before = of_kind(&self.inputs);
        let now = of_kind(found);
        changes_of(kind, &before, &now)
    }

    /// The data files that are where they were and have another content.
    pub fn changed_data(&self) -> Vec<String> {
        self.changed_files(|kind| matches!(kind, InputKind::TrainingData | InputKind::EvaluationData))
    }

    /// Files of some kinds with other bytes than recorded, a sentence each. One that cannot be read is left to whoever
    /// needs it.
    fn changed_files(&self, of_kind: impl Fn(InputKind) -> bool) -> Vec<String> {
        let inputs = self.inputs.iter().filter(|input| of_kind(input.kind));
        let now = inputs.filter_map(|input| {
            let digest = FileDigest::of(&input.path).ok()?.to_string();
            (digest != input.digest).then(|| changed(input, &input.digest, &digest))
        });
        now.collect()
    }
}

/// The changes that the run in a directory has accepted; none if its record cannot be read, which a resume reports.
pub fn accepted_changes(directory: &Path) -> Vec<AcceptedChanges> {
    InputRecord::read(directory).ok().flatten().map(|record| record.accepted).unwrap_or_default()
}

/// Reward functions, rubrics and templates of the run in a directory with other bytes than recorded, a sentence each;
/// none if its record cannot be read.
pub fn changed_rewards(directory: &Path) -> Vec<String> {
    let record = InputRecord::read(directory).ok().flatten();
    record.map(|record| record.changed_files(|kind| kind == InputKind::Reward)).unwrap_or_default()
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
        kind @ (InputKind::Model | InputKind::Teacher) => {
            format!("{} of the {} {}", input.name, kind.words(), input.path.display())
        }
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
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        Input { kind, name, path: path.into(), digest: digest.to_owned(), stamps: Vec::new() }
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
        /// Files with their digests, and the messages about their changes.
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
    fn code_that_was_mended_is_told_apart_from_what_the_run_learns_of() {
        let inputs = |data: &str, reward: &str| {
            vec![
                input(InputKind::TrainingData, "/x/a", data),
                input(InputKind::Reward, "/x/reward.py", reward),
                input(InputKind::Environment, "/x/shop.py", reward),
            ]
        };
        let record = InputRecord::new(Rules::new(), inputs("sha256:1", "sha256:2"));
        let (code, others) = record.changes_of_code(&inputs("sha256:3", "sha256:4"));
        assert_eq!(others, ["data file /x/a has sha256:3, it had sha256:1"]);
        assert_eq!(
            code,
            [
                "file of reward functions /x/reward.py has sha256:4, it had sha256:2",
                "environment /x/shop.py has sha256:4, it had sha256:2"
            ]
        );
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
