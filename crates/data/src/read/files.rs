//! Finds the files that names in settings stand for.

use std::path::{Path, PathBuf};

use crate::{Cancel, Cancelled, DataError};

/// Most `*` of a pattern.
const MAX_STARS: usize = 8;

/// The files that a name stands for: itself, or what matches it where it is a pattern (`*`, `?`, `[a-z]`), in
/// alphabetical order.
///
/// # Errors
/// An invalid pattern, one that searches whole trees (`**`), or one that no file matches.
pub fn expand(name: &Path, cancel: Cancel<'_>) -> Result<Vec<PathBuf>, DataError> {
    let pattern = match name.to_str() {
        // A file may have such characters in its name.
        Some(text) if text.contains(['*', '?', '[']) && !name.exists() => text,
        _ => return Ok(vec![name.to_owned()]),
    };
    // A recipe may come over the network, and a whole disk takes long to search.
    if pattern.contains("**") {
        return Err(DataError::file(name, "is a pattern with `**`, allowed: `*` for a part of each name"));
    }
    // Each of them multiplies what is searched and compared.
    if pattern.matches('*').count() > MAX_STARS {
        return Err(DataError::file(name, format!("is a pattern with more than {MAX_STARS} `*`")));
    }
    let found = glob::glob(pattern).map_err(|error| DataError::file(name, format!("is not a pattern: {error}")))?;
    let mut files = Vec::new();
    for path in found.flatten().filter(|path| !path.is_dir()) {
        Cancelled::check(cancel)?;
        files.push(path);
    }
    if files.is_empty() {
        return Err(DataError::file(name, "matches no file, allowed: a file, or a pattern that matches at least one"));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_the_files_that_match_it_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.jsonl", "a.jsonl", "c.txt", "[x].jsonl"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        std::fs::create_dir(dir.path().join("d.jsonl")).unwrap();
        let names = |pattern: &str| {
            let files = expand(&dir.path().join(pattern), &|| false).map_err(|error| error.to_string())?;
            let names = files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned());
            Ok::<_, String>(names.collect::<Vec<_>>())
        };
        assert_eq!(names("?.jsonl").unwrap(), ["a.jsonl", "b.jsonl"]);
        assert_eq!(names("[x].jsonl").unwrap(), ["[x].jsonl"], "a file of that name is meant");
        assert_eq!(names("absent.jsonl").unwrap(), ["absent.jsonl"], "opening it reports that it is absent");
        assert!(names("*.parquet").unwrap_err().contains("matches no file"));
        assert!(names("**/a.jsonl").unwrap_err().contains("is a pattern with `**`"));
        assert!(names(&format!("{}b", "*a".repeat(9))).unwrap_err().contains("more than 8 `*`"));
        assert!(names("a[.jsonl").unwrap_err().contains("is not a pattern"));
    }
}
