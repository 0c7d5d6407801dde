//! Equations, inequalities and their like.

use std::fmt;

use crate::Value;

/// Members with signs between them: `a = b`, `0 < x ≤ 1`. There is one sign fewer than members, and at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Relation {
    /// What is related.
    pub members: Vec<Value>,
    /// How.
    pub signs: Vec<Sign>,
}

/// How two members are related.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// `=`
    Equal,
    /// `≠`
    NotEqual,
    /// `<`
    Less,
    /// `≤`
    LessOrEqual,
    /// `>`
    Greater,
    /// `≥`
    GreaterOrEqual,
    /// A member of a set.
    In,
    /// Close to.
    Approximately,
    /// Congruent, or identical.
    Congruent,
    /// An arrow.
    To,
}

impl Sign {
    /// The sign with both sides exchanged.
    pub(crate) fn flipped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            other => other,
        }
    }

    /// Whether it orders its sides.
    pub(crate) fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
            Self::Approximately => "~",
            Self::Congruent => "==",
            Self::To => "->",
        }
    }
}

impl Relation {
    /// The two sides of a single equation.
    pub(crate) fn equation(&self) -> Option<(&Value, &Value)> {
        match (self.members.as_slice(), self.signs.as_slice()) {
            ([left, right], [Sign::Equal]) => Some((left, right)),
            _ => None,
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, member) in self.members.iter().enumerate() {
            if let Some(sign) = index.checked_sub(1).and_then(|before| self.signs.get(before)) {
                write!(f, " {} ", sign.text())?;
            }
            member.fmt(f)?;
        }
        Ok(())
    }
}
