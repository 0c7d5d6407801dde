//! The error of every check: the field, its value, and what is allowed.

use std::fmt::Display;

use crate::shown::one_line;

/// Longest value that an error repeats, in characters; a refused completion may be megabytes long.
const MAX_VALUE_CHARS: usize = 80;
/// Longest path, which may contain external names.
const MAX_PATH_CHARS: usize = 200;
/// Longest text about what is allowed, which may quote a parser's input.
const MAX_ALLOWED_CHARS: usize = 1000;

/// A field that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}, {}: {allowed}", demand(.value))]
pub struct FieldError {
    /// Path of the field within the checked value, with indices: `segments[2].log_probabilities[5]`.
    pub field: String,
    /// Value that was refused; long values are cut.
    pub value: String,
    pub allowed: String,
}

/// The value of a field that is not there.
const ABSENT: &str = "absent";

/// What messages call the values that a field may have: where it has none, one of them is required.
pub fn demand(value: &str) -> &'static str {
    if value == ABSENT { "required" } else { "allowed" }
}

impl FieldError {
    /// `field` is `value`, which is not among the `allowed` values.
    pub fn new(field: impl Into<String>, value: impl Display, allowed: impl Into<String>) -> Self {
        Self::bounded(&field.into(), &value.to_string(), &allowed.into())
    }

    /// Makes the error. This is not generic, so that it is compiled once.
    fn bounded(field: &str, value: &str, allowed: &str) -> Self {
        let text = |text, max_chars| one_line(text, max_chars).into_owned();
        Self {
            field: text(field, MAX_PATH_CHARS),
            value: text(value, MAX_VALUE_CHARS),
            allowed: text(allowed, MAX_ALLOWED_CHARS),
        }
    }

    /// `field` is the text `text`, in quotation marks, which is not among the `allowed` values.
    pub fn quoted(field: impl Into<String>, text: impl AsRef<str>, allowed: impl Into<String>) -> Self {
        Self::new(field, format_args!("{:?}", text.as_ref()), allowed)
    }

    /// `field` is required and absent.
    pub fn missing(field: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self::new(field, ABSENT, allowed)
    }

    /// `Ok` if `holds`, else the error of [`new`](Self::new).
    ///
    /// # Errors
    /// The field, if the condition does not hold.
    pub fn ensure(
        holds: bool,
        field: impl Into<String>,
        value: impl Display,
        allowed: impl Into<String>,
    ) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::new(field, value, allowed)) }
    }

    /// Prepends the path of the enclosing value: `segments[0]` within `samples[3]` is `samples[3].segments[0]`.
    #[must_use]
    pub fn within(mut self, parent: impl Display) -> Self {
        self.field = if self.field.is_empty() { parent.to_string() } else { format!("{parent}.{}", self.field) };
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_field_value_and_allowed() {
        let error = FieldError::new("temperature", -1.0, "a finite number, at least 0").within("sampling");
        assert_eq!(error.to_string(), "sampling.temperature is -1, allowed: a finite number, at least 0");
    }

    #[test]
    fn what_is_missing_is_required() {
        let error = FieldError::missing("--vary", "KEY=VALUE");
        assert_eq!(error.to_string(), "--vary is absent, required: KEY=VALUE");
    }

    #[test]
    fn texts_are_in_quotation_marks() {
        let error = FieldError::quoted("run.name", "a/b \"c\"", "a name");
        assert_eq!(error.to_string(), r#"run.name is "a/b \"c\"", allowed: a name"#);
    }

    #[test]
    fn values_and_paths_stay_on_one_line() {
        let error = FieldError::new("labels[\"a\\nb\"]".replace("\\n", "\n"), "x\x1b[2J\ny", "a name");
        assert_eq!(error.to_string(), r#"labels["a\nb"] is x\u{1b}[2J\ny, allowed: a name"#);
    }

    #[test]
    fn long_values_are_cut_between_characters() {
        let error = FieldError::new("gold", "ä".repeat(10_000), "at most 80 characters");
        assert_eq!(error.value.chars().count(), MAX_VALUE_CHARS + 1);
        let error = FieldError::new("toml", "not readable", format!("TOML, but: \n{}", "[".repeat(100_000)));
        assert!(error.allowed.starts_with(r"TOML, but: \n[[") && error.to_string().len() < 1_100);
    }
}
