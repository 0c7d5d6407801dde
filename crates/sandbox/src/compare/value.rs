//! Values of Python, and its equality between them.

use super::int::Int;

/// A value that a function returned, or that a test expects.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`, JSON's null.
    None,
    /// A truth value: equal to 0 or 1.
    Bool(bool),
    /// An integer of any size.
    Int(Int),
    /// A float.
    Float(f64),
    /// Text as UTF-8 in which lone surrogates may stand.
    Text(Vec<u8>),
    /// A list, JSON's array.
    List(Vec<Value>),
    /// A tuple, equal to no list.
    Tuple(Vec<Value>),
    /// A dictionary, JSON's object.
    Dict(Vec<(Value, Value)>),
    /// Something that JSON has no counterpart of, and what it was.
    Other(String),
}

impl Value {
    /// Python's `==`, where this is what was returned: a tuple counts as a list at the top, as the reference grader has it.
    #[must_use]
    pub fn answers(&self, expected: &Self) -> bool {
        match (self, expected) {
            (Self::Tuple(left), Self::List(right)) => all_equal(left, right),
            _ => self.equals(expected),
        }
    }

    /// Values that this one is made of, itself included. Equal values have equally many.
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
    // The keys of JSON are text, so any other key makes the two unequal.
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

    fn answers(returned: Value, expected: &str) -> bool {
        returned.answers(&json::read(expected).unwrap())
    }

    fn int(value: i32) -> Value {
        Value::Int(Int::from(value))
    }

    #[test]
    fn numbers_are_equal_across_types() {
        assert!(answers(Value::Bool(true), "1"));
        assert!(answers(Value::Float(1.0), "1"));
        assert!(answers(int(1), "1.0"));
        assert!(answers(int(0), "false"));
        assert!(!answers(Value::Float(0.1 + 0.2), "0.3"));
        assert!(!answers(Value::Float(9_007_199_254_740_992.0), "9007199254740993"));
        assert!(!answers(Value::Float(f64::NAN), "NaN"));
        assert!(answers(Value::Float(f64::INFINITY), "Infinity"));
    }

    #[test]
    fn a_tuple_is_a_list_only_at_the_top() {
        assert!(answers(Value::Tuple(vec![int(1), int(2)]), "[1,2]"));
        assert!(!answers(Value::List(vec![Value::Tuple(vec![int(1)])]), "[[1]]"));
    }

    #[test]
    fn text_is_no_number_and_nothing_is_no_empty_list() {
        assert!(!answers(Value::Text(b"1".to_vec()), "1"));
        assert!(!answers(Value::None, "[]"));
        assert!(answers(Value::None, "null"));
        assert!(!answers(Value::Other("generator".into()), "[1]"));
    }

    #[test]
    fn dictionaries_are_equal_in_any_order() {
        let entry = |key: &str, value| (Value::Text(key.into()), int(value));
        assert!(answers(Value::Dict(vec![entry("b", 2), entry("a", 1)]), r#"{"a": 1, "b": 2}"#));
        assert!(!answers(Value::Dict(vec![entry("a", 1)]), r#"{"a": 1, "b": 2}"#));
        assert!(!answers(Value::Dict(vec![(int(1), int(1))]), r#"{"1": 1}"#));
    }
}
