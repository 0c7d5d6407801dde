//! The values that answers are parsed into.

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
    /// A rational number, with its notation.
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
    /// Items in braces, whose order does not count.
    Set(Vec<Self>),
    /// A set of real numbers made of intervals and points.
    Region(Region),
    /// Entries in rows and columns.
    Matrix(Matrix),
    /// Equations, inequalities, assignments, memberships.
    Relation(Relation),
    /// Relations that all hold, at least one of them an inequality or a membership: `x > 2, x < 5`.
    Conditions(Vec<Relation>),
    /// A set by a condition on a term: `\{2k \mid k \in \mathbb{Z}\}`.
    Comprehension(Comprehension),
    /// Text that is not mathematics.
    Text(Text),
}

/// A set by a condition on a term.
#[derive(Debug, Clone, PartialEq)]
pub struct Comprehension {
    /// Term that runs over the set.
    pub head: Box<Value>,
    /// The condition on its names.
    pub condition: Box<Value>,
}

/// A number or expression with a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// Number or expression before the unit.
    pub amount: Box<Value>,
    /// Unit behind the amount.
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
    /// Time since midnight, in seconds.
    pub seconds: u32,
    /// The fields of the time as a ratio, such as `3:30`.
    pub ratio: Vec<Value>,
}

/// Ordered items in brackets. Two items may be an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuple {
    /// Bracket before the items.
    pub open: char,
    /// Bracket after the items.
    pub close: char,
    /// Items between the brackets, in order.
    pub items: Vec<Value>,
}

/// A matrix or a column vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Number of entries per row.
    pub columns: usize,
    /// Entries, row by row.
    pub cells: Vec<Value>,
}

/// Text in canonical spelling: one of the several ways to write the same thing in TeX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub(crate) String);

impl Text {
    /// The text in canonical spelling.
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

    /// Whether a part of it is wholly or partly text.
    pub(crate) fn has_text(&self) -> bool {
        self.any(&mut |part| matches!(part, Self::Text(_)))
    }

    /// Whether it or a part of it is such a value.
    pub(crate) fn any(&self, is: &mut impl FnMut(&Self) -> bool) -> bool {
        is(self)
            || match self {
                Self::Quantity(quantity) => quantity.amount.any(is),
                Self::Ratio(items) | Self::List(items) | Self::Set(items) => items.iter().any(|item| item.any(is)),
                Self::Tuple(tuple) => tuple.items.iter().any(|item| item.any(is)),
                Self::Matrix(matrix) => matrix.cells.iter().any(|cell| cell.any(is)),
                Self::Relation(relation) => relation.members.iter().any(|member| member.any(is)),
                Self::Conditions(relations) => {
                    relations.iter().any(|relation| relation.members.iter().any(|member| member.any(is)))
                }
                Self::Comprehension(set) => set.head.any(is) || set.condition.any(is),
                Self::Region(region) => region.any(is),
                Self::Number(_)
                | Self::Expr(_)
                | Self::Based(_)
                | Self::Infinite { .. }
                | Self::Time(_)
                | Self::Text(_) => false,
            }
    }

    /// The value with a name in place of another.
    pub(crate) fn renamed(&self, from: &str, to: &str) -> Self {
        let renamed_items = |items: &[Self]| items.iter().map(|item| item.renamed(from, to)).collect::<Vec<_>>();
        let relation =
            |relation: &Relation| Relation { members: renamed_items(&relation.members), signs: relation.signs.clone() };
        match self {
            Self::Expr(expr) => Self::Expr(expr.renamed(from, to)),
            Self::Quantity(quantity) => {
                Self::Quantity(Quantity { amount: Box::new(quantity.amount.renamed(from, to)), ..quantity.clone() })
            }
            Self::Ratio(items) => Self::Ratio(renamed_items(items)),
            Self::List(items) => Self::List(renamed_items(items)),
            Self::Set(items) => Self::Set(renamed_items(items)),
            Self::Tuple(tuple) => Self::Tuple(Tuple { items: renamed_items(&tuple.items), ..*tuple }),
            Self::Matrix(matrix) => {
                Self::Matrix(Matrix { columns: matrix.columns, cells: renamed_items(&matrix.cells) })
            }
            Self::Relation(found) => Self::Relation(relation(found)),
            Self::Conditions(relations) => Self::Conditions(relations.iter().map(relation).collect()),
            Self::Comprehension(set) => Self::Comprehension(Comprehension {
                head: Box::new(set.head.renamed(from, to)),
                condition: Box::new(set.condition.renamed(from, to)),
            }),
            other => other.clone(),
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
            Self::Comprehension(set) => write!(f, "{{{} | {}}}", set.head, set.condition),
            Self::Text(text) => f.write_str(&text.0),
        }
    }
}
