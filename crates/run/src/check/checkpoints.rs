//! Checkpoints in the run's own folder: their state by its digest in the receipt, their files by those in the state.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_host::{FileDigest, read, sha256};
use serde::Deserialize;

use super::{Covered, LineKind, ReceiptCheck, digest_of, listed};
use crate::directory::RunManifest;
use crate::error::RunFilesError;
use crate::layout::CHECKPOINTS_FOLDER;

/// The file of a checkpoint with the digests of its others.
const STATE_FILE: &str = "state.json";

/// Largest state that is read, in bytes.
const MAX_STATE_BYTES: u64 = 1 << 20;

/// What is read of a state.
#[derive(Deserialize)]
struct State {
    files: BTreeMap<String, FileDigest>,
}

pub(super) fn compare(run: &Path, covered: &Covered<'_>, check: &mut ReceiptCheck) -> Result<(), RunFilesError> {
    // What is wrong with the manifest has been told.
    let Ok(Some(manifest)) = RunManifest::read(run) else { return Ok(()) };
    let folder = format!("{CHECKPOINTS_FOLDER}/{}", manifest.run_id);
    let of_checkpoints = covered.lines.iter().filter(|line| line.kind == LineKind::Checkpoint);
    let known: BTreeMap<u64, Option<&String>> =
        of_checkpoints.map(|line| (line.step, line.observed.checkpoint.as_ref())).collect();
    let found = steps_in(&run.join(&folder));
    let mut not_kept = Vec::new();
    for (&step, digest) in &known {
        let Some(name) = found.get(&step) else {
            not_kept.push(step);
            continue;
        };
        let name = format!("{folder}/{name}");
        compare_one(run, (&name, step), Some(digest.map_or("", String::as_str)), check)?;
    }
    for (&step, name) in found.iter().filter(|(step, _)| !known.contains_key(step)) {
        // A process may end between the checkpoint and its line.
        if step == covered.last && !covered.has_ended {
            check.notes.push(format!("the checkpoint after step {step} is not in the receipt yet"));
        } else if step > covered.last && covered.is_resumed {
            check.notes.push(format!("the checkpoint after step {step} is from before the run was resumed"));
        } else if step > covered.first {
            check.differs(format!("{folder}/{name}"), Some(step), "belongs to no step of the receipt");
        }
    }
    // The checkpoint that a fork begins with is in no line of its receipt, but its files must fit together.
    if let Some(origin) = &manifest.forked_from {
        let folder = format!("{CHECKPOINTS_FOLDER}/{}", origin.run_id);
        if let Some(name) = steps_in(&run.join(&folder)).get(&origin.step) {
            compare_one(run, (&format!("{folder}/{name}"), origin.step), None, check)?;
        }
    }
    if !not_kept.is_empty() {
        check.notes.push(format!("checkpoints that are not kept here: after steps {}", listed(&not_kept)));
    }
    Ok(())
}

/// Compares the state of a checkpoint with its digest, where there is one, and its files with the state.
fn compare_one(
    run: &Path,
    (name, step): (&str, u64),
    expected: Option<&str>,
    check: &mut ReceiptCheck,
) -> Result<(), RunFilesError> {
    let path = run.join(name);
    let Ok(text) = read(&path.join(STATE_FILE), MAX_STATE_BYTES) else {
        check.differs(format!("{name}/{STATE_FILE}"), Some(step), "cannot be read");
        return Ok(());
    };
    if expected.is_some_and(|expected| sha256(&text) != expected) {
        check.differs(format!("{name}/{STATE_FILE}"), Some(step), "is not what the run wrote");
        return Ok(());
    }
    let Ok(state) = serde_json::from_slice::<State>(&text) else { return Ok(()) };
    for (file, expected) in &state.files {
        match digest_of(&path.join(file))? {
            Some(found) if found == *expected => {}
            Some(_) => check.differs(format!("{name}/{file}"), Some(step), "is not what the run wrote"),
            None => check.differs(format!("{name}/{file}"), Some(step), "is gone"),
        }
    }
    Ok(())
}

/// The checkpoints in a folder with their names; none where there is no folder.
fn steps_in(folder: &Path) -> BTreeMap<u64, String> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| Some((name.strip_prefix("step-")?.parse().ok()?, name))).collect()
}
