//! From names in settings to files.

use std::path::{Path, PathBuf};

use crate::DataError;

/// The files that a name stands for: itself, or what matches it where it is a pattern (`*`, `?`, `[a-z]`, `**`), in alphabetical order.
///
/// # Errors
/// A pattern that is none, or that no file matches.
pub fn expand(name: &Path) -> Result<Vec<PathBuf>, DataError> {
    let pattern = match name.to_str() {
        // A file may have such characters in its name.
        Some(text) if text.contains(['*', '?', '[']) && !name.exists() => text,
        _ => return Ok(vec![name.to_owned()]),
    };
    let found = glob::glob(pattern).map_err(|error| DataError::file(name, format!("is no pattern: {error}")))?;
    let files: Vec<PathBuf> = found.flatten().filter(|path| !path.is_dir()).collect();
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
            let files = expand(&dir.path().join(pattern)).map_err(|error| error.to_string())?;
            let names = files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned());
            Ok::<_, String>(names.collect::<Vec<_>>())
        };
        assert_eq!(names("?.jsonl").unwrap(), ["a.jsonl", "b.jsonl"]);
        assert_eq!(names("[x].jsonl").unwrap(), ["[x].jsonl"], "a file of that name is meant");
        assert_eq!(names("absent.jsonl").unwrap(), ["absent.jsonl"], "whoever opens it says that it is absent");
        assert!(names("*.parquet").unwrap_err().contains("matches no file"));
        assert!(names("a***").unwrap_err().contains("is no pattern"));
    }
}
