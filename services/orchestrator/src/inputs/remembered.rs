//! Digests of large files that earlier runs have read, in the user's cache folder, so that a new run need not read them
//! again. A cache that cannot be read or written is one that remembers nothing.

use std::path::{Path, PathBuf};

use evenkeel_host::{cache_folder, read_optional, replace};
use evenkeel_run::Input;

/// Most inputs that are remembered.
const MOST: usize = 64;

/// Largest file of them, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// What earlier runs have found in large files, the newest first.
pub(crate) fn remembered() -> Vec<Input> {
    place().map(|path| read(&path)).unwrap_or_default()
}

/// Remembers what a run has found in large files besides what is `known`.
pub(crate) fn remember(found: &[Input], known: &[Input]) {
    if let Some(path) = place().filter(|_| found.iter().any(|input| is_large(input) && !known.contains(input))) {
        write(&path, found);
    }
}

fn place() -> Option<PathBuf> {
    cache_folder().map(|folder| folder.join("digests.json"))
}

/// Others are read each time.
fn is_large(input: &Input) -> bool {
    !input.stamps.is_empty()
}

fn read(path: &Path) -> Vec<Input> {
    let bytes = read_optional(path, MAX_BYTES).ok().flatten().unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// What was found replaces what was known of the same place.
fn write(path: &Path, found: &[Input]) {
    let place = |input: &Input| (input.kind, input.name.clone(), input.path.clone());
    let found: Vec<&Input> = found.iter().filter(|input| is_large(input)).collect();
    let earlier = read(path);
    let others = earlier.iter().filter(|input| !found.iter().any(|new| place(new) == place(input)));
    let all: Vec<&Input> = found.iter().copied().chain(others).take(MOST).collect();
    let written = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| {
        let text = serde_json::to_vec(&all).map_err(std::io::Error::other)?;
        replace(path, text)
    });
    if let Err(error) = written {
        tracing::debug!(%error, path = %path.display(), "digests of large files are not remembered");
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_host::FileStamp;
    use evenkeel_run::InputKind;

    use super::*;

    fn input(path: &str, digest: &str, stamps: Vec<FileStamp>) -> Input {
        let (name, digest) = ("weights".to_owned(), digest.to_owned());
        Input { kind: InputKind::Model, name, path: path.into(), digest, stamps }
    }

    #[test]
    fn the_newest_digest_of_each_place_is_remembered_and_none_of_small_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache").join("digests.json");
        assert_eq!(read(&path), []);
        let stamp = vec![FileStamp::of(dir.path()).unwrap()];
        let [one, other, newer] = [("/a", "sha256:1"), ("/b", "sha256:2"), ("/a", "sha256:3")]
            .map(|(path, digest)| input(path, digest, stamp.clone()));
        write(&path, &[one, input("/c", "sha256:4", Vec::new())]);
        write(&path, std::slice::from_ref(&other));
        write(&path, std::slice::from_ref(&newer));
        assert_eq!(read(&path), [newer, other]);
        std::fs::write(&path, "broken").unwrap();
        assert_eq!(read(&path), []);
    }
}
