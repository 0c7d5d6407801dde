//! Why settings were refused.

use std::path::PathBuf;

/// A refusal of settings, before anything started.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that cannot be read.
    #[error("cannot read settings from {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A text that is no TOML.
    #[error("{origin} is not TOML: {message}")]
    Syntax {
        /// Where it was written.
        origin: String,
        /// The parser's message, with line and column.
        message: String,
    },
    /// A `--set` that is not `key=value`, or an environment variable without a key.
    #[error("{origin} is not a setting, allowed: {allowed}")]
    Malformed {
        /// Where it was written.
        origin: String,
        /// The form that is allowed.
        allowed: &'static str,
    },
    /// A key that no setting has.
    #[error("unknown key `{key}` in {origin}{}, allowed here: {}", hint(renamed.as_deref(), nearest.as_deref()), allowed.join(", "))]
    UnknownKey {
        /// The key with its path.
        key: String,
        /// Where it was written.
        origin: String,
        /// What the key is called now, where an earlier version had it, with its path.
        renamed: Option<String>,
        /// The allowed key that looks most like it, with its path.
        nearest: Option<String>,
        /// All keys that are allowed in its place.
        allowed: Vec<String>,
    },
    /// A value of the wrong type or out of range.
    #[error("`{key}` is {value} in {origin}, allowed: {allowed}")]
    Invalid {
        /// The key with its path.
        key: String,
        /// What it was.
        value: String,
        /// Where it was written.
        origin: String,
        /// What it may be.
        allowed: String,
    },
    /// Settings that cannot be written as TOML.
    #[error("cannot write settings as TOML: {0}")]
    Write(String),
}

fn hint(renamed: Option<&str>, nearest: Option<&str>) -> String {
    match (renamed, nearest) {
        (Some(key), _) => format!(", now called `{key}`"),
        (None, Some(key)) => format!(", nearest allowed: `{key}`"),
        (None, None) => String::new(),
    }
}
