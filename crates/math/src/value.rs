//! Parsed answers.

mod name;
mod region;
mod relation;

use std::fmt;

use crate::Number;
use crate::expr::Expr;
use crate::unit::Unit;

pub use region::{End, Region};
pub(crate) use relation::Assignments;
pub use relation::{Relation, Sign};

/// A parsed answer. Nesting is limited by the parser to some tens of levels.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number.
    Number(Number),
    /// Any other scalar expression.
    Expr(Expr),
    /// A number or expression with a unit.
    Quantity(Quantity),
    /// Digits with an explicit base.
    Based(Based),
    /// Infinity, or minus infinity.
    Infinite {
        /// Whether it is minus infinity.
        negative: bool,
    },
    /// A time of day, which may also be a ratio.
    Time(Time),
    /// Terms separated by colons; at least two.
    Ratio(Vec<Self>),
    /// Items separated by commas, "and" or "or", or in adjacent boxes; at least two.
    List(Vec<Self>),
    /// Ordered items in brackets.
    Tuple(Tuple),
    /// Items in braces.
    Set(Vec<Self>),
    /// A set of real numbers made of intervals and points.
    Region(Region),
    /// Rows and columns.
    Matrix(Matrix),
    /// Equations, inequalities, assignments, memberships.
    Relation(Relation),
    /// Relations that all hold, at least one of them an inequality or a membership: `x > 2, x < 5`.
    Conditions(Vec<Relation>),
    /// Text that is not mathematics.
    Text(Text),
}

/// A number or expression with a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// The amount.
    pub amount: Box<Value>,
    /// The unit.
    pub unit: Unit,
    /// Whether the unit is a symbol without a space before it, as in `10cm`, which makes it part of the gold answer.
    pub glued: bool,
}

/// Digits in a base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Based {
    /// The digits, without leading zeros.
    pub digits: String,
    /// The base, from 2 to 36.
    pub base: u32,
}

/// A time of day.
#[derive(Debug, Clone, PartialEq)]
pub struct Time {
    /// Seconds since midnight.
    pub seconds: u32,
    /// The same fields as a ratio.
    pub ratio: Vec<Value>,
}

/// Ordered items in brackets. Two items may be an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuple {
    /// The opening bracket.
    pub open: char,
    /// The closing bracket.
    pub close: char,
    /// The items.
    pub items: Vec<Value>,
}

/// Rows and columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Entries per row.
    pub columns: usize,
    /// Entries, row by row.
    pub cells: Vec<Value>,
}

/// Text in canonical spelling: one of the several ways to write the same thing in TeX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub(crate) String);

impl Text {
    /// The canonical spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Value {
    /// The number or expression. `None` for anything else.
    pub(crate) fn scalar(&self) -> Option<Expr> {
        match self {
            Self::Number(number) if number.currency.is_none() => Some(Expr::from(number.clone())),
            Self::Expr(expr) => Some(expr.clone()),
            _ => None,
        }
    }

    /// The items of a list or set. `None` for anything else.
    pub(crate) fn items(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) | Self::Set(items) => Some(items),
            _ => None,
        }
    }
}

fn separated(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display], separator: &str) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Expr(expr) => expr.fmt(f),
            Self::Quantity(quantity) => write!(f, "{} {}", quantity.amount, quantity.unit),
            Self::Based(based) => write!(f, "{}_{}", based.digits, based.base),
            Self::Infinite { negative } => f.write_str(if *negative { "-infinity" } else { "infinity" }),
            Self::Time(time) => {
                let minutes = time.seconds / 60;
                let seconds = time.seconds % 60;
                write!(f, "{:02}:{:02}:{seconds:02}", minutes / 60, minutes % 60)
            }
            Self::Ratio(terms) => separated(f, terms, ":"),
            Self::List(items) => separated(f, items, ", "),
            Self::Set(items) => {
                f.write_str("{")?;
                separated(f, items, ", ")?;
                f.write_str("}")
            }
            Self::Tuple(tuple) => {
                write!(f, "{}", tuple.open)?;
                separated(f, &tuple.items, ", ")?;
                write!(f, "{}", tuple.close)
            }
            Self::Region(region) => region.fmt(f),
            Self::Matrix(matrix) => {
                f.write_str("[")?;
                for (index, row) in matrix.cells.chunks(matrix.columns.max(1)).enumerate() {
                    f.write_str(if index > 0 { "; " } else { "" })?;
                    separated(f, row, ", ")?;
                }
                f.write_str("]")
            }
            Self::Relation(relation) => relation.fmt(f),
            Self::Conditions(relations) => separated(f, relations, ", "),
            Self::Text(text) => f.write_str(&text.0),
        }
    }
}
