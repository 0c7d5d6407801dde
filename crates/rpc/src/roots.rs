//! The folders and files that clients may name.

use std::path::{Component, Path, PathBuf, absolute};

use evenkeel_proto::FieldError;

/// Where a named folder or file may be.
#[derive(Debug, Clone, Copy)]
pub enum Roots<'a> {
    Anywhere,
    /// Below one of these folders; nowhere if there are none.
    Below {
        /// The path of the setting.
        setting: &'a str,
        folders: &'a [PathBuf],
    },
}

impl<'a> Roots<'a> {
    /// Below one of the folders of a setting, or anywhere if it has none.
    pub fn or_anywhere(setting: &'a str, folders: &'a [PathBuf]) -> Self {
        if folders.is_empty() { Self::Anywhere } else { Self::Below { setting, folders } }
    }
}

/// What a message says is allowed.
fn allowed(what: &str, setting: &str, folders: &[PathBuf]) -> String {
    let named: Vec<String> = folders.iter().map(|root| root.display().to_string()).collect();
    let named = if named.is_empty() { "none is set".to_owned() } else { named.join(", ") };
    format!("{what} below {setting} ({named})")
}

/// Refuses a folder that is not below one of the roots, or that contains anything but regular files and folders below
/// the roots. Links are resolved if this process can see the folder (`is_visible`). `field` is the field of the
/// request.
///
/// # Errors
/// The field, by its name.
pub fn validate_folder(field: &str, path: &str, roots: Roots<'_>, is_visible: bool) -> Result<(), FieldError> {
    let Roots::Below { setting, folders: roots } = roots else { return Ok(()) };
    let refused = |what: String| {
        let value = format!("{what}, in `{}`", shortened(path));
        Err(FieldError::new(field, value, allowed("a folder", setting, roots)))
    };
    let folder = Path::new(path);
    // First by name only, so that the error about a folder elsewhere does not reveal whether it exists.
    let climbs = folder.components().any(|component| component == Component::ParentDir);
    let is_below = |folder: &Path| {
        roots.iter().any(|root| {
            let written = absolute(root).is_ok_and(|root| folder.starts_with(root));
            written || root.canonicalize().is_ok_and(|root| folder.starts_with(root))
        })
    };
    if !folder.is_absolute() || climbs || !is_below(folder) {
        return refused("a folder elsewhere".to_owned());
    }
    if !is_visible {
        return Ok(());
    }
    let resolved_below = |path: &Path| {
        path.canonicalize().is_ok_and(|path| {
            roots.iter().any(|root| root.canonicalize().is_ok_and(|root| path != root && path.starts_with(root)))
        })
    };
    // A missing folder is reported by its reader.
    let Ok(entries) = folder.read_dir() else { return Ok(()) };
    if !resolved_below(folder) {
        return refused("a link that leads elsewhere".to_owned());
    }
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let is_plain = std::fs::metadata(&path).is_ok_and(|found| found.is_file() || found.is_dir());
        if !is_plain || !resolved_below(&path) {
            return refused(format!("{name:?}, which is not a regular file below a root"));
        }
    }
    Ok(())
}

/// Refuses a file that is not below one of the roots, as written (made absolute, without `..`) and with links resolved.
/// `field` is the field of the request.
///
/// # Errors
/// The field, by its name.
pub fn validate_file(field: &str, file: &Path, roots: Roots<'_>) -> Result<(), FieldError> {
    let Roots::Below { setting, folders: roots } = roots else { return Ok(()) };
    let refused = |what: &str| {
        let value = format!("{what}, in `{}`", shortened(&file.to_string_lossy()));
        FieldError::new(field, value, allowed("a file", setting, roots))
    };
    let climbs = file.components().any(|component| component == Component::ParentDir);
    let absolute_file = absolute(file).map_err(|_| refused("no path"))?;
    let is_below = |root: &PathBuf| {
        let written = absolute(root).is_ok_and(|root| absolute_file.starts_with(root));
        written || root.canonicalize().is_ok_and(|root| absolute_file.starts_with(root))
    };
    if climbs || !roots.iter().any(is_below) {
        return Err(refused("a file elsewhere"));
    }
    // A missing file is reported by its reader.
    let Ok(resolved) = file.canonicalize() else { return Ok(()) };
    let holds = |root: &PathBuf| root.canonicalize().is_ok_and(|root| resolved.starts_with(root));
    if roots.iter().any(holds) { Ok(()) } else { Err(refused("a link that leads elsewhere")) }
}

/// A path cut to a length for messages.
fn shortened(path: &str) -> String {
    const MOST: usize = 256;
    if path.chars().count() <= MOST { path.to_owned() } else { path.chars().take(MOST).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn weights(root: &Path, name: &str) -> PathBuf {
        let folder = root.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("model.safetensors"), "").unwrap();
        folder
    }

    #[test]
    fn folders_below_a_root_are_accepted_and_others_refused_however_they_are_reached() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let root = dir.join("weights");
        let other = weights(&dir, "other");
        let inside = weights(&root, "step-1");
        symlink(&other, root.join("link")).unwrap();
        let linked = root.join("step-2");
        std::fs::create_dir(&linked).unwrap();
        symlink(other.join("model.safetensors"), linked.join("model.safetensors")).unwrap();
        let folders = [root.clone()];
        let roots = Roots::or_anywhere("weights.roots", &folders);
        let check = |path: &Path| validate_folder("path", path.to_str().unwrap(), roots, true);
        assert_eq!(check(&inside), Ok(()));
        assert_eq!(check(&root.join("step-9")), Ok(()), "a missing folder is reported by its reader");
        for path in [other.clone(), root.join("../other"), inside.join("../../other"), "weights/step-1".into()] {
            let error = check(&path).unwrap_err().to_string();
            assert!(error.contains("a folder elsewhere") && error.contains("below weights.roots"), "{error}");
        }
        for path in [root.join("link"), linked, root.clone()] {
            assert!(check(&path).is_err(), "{}", path.display());
        }
        // Where only the engines see the folders, the names alone are checked.
        let unseen = |path: &Path| validate_folder("path", path.to_str().unwrap(), roots, false);
        assert_eq!(unseen(&root.join("link")), Ok(()));
        assert!(unseen(&other).is_err());
        let other = other.to_str().unwrap();
        assert_eq!(validate_folder("path", other, Roots::or_anywhere("weights.roots", &[]), true), Ok(()));
        let nowhere = Roots::Below { setting: "weights.roots", folders: &[] };
        let none = validate_folder("path", other, nowhere, true).unwrap_err().to_string();
        assert!(none.contains("none is set"), "{none}");
    }

    #[test]
    fn a_root_may_itself_be_reached_by_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let folder = weights(&dir.join("disk"), "step-1");
        symlink(dir.join("disk"), dir.join("weights")).unwrap();
        let roots = Roots::Below { setting: "weights.roots", folders: &[dir.join("weights")] };
        for path in [folder, dir.join("weights/step-1")] {
            assert_eq!(validate_folder("path", path.to_str().unwrap(), roots, true), Ok(()));
        }
    }

    #[test]
    fn a_file_is_below_a_root_by_name_and_with_links_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let root = dir.join("data");
        let secret = dir.join("secret");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(&secret, "x").unwrap();
        std::fs::write(root.join("train.jsonl"), "{}").unwrap();
        symlink(&secret, root.join("link.jsonl")).unwrap();
        symlink(&dir, root.join("up")).unwrap();
        let folders = [root.clone()];
        let check = |file: PathBuf| {
            validate_file("data.files[0]", &file, Roots::Below { setting: "limits.roots", folders: &folders })
                .map_err(|error| error.to_string())
        };
        assert_eq!(check(root.join("train.jsonl")), Ok(()));
        assert_eq!(check(root.join("absent.jsonl")), Ok(()), "a missing file is reported by its reader");
        for file in [secret.clone(), root.join("../secret"), "train.jsonl".into(), dir.join("data-2/x")] {
            let error = check(file).unwrap_err();
            assert!(error.starts_with("data.files[0] is a file elsewhere"), "{error}");
            assert!(error.contains("below limits.roots"), "{error}");
        }
        for file in ["link.jsonl", "up/secret"] {
            let error = check(root.join(file)).unwrap_err();
            assert!(error.starts_with("data.files[0] is a link that leads elsewhere"), "{error}");
        }
        let none = validate_file("x", &secret, Roots::Below { setting: "limits.roots", folders: &[] }).unwrap_err();
        assert!(none.to_string().contains("none is set"), "{none}");
    }
}
