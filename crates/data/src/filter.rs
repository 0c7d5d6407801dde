//! Filters: which values of a column a row must have.

use serde_json::Value;

use crate::row::refused;
use crate::{DataRow, Reason, RowError};

/// A condition on one column.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// The column, with dots into structures.
    pub field: String,
    /// Values of the column that pass.
    pub accepts: Accepts,
}

/// What a column must hold. Texts that are numbers or fractions (`3/8`) compare as numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Accepts {
    /// The value is one of these.
    Values(Vec<String>),
    /// A number in this range, both ends included; an absent end is open.
    Range { min: Option<f64>, max: Option<f64> },
}

impl Filter {
    /// Refuses rows that the filter leaves out. One accepted value of a list is enough.
    ///
    /// # Errors
    /// [`Reason::Filtered`], with the field and its value.
    pub fn check(&self, row: &DataRow) -> Result<(), RowError> {
        let Self { field, accepts } = self;
        let Some(texts) = row.texts(field) else {
            let columns = row.columns();
            return Err(RowError::new(Reason::Filtered, format!("has no field `{field}`, it has: {columns}")));
        };
        let accepted = texts.iter().flatten().any(|text| accepts.takes(text));
        if accepted {
            return Ok(());
        }
        let value = row.get(field).map_or_else(String::new, Value::to_string);
        Err(RowError::field(Reason::Filtered, refused(field, value, accepts.to_string())))
    }
}

impl Accepts {
    fn takes(&self, text: &str) -> bool {
        match self {
            Self::Values(values) => values.iter().any(|value| match (number(value), number(text)) {
                (Some(value), Some(number)) => value == number,
                _ => value == text,
            }),
            Self::Range { min, max } => number(text)
                .is_some_and(|number| min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max)),
        }
    }
}

impl std::fmt::Display for Accepts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Values(values) => f.write_str(&values.join(", ")),
            Self::Range { min: Some(min), max: Some(max) } => write!(f, "{min} to {max}"),
            Self::Range { min: Some(min), max: None } => write!(f, "at least {min}"),
            Self::Range { min: None, max: Some(max) } => write!(f, "at most {max}"),
            Self::Range { min: None, max: None } => f.write_str("a number"),
        }
    }
}

/// The number that a text writes: an integer, a decimal or a fraction of two of them.
pub fn number(text: &str) -> Option<f64> {
    let decimal = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    match text.split_once('/') {
        Some((above, below)) => {
            let above = decimal(above)?;
            let below = decimal(below)?;
            (below != 0.0).then(|| above / below)
        }
        None => decimal(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(accepts: &Accepts, value: &str) -> bool {
        let filter = Filter { field: "meta.level".into(), accepts: accepts.clone() };
        let row = DataRow::parse(1, format!(r#"{{"meta": {{"level": {value}}}}}"#)).unwrap();
        match filter.check(&row) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.reason, Reason::Filtered);
                false
            }
        }
    }

    #[test]
    fn values_compare_as_numbers_where_both_are_numbers() {
        let accepts = Accepts::Values(vec!["3/8".into(), "hard".into(), "2".into()]);
        for (value, passed) in
            [("\"3/8\"", true), ("0.375", true), ("\"6/16\"", true), ("2", true), ("\"2.0\"", true), ("\"hard\"", true)]
        {
            assert_eq!(passes(&accepts, value), passed, "{value}");
        }
        for value in ["\"Hard\"", "\"3\"", "3", "true", "{}", "null", "[]", "\"3/0\""] {
            assert!(!passes(&accepts, value), "{value}");
        }
        assert!(passes(&accepts, "[\"easy\", \"hard\"]"));
    }

    #[test]
    fn ranges_include_their_ends() {
        let range = |min, max| Accepts::Range { min, max };
        let within = range(number("1/8"), number("6/8"));
        let passed = |value: &str| passes(&within, value);
        assert!(passed("\"1/8\"") && passed("\"6/8\"") && passed("0.5"));
        assert!(!passed("\"0/8\"") && !passed("\"7/8\"") && !passed("\"easy\"") && !passed("null"));
        assert!(passes(&range(Some(2.0), None), "10") && !passes(&range(Some(2.0), None), "1"));
        assert!(passes(&range(None, Some(2.0)), "-3") && !passes(&range(None, Some(2.0)), "3"));
    }

    #[test]
    fn a_row_without_the_column_is_left_out_by_its_name() {
        let filter = Filter { field: "level".into(), accepts: Accepts::Values(vec!["1".into()]) };
        let error = filter.check(&DataRow::parse(1, r#"{"a": 1}"#).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "has no field `level`, it has: a");
    }
}
