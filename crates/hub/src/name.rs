//! Names of models on the hub, with their revisions.

use std::fmt;
use std::path::Path;

use evenkeel_errors::FieldError;

const SCHEME: &str = "hf:";
/// The revision that is meant where none is named.
const DEFAULT_REVISION: &str = "main";
const ALLOWED: &str = "hf:OWNER/NAME, or hf:OWNER/NAME@REVISION with a branch, a tag or a commit";
/// Longest owner, name or revision.
const MAX_LENGTH: usize = 128;

/// The name of a model: a repository of the hub and a revision of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    repository: String,
    revision: Option<String>,
}

impl ModelName {
    /// Whether a setting that may be a folder is a name.
    pub fn is_name(path: &Path) -> bool {
        path.to_str().is_some_and(|text| text.starts_with(SCHEME))
    }

    /// The name that a path may be meant for which is written without its scheme: `OWNER/NAME`.
    pub fn without_scheme(path: &Path) -> Option<Self> {
        let text = path.to_str().filter(|text| text.matches('/').count() == 1)?;
        Self::parse("", &format!("{SCHEME}{text}")).ok()
    }

    /// Reads `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`.
    ///
    /// # Errors
    /// Anything else, as the value of `field`.
    pub fn parse(field: &str, text: &str) -> Result<Self, FieldError> {
        let refused = || FieldError::quoted(field, text, ALLOWED);
        let name = text.strip_prefix(SCHEME).ok_or_else(refused)?;
        let (repository, revision) = match name.split_once('@') {
            Some((repository, revision)) => (repository, Some(revision)),
            None => (name, None),
        };
        let parts: Vec<&str> = repository.split('/').collect();
        let is_repository = parts.len() <= 2 && parts.iter().all(|part| is_part(part) && !part.contains("--"));
        let is_revision = |revision: &str| revision.len() <= MAX_LENGTH && revision.split('/').all(is_part);
        if is_repository && revision.is_none_or(is_revision) {
            Ok(Self { repository: repository.to_owned(), revision: revision.map(str::to_owned) })
        } else {
            Err(refused())
        }
    }

    /// The repository of the model: `OWNER/NAME`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The revision of the model: a branch, a tag or a commit; `main` if the name has none.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(DEFAULT_REVISION)
    }

    /// Whether the name has no revision, so that the newest one is taken.
    pub fn is_default(&self) -> bool {
        self.revision.is_none()
    }

    /// Whether the revision is a commit, whose content never changes.
    pub fn is_pinned(&self) -> bool {
        is_commit(self.revision())
    }

    /// This model at a commit.
    #[must_use]
    pub fn at(&self, commit: &str) -> Self {
        Self { repository: self.repository.clone(), revision: Some(commit.to_owned()) }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.repository)?;
        match &self.revision {
            Some(revision) => write!(f, "@{revision}"),
            None => Ok(()),
        }
    }
}

/// Whether a text is the name of a commit.
pub(crate) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a text may be a part of a path: neither hidden nor above.
fn is_part(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !part.is_empty()
        && part.len() <= MAX_LENGTH
        && part.bytes().all(is_word)
        && !part.starts_with(['.', '-'])
        && !part.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_repository_and_perhaps_a_revision() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        for (text, repository, revision, is_pinned) in [
            ("hf:HuggingFaceTB/SmolLM2-135M-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct", "main", false),
            ("hf:gpt2@v1.0", "gpt2", "v1.0", false),
            ("hf:a/b@refs/pr/3", "a/b", "refs/pr/3", false),
            (&format!("hf:a/b@{commit}"), "a/b", commit, true),
        ] {
            let name = ModelName::parse("model.path", text).unwrap();
            assert_eq!((name.repository(), name.revision(), name.is_pinned()), (repository, revision, is_pinned));
            assert_eq!(name.to_string(), text);
            assert!(ModelName::is_name(Path::new(text)));
        }
        let name = ModelName::parse("model.path", "hf:a/b").unwrap().at(commit);
        assert_eq!(name.to_string(), format!("hf:a/b@{commit}"));
        assert!(!ModelName::is_name(Path::new("models/hf:a")));
        let meant = |text: &str| ModelName::without_scheme(Path::new(text)).map(|name| name.to_string());
        assert_eq!(meant("Qwen/Qwen3-0.6B").as_deref(), Some("hf:Qwen/Qwen3-0.6B"));
        for path in ["model", "./model", "/models/a", "a/b/c", "~/model"] {
            assert_eq!(meant(path), None, "{path}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["hf:", "hf:a/b/c", "hf:../b", "hf:a/b@", "hf:a/b@../x", "hf:a /b", "hf:a--b/c", "hf:.a/b", "a/b"] {
            let error = ModelName::parse("model.path", text).unwrap_err().to_string();
            assert!(error.contains("model.path is") && error.contains("hf:OWNER/NAME@REVISION"), "{error}");
        }
    }
}
