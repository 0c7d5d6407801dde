//! The pages that people write: README.md, CONTRIBUTING.md, SECURITY.md and docs/, without what is written from the
//! code.

use std::path::{Path, PathBuf};

/// A page by its path in the repository.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) name: String,
    pub(super) text: String,
}

impl Page {
    pub(super) fn new(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned() }
    }
}

/// Files with this ending below a folder.
pub(super) fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

pub(super) fn all() -> Vec<Page> {
    let root = super::root();
    let mut paths: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root.join(name)).into();
    paths.extend(
        files(&root.join("docs"), ".md").into_iter().filter(|path| !path.starts_with(root.join("docs/reference"))),
    );
    let page = |path: PathBuf| Page {
        name: path.strip_prefix(&root).unwrap().display().to_string(),
        text: std::fs::read_to_string(&path).unwrap(),
    };
    paths.into_iter().map(page).collect()
}
