//! Sources of problems and filters of rows, as settings write them.

use std::fmt;
use std::path::{Path, PathBuf};

use evenkeel_data::{Accepts, Filter, number};
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of data that nothing else names.
pub(super) const DATA: &str = "data";

/// Files whose problems are drawn as one source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SourceSettings {
    /// Name of the source in `data.json` and in messages; the name of the first file where it is empty.
    pub name: String,
    /// Files, or patterns that files match.
    pub files: Vec<PathBuf>,
    /// Share of the source among the prompts of a step, relative to the weights of the other sources.
    pub weight: f64,
    /// Filters that select its rows, in addition to `data.filters`.
    pub filters: Vec<FilterSettings>,
    /// Field with the prompt; empty: `data.prompt_field`.
    pub prompt_field: String,
    /// Field with the gold answer; empty: `data.answer_field`.
    pub answer_field: String,
    /// Field with an answer to imitate; empty: `data.demonstration_field`.
    pub demonstration_field: String,
    /// Field with a name for use in messages; empty: `data.id_field`.
    pub id_field: String,
    /// What judges its rows; empty: `data.verifier`.
    pub verifier: String,
    /// Text appended to the last user message; absent: `data.suffix`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
}

impl Default for SourceSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            files: Vec::new(),
            weight: 1.0,
            filters: Vec::new(),
            prompt_field: String::new(),
            answer_field: String::new(),
            demonstration_field: String::new(),
            id_field: String::new(),
            verifier: String::new(),
            suffix: None,
        }
    }
}

impl SourceSettings {
    /// Name of the source, set or by its first file.
    pub fn name(&self) -> String {
        let by_file = || self.files.first().and_then(|file| stem(file)).unwrap_or_else(|| DATA.to_owned());
        if self.name.is_empty() { by_file() } else { self.name.clone() }
    }
}

/// Which values of a field a row must have: `values`, or a range from `min` to `max`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FilterSettings {
    /// The field, with dots into structures.
    pub field: String,
    /// The values that are allowed. Numbers and fractions compare as numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Scalar>,
    /// The smallest number or fraction that is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<Scalar>,
    /// The largest number or fraction that is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Scalar>,
}

/// A value of a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// True or false.
    Truth(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Decimal(f64),
    /// A text, or a fraction (`3/8`).
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truth(truth) => truth.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::Decimal(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Scalar {
    fn number(&self) -> Option<f64> {
        number(&self.to_string())
    }
}

impl From<&FilterSettings> for Filter {
    fn from(settings: &FilterSettings) -> Self {
        let end = |end: &Option<Scalar>| end.as_ref().and_then(Scalar::number);
        let accepts = if settings.values.is_empty() {
            Accepts::Range { min: end(&settings.min), max: end(&settings.max) }
        } else {
            Accepts::Values(settings.values.iter().map(Scalar::to_string).collect())
        };
        Self { field: settings.field.clone(), accepts }
    }
}

impl FilterSettings {
    pub(super) fn validate(&self) -> Result<(), FieldError> {
        if self.field.is_empty() {
            return Err(FieldError::new("field", "empty", "the name of a column"));
        }
        let ends = [("min", &self.min), ("max", &self.max)];
        if !self.values.is_empty() {
            return match ends.into_iter().find_map(|(name, end)| Some((name, end.as_ref()?))) {
                Some((name, end)) => Err(FieldError::new(name, end, "absent if `values` is set")),
                None => Ok(()),
            };
        }
        if self.min.is_none() && self.max.is_none() {
            return Err(FieldError::missing("values", "`values`, or `min` and `max` or one of them"));
        }
        for (name, end) in ends {
            if let Some(end) = end
                && end.number().is_none()
            {
                return Err(FieldError::new(name, end, "a number or a fraction"));
            }
        }
        let ends = [&self.min, &self.max].map(|end| end.as_ref().and_then(Scalar::number));
        if let [Some(min), Some(max)] = ends
            && min > max
        {
            return Err(FieldError::new("min", min, format!("at most `max`, which is {max}")));
        }
        Ok(())
    }
}

/// The name of a file without folder and extension; `None` for a pattern.
pub(super) fn stem(file: &Path) -> Option<String> {
    let stem = file.file_stem()?.to_string_lossy();
    (!stem.contains(['*', '?', '['])).then(|| stem.into_owned())
}
