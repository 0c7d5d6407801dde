//! Sets of real numbers.

use std::fmt;

use super::{Tuple, Value, separated};

/// A set of real numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Region {
    /// The set of all real numbers.
    Reals,
    /// All numbers between two endpoints.
    Interval(End, End),
    /// A finite set of points.
    Points(Vec<Value>),
    /// A union of sets.
    Union(Vec<Self>),
    /// An intersection of sets.
    Intersection(Vec<Self>),
    /// A difference: the first without the second.
    Minus(Box<Self>, Box<Self>),
}

/// An endpoint of an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// The endpoint; may be infinite.
    pub value: Box<Value>,
    /// Whether the endpoint belongs to the interval.
    pub closed: bool,
}

impl Region {
    /// The set of real numbers that a value may denote. `None` if it cannot be one.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Region(region) => Some(region.clone()),
            Value::Set(items) => Some(Self::Points(items.clone())),
            Value::Tuple(Tuple { open, close, items }) => {
                let [low, high] = items.as_slice() else { return None };
                let closed = |bracket: char| match bracket {
                    '[' | ']' => Some(true),
                    '(' | ')' => Some(false),
                    _ => None,
                };
                let end = |value: &Value, closed| {
                    let is_end = matches!(
                        value,
                        Value::Number(_)
                            | Value::Expr(_)
                            | Value::Infinite { .. }
                            | Value::Quantity(_)
                            | Value::Text(_)
                    );
                    is_end.then(|| End { value: Box::new(value.clone()), closed })
                };
                Some(Self::Interval(end(low, closed(*open)?)?, end(high, closed(*close)?)?))
            }
            _ => None,
        }
    }
}

impl Region {
    /// Whether an endpoint or a point, or a part of one, is such a value.
    pub(crate) fn any(&self, is: &mut impl FnMut(&Value) -> bool) -> bool {
        match self {
            Self::Reals => false,
            Self::Interval(low, high) => low.value.any(is) || high.value.any(is),
            Self::Points(points) => points.iter().any(|point| point.any(is)),
            Self::Union(parts) | Self::Intersection(parts) => parts.iter().any(|part| part.any(is)),
            Self::Minus(from, what) => from.any(is) || what.any(is),
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reals => f.write_str("R"),
            Self::Interval(low, high) => {
                let open = if low.closed { '[' } else { '(' };
                let close = if high.closed { ']' } else { ')' };
                write!(f, "{open}{}, {}{close}", low.value, high.value)
            }
            Self::Points(points) => {
                f.write_str("{")?;
                separated(f, points, ", ")?;
                f.write_str("}")
            }
            Self::Union(parts) => separated(f, parts, " u "),
            Self::Intersection(parts) => separated(f, parts, " n "),
            Self::Minus(from, what) => write!(f, "{from} \\ {what}"),
        }
    }
}
