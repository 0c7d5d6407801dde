//! Why settings cannot be read, with the key, the layer that wrote it, and what is allowed.

use std::path::PathBuf;

/// What messages call the layer of defaults.
pub(crate) const DEFAULTS: &str = "defaults";
/// Values of settings that have none.
const ABSENT: &str = "absent";
const EMPTY: &str = "empty";

/// Why settings were refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that cannot be read.
    #[error("cannot read settings from {path}: {source}", path = path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A text that is not TOML.
    #[error("{origin} is not TOML: {message}")]
    Syntax {
        /// File, argument or variable where it was written.
        origin: String,
        /// The parser's message, with line and column.
        message: String,
    },
    /// A `--set` that is not `key=value`, or an environment variable without a key.
    #[error("{origin} is not a setting, allowed: {allowed}")]
    Malformed {
        /// Argument or variable where it was written.
        origin: String,
        allowed: &'static str,
    },
    #[error("unknown key `{key}` in {origin}{}", hint(recognised, nearest, allowed))]
    UnknownKey {
        /// The key with its path.
        key: String,
        /// Layer where the value was written.
        origin: String,
        /// What the keys of another program are here, a clause each.
        recognised: Vec<String>,
        /// The known keys that it may be meant for, with their paths.
        nearest: Vec<String>,
        /// All known keys of the same table.
        allowed: Vec<String>,
    },
    /// A value of the wrong type or out of range.
    #[error("`{key}` is {value}{}, {}: {allowed}", place(value, origin), demand(value))]
    Invalid {
        /// The key with its path.
        key: String,
        value: String,
        /// Layer where the value was written.
        origin: String,
        allowed: String,
    },
    /// Several of the errors above, in the order in which they were found.
    #[error("{}", lines(.0))]
    Several(Vec<ConfigError>),
    /// Settings that cannot be written as TOML.
    #[error("cannot write settings as TOML: {0}")]
    Write(String),
}

impl ConfigError {
    /// One error as it is, and more than one as [`Several`](Self::Several).
    pub(crate) fn all(mut errors: Vec<Self>) -> Self {
        if errors.len() == 1 { errors.swap_remove(0) } else { Self::Several(errors) }
    }
}

fn lines(errors: &[ConfigError]) -> String {
    let lines: Vec<_> = errors.iter().map(|error| format!("\n  {error}")).collect();
    format!("{} settings are refused:{}", errors.len(), lines.concat())
}

/// Where a value was written. The defaults are no place to look at where they have none.
fn place(value: &str, origin: &str) -> String {
    let is_nowhere = origin == DEFAULTS && matches!(value, ABSENT | EMPTY);
    if is_nowhere { String::new() } else { format!(" in {origin}") }
}

/// Whether a value is one of those that are allowed, or one that must be there.
fn demand(value: &str) -> &'static str {
    if matches!(value, ABSENT | EMPTY) { "required" } else { "allowed" }
}

fn hint(recognised: &[String], nearest: &[String], allowed: &[String]) -> String {
    if !recognised.is_empty() {
        return format!(": {}", recognised.join("; "));
    }
    let nearest = match nearest {
        [] => String::new(),
        nearest => format!(", nearest allowed: `{}`", nearest.join("` or `")),
    };
    format!("{nearest}, allowed here: {}", allowed.join(", "))
}
