//! Equations, inequalities and other relations.

use std::fmt;

use super::Value;

/// Members with signs between them: `a = b`, `0 < x ≤ 1`. There is one sign fewer than members, and at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Relation {
    /// The values between which the signs stand.
    pub members: Vec<Value>,
    /// The signs between them.
    pub signs: Vec<Sign>,
}

/// Sign between two members of a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// The sign `=`, for equality.
    Equal,
    /// The sign `≠` in any spelling.
    NotEqual,
    /// The sign `<`, less than.
    Less,
    /// The sign `≤` in any spelling.
    LessOrEqual,
    /// The sign `>`, greater than.
    Greater,
    /// The sign `≥` in any spelling.
    GreaterOrEqual,
    /// Membership in a set.
    In,
    /// Approximate equality, such as `≈`.
    Approximately,
    /// Congruence or identity, such as `≡`.
    Congruent,
    /// An arrow, such as `→`.
    To,
}

impl Sign {
    /// The sign with its sides exchanged.
    pub(crate) fn flipped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            other => other,
        }
    }

    /// Whether it is an order relation.
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
    /// The two sides, if it is a single equation.
    pub(crate) fn equation(&self) -> Option<(&Value, &Value)> {
        match (self.members.as_slice(), self.signs.as_slice()) {
            ([left, right], [Sign::Equal]) => Some((left, right)),
            _ => None,
        }
    }

    /// The value that a chain of equations assigns to a name: its last member before any approximation. `None` if
    /// nothing is named.
    pub(crate) fn named_value(&self) -> Option<&Value> {
        let is_chain = self.signs.iter().all(|sign| matches!(sign, Sign::Equal | Sign::Approximately));
        if !is_chain {
            return None;
        }
        let first_rounded = self.signs.iter().position(|sign| *sign == Sign::Approximately);
        let end = match first_rounded {
            Some(at) if at > 0 => at,
            _ => self.members.len().saturating_sub(1),
        };
        let members = self.members.get(..=end)?;
        // `f(x) \\approx x^2` is no equation; `x \\approx 3.14` gives a rounded value.
        if first_rounded == Some(0) && !members.last().is_some_and(is_decimal) {
            return None;
        }
        match members {
            [value, name] if name.is_name() && !value.is_name() => Some(value),
            members if members.iter().any(|member| matches!(member, Value::Text(_)) && !member.is_name()) => None,
            members if members.iter().any(Value::is_name) => members.last(),
            _ => None,
        }
    }
}

fn is_decimal(value: &Value) -> bool {
    match value {
        Value::Number(number) => matches!(number.notation, crate::Notation::Decimal { .. }),
        Value::Quantity(quantity) => is_decimal(&quantity.amount),
        _ => false,
    }
}

/// Letters whose values have an order, whatever order they are given in, and the slope and intercept of a line.
const ORDERS: [&str; 3] = ["xyz", "abcd", "mb"];

/// A list of assignments: `x = 1, y = 2`.
pub(crate) struct Assignments<'v> {
    names: Vec<&'v Value>,
    /// The assigned values, in order.
    pub(crate) values: Vec<Value>,
}

impl<'v> Assignments<'v> {
    /// `None` where an item assigns nothing.
    pub(crate) fn of(items: &'v [Value]) -> Option<Self> {
        let assignment = |item: &'v Value| match item {
            Value::Relation(relation) => {
                let (name, value) = relation.equation()?;
                name.is_name().then(|| (name, value.clone()))
            }
            _ => None,
        };
        let (names, values) = items.iter().map(assignment).collect::<Option<Vec<_>>>()?.into_iter().unzip();
        Some(Self { names, values })
    }

    /// Whether all values are assigned to the same name: `x = 2, x = -3` lists the solutions for x.
    pub(crate) fn share_a_name(&self) -> bool {
        self.names.windows(2).all(|pair| pair.first() == pair.last())
    }

    /// The name that all values are assigned to; without the numbers of `x_1 = 2, x_2 = -3`. `None` if there are
    /// several.
    pub(crate) fn common_name(&self) -> Option<String> {
        if self.share_a_name() {
            return self.names.first().map(|name| name.to_string());
        }
        let names: Vec<&str> = self.names.iter().map(|name| symbol(name)).collect::<Option<_>>()?;
        let mut bases = names.iter().map(|name| {
            let (base, index) = name.split_once('_')?;
            (!index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit())).then_some(base)
        });
        let first = bases.next()??;
        bases.all(|base| base == Some(first)).then(|| first.to_owned())
    }

    /// Whether the same names are assigned to, in whatever order.
    pub(crate) fn has_names_of(&self, other: &Self) -> bool {
        self.names.len() == other.names.len() && self.names.iter().all(|name| other.names.contains(name))
    }

    /// The values in the order of their names: `y = 2, x = 1` is (1, 2). `None` where names other than those of [`ORDERS`]
    /// do not ascend: which of them comes first is not known.
    pub(crate) fn into_ordered(self) -> Option<Vec<Value>> {
        let letter = |name: &Value| symbol(name).filter(|name| name.len() == 1).and_then(|name| name.chars().next());
        let letters: Option<Vec<char>> = self.names.iter().map(|name| letter(name)).collect();
        let order = letters.as_ref().and_then(|letters| {
            let has_all = |order: &&&str| letters.iter().all(|letter| order.contains(*letter));
            ORDERS.iter().find(has_all)
        });
        match (letters, order) {
            (Some(letters), Some(order)) => {
                let mut pairs: Vec<(char, Value)> = letters.into_iter().zip(self.values).collect();
                // Stable: values of one name keep their order.
                pairs.sort_by_key(|(letter, _)| order.find(*letter));
                Some(pairs.into_iter().map(|(_, value)| value).collect())
            }
            _ => self.names.iter().map(|name| name.to_string()).is_sorted().then_some(self.values),
        }
    }
}

/// The name of a variable.
fn symbol(value: &Value) -> Option<&str> {
    if let Value::Expr(expr) = value { expr.as_symbol() } else { None }
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
