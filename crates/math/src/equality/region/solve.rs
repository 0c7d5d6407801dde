//! Solves relations in one quantity for it.

use dashu_ratio::RBig;

use crate::evaluate::exact_at;
use crate::expr::{Builder, Expr, Function, Node};
use crate::{End, Magnitude, Notation, Number, Region, Relation, Sign, Value};

/// A relation that was solved for its only quantity.
pub(super) struct Solved {
    /// The quantity, in canonical spelling.
    pub(super) name: String,
    /// Possible values of the quantity.
    pub(super) region: Region,
}

/// `None` if the relation has no single quantity, or cannot be solved by division.
pub(super) fn solved(relation: &Relation) -> Option<Solved> {
    let pairs = relation.members.windows(2).zip(&relation.signs);
    let mut name: Option<String> = None;
    let mut parts = Vec::with_capacity(relation.signs.len());
    for (pair, sign) in pairs {
        let [left, right] = pair else { return None };
        let (found, region) = one(left, *sign, right)?;
        if name.get_or_insert_with(|| found.clone()) != &found {
            return None;
        }
        parts.push(region);
    }
    let region = if parts.len() == 1 { parts.remove(0) } else { merged(parts) };
    unfolded(name?, region)
}

/// Merges `low < x` and `x < high` into one interval.
fn merged(parts: Vec<Region>) -> Region {
    if let [Region::Interval(a, b), Region::Interval(c, d)] = parts.as_slice() {
        let infinite = |end: &End| matches!(*end.value, Value::Infinite { .. });
        if infinite(b) && infinite(c) {
            return Region::Interval(a.clone(), d.clone());
        }
        if infinite(a) && infinite(d) {
            return Region::Interval(c.clone(), b.clone());
        }
    }
    Region::Intersection(parts)
}

/// The values of x from those of `|x|`.
fn unfolded(name: String, region: Region) -> Option<Solved> {
    let Some(inner) = name.strip_prefix("abs(").and_then(|rest| rest.strip_suffix(')')) else {
        return Some(Solved { name, region });
    };
    if !inner.chars().all(char::is_alphanumeric) {
        return Some(Solved { name, region });
    }
    let negated = |end: &End| {
        let value = match &*end.value {
            Value::Infinite { negative } => Value::Infinite { negative: !negative },
            value => Value::Expr(Builder::unary(&value.scalar()?, Node::Negate)),
        };
        Some(End { value: Box::new(value), closed: end.closed })
    };
    let Region::Interval(low, high) = &region else { return Some(Solved { name, region }) };
    let mirrored = Region::Interval(negated(high)?, negated(low)?);
    // Below a bound both halves meet at zero, above one they do not.
    let region = if matches!(*low.value, Value::Infinite { .. }) {
        Region::Intersection(vec![region, mirrored])
    } else {
        Region::Union(vec![region, mirrored])
    };
    Some(Solved { name: inner.to_owned(), region })
}

/// A single sign between two sides.
fn one(left: &Value, sign: Sign, right: &Value) -> Option<(String, Region)> {
    if sign == Sign::In {
        let name = left.scalar().filter(Expr::is_name)?;
        return Some((name.to_string(), Region::of(right)?));
    }
    if !sign.is_order() && sign != Sign::NotEqual {
        return None;
    }
    let left = left_side(left)?;
    let right = left_side(right)?;
    if let Some(folded) = absolute(&left.1, sign, &right.1).or_else(|| absolute(&right.1, sign.flipped(), &left.1)) {
        return Some(folded);
    }
    match (quantity(&left), quantity(&right)) {
        (Some(name), None) if right.1.is_closed() => Some((name, half(sign, right.0))),
        (None, Some(name)) if left.1.is_closed() => Some((name, half(sign.flipped(), left.0))),
        _ => linear(&left.1, sign, &right.1),
    }
}

fn left_side(value: &Value) -> Option<(Value, Expr)> {
    Some((value.clone(), value.scalar()?))
}

/// The quantity, if it stands alone: a variable, a function of it, its absolute value.
fn quantity((_, expr): &(Value, Expr)) -> Option<String> {
    let is_quantity = matches!(expr.root(), Node::Symbol(_) | Node::Apply(..) | Node::Call(Function::Abs, _));
    (is_quantity && expr.is_name()).then(|| expr.to_string())
}

/// Solves `|a·x + b| < c` for x. `None` for the absolute value of a variable alone, which is a quantity.
fn absolute(left: &Expr, sign: Sign, right: &Expr) -> Option<(String, Region)> {
    let Node::Call(Function::Abs, inner) = left.root() else { return None };
    let inner = Builder::prefix(left, *inner);
    if inner.is_name() || !right.is_closed() {
        return None;
    }
    let negative = Builder::unary(right, Node::Negate);
    let (name, above) = linear(&inner, sign, right)?;
    let (_, below) = linear(&inner, sign.flipped(), &negative)?;
    let parts = vec![above, below];
    let is_outside = matches!(sign, Sign::Greater | Sign::GreaterOrEqual);
    Some((name, if is_outside { Region::Union(parts) } else { Region::Intersection(parts) }))
}

/// All numbers on one side of a bound.
fn half(sign: Sign, bound: Value) -> Region {
    let end = |value, closed| End { value: Box::new(value), closed };
    let infinite = |negative| end(Value::Infinite { negative }, false);
    match sign {
        Sign::Less => Region::Interval(infinite(true), end(bound, false)),
        Sign::LessOrEqual => Region::Interval(infinite(true), end(bound, true)),
        Sign::Greater => Region::Interval(end(bound, false), infinite(false)),
        Sign::GreaterOrEqual => Region::Interval(end(bound, true), infinite(false)),
        _ => Region::Minus(Box::new(Region::Reals), Box::new(Region::Points(vec![bound]))),
    }
}

/// Solves `a·x + b < 0` with rational a and b, found from values and verified at others.
fn linear(left: &Expr, sign: Sign, right: &Expr) -> Option<(String, Region)> {
    let difference = Builder::binary(left, &Builder::unary(right, Node::Negate), Node::Add);
    let [name] = difference.names() else { return None };
    // An expression that is linear at a few points may not be linear elsewhere.
    let turns = |node: &Node| match node {
        Node::Call(function, _) => !matches!(function, Function::Sqrt),
        Node::Call2(..) | Node::Fold { .. } | Node::Apply(..) => true,
        _ => false,
    };
    if difference.any(turns) {
        return None;
    }
    let difference_at = |x: &RBig| exact_at(&difference, x);
    let zero = difference_at(&RBig::ZERO)?;
    let one = difference_at(&RBig::ONE)?;
    let slope = one - zero.clone();
    if slope.is_zero() {
        return None;
    }
    let checked = [(2, 1), (5, 1), (-3, 1), (7, 2), (-11, 3), (1000, 7)];
    let is_linear = checked.into_iter().all(|(above, below)| {
        let x = RBig::from_parts_signed(above.into(), i64::from(below).into());
        difference_at(&x).is_some_and(|value| value == slope.clone() * x + zero.clone())
    });
    if !is_linear {
        return None;
    }
    let sign = if slope < RBig::ZERO { sign.flipped() } else { sign };
    let root = -zero / slope;
    let notation = if root.is_int() { Notation::Integer } else { Notation::Fraction };
    let bound = Value::Number(Number::plain(Magnitude::Exact(root), notation));
    Some((name.clone(), half(sign, bound)))
}
