//! Python values and their equality.

use super::int::Int;
use super::tolerance::Tolerance;

/// A value that a function returned, or that a test expects.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Python's `None`, JSON's null.
    None,
    /// A boolean, equal to 0 or 1.
    Bool(bool),
    /// An integer of any size.
    Int(Int),
    /// A floating-point number, as Python's `float`.
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
    /// Whether a returned value is the expected one: Python's `==`, except that like in the reference grader a
    /// top-level tuple counts as a list.
    #[must_use]
    pub fn satisfies(&self, expected: &Self) -> bool {
        match (self, expected) {
            (Self::Tuple(left), Self::List(right)) => all_equal(left, right),
            _ => self.equals(expected),
        }
    }

    /// Whether a returned value is the expected one as JSON, which has neither tuples nor keys that are numbers: tuples
    /// count as lists at any depth, the key 1 as `"1"`, and what is not a number equals itself. Floats may differ by
    /// the tolerance.
    #[must_use]
    pub fn answers(&self, expected: &Self, tolerance: Tolerance) -> Comparison {
        let mut close = false;
        match self.answers_within(expected, tolerance, &mut close) {
            false => Comparison::Different,
            true if close => Comparison::Close,
            true => Comparison::Equal,
        }
    }

    /// `expected` was read from JSON, so that its depth is limited.
    fn answers_within(&self, expected: &Self, tolerance: Tolerance, close: &mut bool) -> bool {
        match (self, expected) {
            (Self::List(found) | Self::Tuple(found), Self::List(expected)) => {
                let mut pairs = found.iter().zip(expected);
                found.len() == expected.len()
                    && pairs.all(|(part, wanted)| part.answers_within(wanted, tolerance, close))
            }
            (Self::Dict(found), Self::Dict(expected)) => {
                let (Some(found), Some(expected)) = (by_key(found), by_key(expected)) else { return false };
                let mut pairs = found.iter().zip(&expected);
                found.len() == expected.len()
                    && pairs
                        .all(|(part, wanted)| part.0 == wanted.0 && part.1.answers_within(wanted.1, tolerance, close))
            }
            (Self::Float(found), Self::Float(expected)) if found.is_nan() && expected.is_nan() => true,
            _ if self.equals(expected) => true,
            (_, Self::Float(expected)) => {
                let accepted = self.as_float().is_some_and(|found| tolerance.accepts_value(found, *expected));
                *close |= accepted;
                accepted
            }
            _ => false,
        }
    }

    fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Int(value) => Some(value.to_float()),
            _ => None,
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

/// How a returned value compares with the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The values are equal.
    Equal,
    /// The values are equal with floats within the tolerance.
    Close,
    /// The values differ by more than the tolerance.
    Different,
}

/// Entries in the order of their keys as JSON. `None` if a key is neither text nor an integer, or if two are the same
/// as JSON.
fn by_key(entries: &[(Value, Value)]) -> Option<Vec<(Vec<u8>, &Value)>> {
    let key = |key: &Value| match key {
        Value::Text(text) => Some(text.clone()),
        Value::Int(int) => Some(int.to_small()?.to_string().into_bytes()),
        _ => None,
    };
    let mut sorted: Vec<_> = entries.iter().map(|(name, value)| Some((key(name)?, value))).collect::<Option<_>>()?;
    sorted.sort_by(|left, right| left.0.cmp(&right.0));
    sorted.windows(2).all(|pair| pair[0].0 != pair[1].0).then_some(sorted)
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
    fn as_json_tuples_are_lists_at_any_depth_and_integers_are_keys() {
        let answers =
            |returned: &Value, expected: &str| returned.answers(&json::read(expected).unwrap(), Tolerance::default());
        let nested = Value::List(vec![Value::Tuple(vec![int(1), Value::Tuple(vec![int(2)])])]);
        assert_eq!(answers(&nested, "[[1, [2]]]"), Comparison::Equal);
        assert!(!satisfies(nested.clone(), "[[1, [2]]]"));
        assert_eq!(answers(&nested, "[[1, 2]]"), Comparison::Different);
        assert_eq!(answers(&Value::Dict(vec![(int(10), nested)]), r#"{"10": [[1, [2]]]}"#), Comparison::Equal);
        let twice = Value::Dict(vec![(int(1), int(1)), (Value::Text("1".into()), int(1))]);
        assert_eq!(answers(&twice, r#"{"1": 1}"#), Comparison::Different);
        assert_eq!(answers(&Value::Float(f64::NAN), "NaN"), Comparison::Equal);
    }

    #[test]
    fn as_json_floats_may_differ_by_the_tolerance_and_nothing_else() {
        let answers =
            |returned: Value, expected: &str| returned.answers(&json::read(expected).unwrap(), Tolerance::default());
        assert_eq!(answers(Value::Float(0.1 + 0.2), "0.3"), Comparison::Close);
        assert_eq!(answers(Value::Tuple(vec![Value::Float(2.0 / 3.0), int(2)]), "[0.66667, 2.0]"), Comparison::Close);
        assert_eq!(answers(Value::Float(6.0), "6"), Comparison::Equal);
        assert_eq!(answers(int(333_333), "333333.0000001"), Comparison::Close);
        for (returned, expected) in [
            (Value::Float(5.999_999_9), "6"),
            (Value::Bool(true), "0.9999999"),
            (Value::Text("0.3".into()), "0.3"),
            (Value::Float(0.3), "\"0.3\""),
            (Value::Float(f64::INFINITY), "1.5"),
        ] {
            assert_eq!(answers(returned.clone(), expected), Comparison::Different, "{returned:?} for {expected}");
        }
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
