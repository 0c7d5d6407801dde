//! Python values and their equality.

use super::int::Int;

/// A value that a function returned, or that a test expects.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`, JSON's null.
    None,
    /// A boolean, equal to 0 or 1.
    Bool(bool),
    /// An integer of any size.
    Int(Int),
    /// A float.
    Float(f64),
    /// A string as UTF-8, possibly with lone surrogates.
    Text(Vec<u8>),
    /// A list, JSON's array.
    List(Vec<Value>),
    /// A tuple, not equal to any list.
    Tuple(Vec<Value>),
    /// A dictionary, JSON's object.
    Dict(Vec<(Value, Value)>),
    /// The type of a value without a JSON equivalent.
    Other(String),
}

impl Value {
    /// Whether a returned value is the expected one: Python's `==`, except that like in the reference grader a top-level tuple counts as a
    /// list.
    #[must_use]
    pub fn satisfies(&self, expected: &Self) -> bool {
        match (self, expected) {
            (Self::Tuple(left), Self::List(right)) => all_equal(left, right),
            _ => self.equals(expected),
        }
    }

    /// Number of values in this one, including itself. Equal values have equally many.
    #[must_use]
    pub fn parts(&self) -> usize {
        1 + match self {
            Self::List(parts) | Self::Tuple(parts) => parts.iter().map(Self::parts).sum(),
            Self::Dict(entries) => entries.iter().map(|(key, value)| key.parts() + value.parts()).sum(),
            _ => 0,
        }
    }

    fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, Self::None) => true,
            (Self::Text(left), Self::Text(right)) => left == right,
            (Self::List(left), Self::List(right)) | (Self::Tuple(left), Self::Tuple(right)) => all_equal(left, right),
            (Self::Dict(left), Self::Dict(right)) => dicts_equal(left, right),
            (Self::Float(left), Self::Float(right)) => left == right,
            (Self::Float(float), number) | (number, Self::Float(float)) => {
                number.as_int().is_some_and(|int| Int::from_float(*float) == Some(int))
            }
            _ => match (self.as_int(), other.as_int()) {
                (Some(left), Some(right)) => left == right,
                _ => false,
            },
        }
    }

    fn as_int(&self) -> Option<Int> {
        match self {
            Self::Bool(value) => Some(Int::from(i32::from(*value))),
            Self::Int(value) => Some(value.clone()),
            _ => None,
        }
    }
}

fn all_equal(left: &[Value], right: &[Value]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(left, right)| left.equals(right))
}

fn dicts_equal(left: &[(Value, Value)], right: &[(Value, Value)]) -> bool {
    let text = |entries: &[(Value, Value)]| -> Option<Vec<(Vec<u8>, Value)>> {
        entries
            .iter()
            .map(|(key, value)| match key {
                Value::Text(key) => Some((key.clone(), value.clone())),
                _ => None,
            })
            .collect()
    };
    // JSON keys are strings, so that any other key makes the two unequal.
    let (Some(mut left), Some(mut right)) = (text(left), text(right)) else { return false };
    left.sort_by(|left, right| left.0.cmp(&right.0));
    right.sort_by(|left, right| left.0.cmp(&right.0));
    left.len() == right.len()
        && left.iter().zip(&right).all(|(left, right)| left.0 == right.0 && left.1.equals(&right.1))
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;

    fn satisfies(returned: Value, expected: &str) -> bool {
        returned.satisfies(&json::read(expected).unwrap())
    }

    fn int(value: i32) -> Value {
        Value::Int(Int::from(value))
    }

    #[test]
    fn numbers_are_equal_across_types() {
        assert!(satisfies(Value::Bool(true), "1"));
        assert!(satisfies(Value::Float(1.0), "1"));
        assert!(satisfies(int(1), "1.0"));
        assert!(satisfies(int(0), "false"));
        assert!(!satisfies(Value::Float(0.1 + 0.2), "0.3"));
        assert!(!satisfies(Value::Float(9_007_199_254_740_992.0), "9007199254740993"));
        assert!(!satisfies(Value::Float(f64::NAN), "NaN"));
        assert!(satisfies(Value::Float(f64::INFINITY), "Infinity"));
    }

    #[test]
    fn a_tuple_counts_as_a_list_only_at_the_top_level() {
        assert!(satisfies(Value::Tuple(vec![int(1), int(2)]), "[1,2]"));
        assert!(!satisfies(Value::List(vec![Value::Tuple(vec![int(1)])]), "[[1]]"));
    }

    #[test]
    fn a_string_is_not_a_number_and_none_is_not_an_empty_list() {
        assert!(!satisfies(Value::Text(b"1".to_vec()), "1"));
        assert!(!satisfies(Value::None, "[]"));
        assert!(satisfies(Value::None, "null"));
        assert!(!satisfies(Value::Other("generator".into()), "[1]"));
    }

    #[test]
    fn dictionaries_are_equal_in_any_order() {
        let entry = |key: &str, value| (Value::Text(key.into()), int(value));
        assert!(satisfies(Value::Dict(vec![entry("b", 2), entry("a", 1)]), r#"{"a": 1, "b": 2}"#));
        assert!(!satisfies(Value::Dict(vec![entry("a", 1)]), r#"{"a": 1, "b": 2}"#));
        assert!(!satisfies(Value::Dict(vec![(int(1), int(1))]), r#"{"1": 1}"#));
    }
}
