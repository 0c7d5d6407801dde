//! What an answer is, once it is read.

mod name;
mod region;
mod relation;

use std::fmt;

use crate::Number;
use crate::expr::Expr;
use crate::unit::Unit;

pub use region::{End, Region};
pub(crate) use relation::assigned_values;
pub use relation::{Relation, Sign};

/// An answer. Values within values are nested no deeper than the parser goes, which is some tens of levels.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number.
    Number(Number),
    /// Any other scalar expression.
    Expr(Expr),
    /// A number or expression with a unit.
    Quantity(Quantity),
    /// Digits in a base that was written with them.
    Based(Based),
    /// Infinity, or minus infinity.
    Infinite {
        /// Whether it is below everything.
        negative: bool,
    },
    /// A time of the day, which may have been meant as a ratio.
    Time(Time),
    /// Terms between colons; at least two.
    Ratio(Vec<Self>),
    /// Items between commas, "and", "or", or in neighbouring boxes; at least two.
    List(Vec<Self>),
    /// Items in order, between brackets.
    Tuple(Tuple),
    /// Items between braces.
    Set(Vec<Self>),
    /// A set of real numbers, of intervals and points.
    Region(Region),
    /// Rows and columns.
    Matrix(Matrix),
    /// Equations, inequalities, assignments, memberships.
    Relation(Relation),
    /// Everything that is not read any further.
    Text(Text),
}

/// A number or expression with a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// How much.
    pub amount: Box<Value>,
    /// Of what.
    pub unit: Unit,
    /// Whether the unit is a symbol without a space before it, as in `10cm`, which a gold answer writes as a part of its number.
    pub glued: bool,
}

/// Digits in a base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Based {
    /// The digits, without zeros in front.
    pub digits: String,
    /// The base, from 2 to 36.
    pub base: u32,
}

/// A time of the day.
#[derive(Debug, Clone, PartialEq)]
pub struct Time {
    /// Since midnight.
    pub seconds: u32,
    /// The same as a ratio.
    pub ratio: Vec<Value>,
}

/// Items in order, between brackets. One of two items may be an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuple {
    /// The bracket in front.
    pub open: char,
    /// The bracket behind.
    pub close: char,
    /// What is between them.
    pub items: Vec<Value>,
}

/// Rows and columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Cells of a row.
    pub columns: usize,
    /// Cells, row by row.
    pub cells: Vec<Value>,
}

/// Text in canonical spelling: one of several ways in which TeX writes the same thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub(crate) String);

impl Text {
    /// The canonical spelling.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Value {
    /// The number or expression that it is. `None` where it is something else.
    pub(crate) fn scalar(&self) -> Option<Expr> {
        match self {
            Self::Number(number) if number.currency.is_none() => Some(Expr::from(number.clone())),
            Self::Expr(expr) => Some(expr.clone()),
            _ => None,
        }
    }

    /// The items of a list, set or tuple without an order or brackets that matter.
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
                let (minutes, seconds) = (time.seconds / 60, time.seconds % 60);
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
            Self::Text(text) => f.write_str(&text.0),
        }
    }
}
