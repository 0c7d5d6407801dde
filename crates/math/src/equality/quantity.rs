//! Numbers and expressions with units, percent signs and degrees.

use std::borrow::Cow;

use dashu_ratio::RBig;

use super::{is_equal, scalar};
use crate::expr::{Builder, Constant, Expr, Node};
use crate::unit::Unit;
use crate::{Fuel, Magnitude, Notation, Number, Percent, Reason, Rules, Units, Value};

/// A scalar with its unit.
struct Measured<'v> {
    amount: Cow<'v, Value>,
    unit: Option<Unit>,
    /// Whether the unit is a degree sign, which is also a factor.
    degree: bool,
}

impl<'v> Measured<'v> {
    fn of(value: &'v Value) -> Self {
        match value {
            Value::Quantity(quantity) => {
                let degree = Unit::known("degree").is_some_and(|degree| degree == quantity.unit);
                Self { amount: Cow::Borrowed(&quantity.amount), unit: Some(quantity.unit.clone()), degree }
            }
            Value::Number(Number { currency: Some(sign), .. }) => {
                let Value::Number(number) = value else { return Self::bare(value) };
                let amount = Value::Number(Number { currency: None, ..number.clone() });
                Self { amount: Cow::Owned(amount), unit: Some(Unit::currency(*sign)), degree: false }
            }
            Value::Expr(expr) => match degrees(expr) {
                Some(amount) => Self { amount: Cow::Owned(amount), unit: Unit::known("degree"), degree: true },
                None => Self::bare(value),
            },
            value => Self::bare(value),
        }
    }

    fn bare(value: &'v Value) -> Self {
        Self { amount: Cow::Borrowed(value), unit: None, degree: false }
    }
}

/// An expression in degrees without its degree signs: `-60^\circ`, `180^\circ - \alpha`. `None` if it has none, or
/// where they are the argument of a function.
fn degrees(expr: &Expr) -> Option<Value> {
    let is_sign = |node: &Node| match node {
        Node::Divide(pi, turn) => {
            *expr.node(*pi) == Node::Constant(Constant::Pi)
                && matches!(expr.node(*turn), Node::Literal(number) if number.exact() == Some(&RBig::from(180_u8)))
        }
        _ => false,
    };
    let is_degree = |node: &Node| matches!(node, Node::Multiply(_, unit) if is_sign(expr.node(*unit)));
    if !expr.any(is_degree)
        || expr.any(|node| matches!(node, Node::Call(..) | Node::Call2(..) | Node::Apply(..) | Node::Fold { .. }))
    {
        return None;
    }
    let bare = Builder::mapped(expr, |node| match node {
        Node::Multiply(amount, unit) if is_sign(expr.node(*unit)) => Some(*amount),
        _ => None,
    })?;
    Some(match bare.root() {
        Node::Literal(number) if bare.len() == 1 => Value::Number(number.clone()),
        Node::Negate(_) if bare.len() == 2 => match bare.node(0) {
            Node::Literal(number) => Value::Number(number.clone().negated()),
            _ => Value::Expr(bare),
        },
        _ => Value::Expr(bare),
    })
}

pub(super) fn compare(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    // `\\$5\\%` is neither an amount nor a share.
    if is_share_of_money(gold) != is_share_of_money(answer) {
        return Reason::NotUnderstood;
    }
    let gold_side = Measured::of(gold);
    let answer_side = Measured::of(answer);
    let is_share = |value: &Value| matches!(value, Value::Number(number) if number.percent);
    match (&gold_side.unit, &answer_side.unit) {
        // An amount with a unit is no share.
        (Some(_), None) if is_share(answer) && !is_share(&gold_side.amount) && rules.units != Units::Ignore => {
            Reason::DifferentUnit
        }
        (None, None) => amounts(gold, answer, rules, fuel),
        (Some(gold_unit), Some(answer_unit)) if rules.units != Units::Ignore => {
            let one_in_radians =
                gold_side.degree && is_radian(answer_unit) || answer_side.degree && is_radian(gold_unit);
            if one_in_radians && let Some(reason) = in_common_angle(&gold_side, &answer_side, rules, fuel) {
                return reason;
            }
            if !gold_unit.has_dimensions_of(answer_unit) {
                return Reason::DifferentUnit;
            }
            if gold_unit.factor() == answer_unit.factor() {
                return amounts(&gold_side.amount, &answer_side.amount, rules, fuel);
            }
            let scaled = |side: &Measured<'_>, unit: &Unit| times(&side.amount, unit.factor());
            match (scaled(&gold_side, gold_unit), scaled(&answer_side, answer_unit)) {
                (Some(gold), Some(answer)) => amounts(&gold, &answer, rules, fuel),
                _ => Reason::DifferentUnit,
            }
        }
        (Some(_), None) if rules.units == Units::Require || is_glued(gold) && rules.units == Units::Compare => {
            Reason::MissingUnit
        }
        _ => {
            // `25 cents` is 0.25 dollars, and `0.25 cents` is not.
            let cents =
                answer_side.unit.as_ref().filter(|unit| **unit == Unit::known("cent").unwrap_or_else(Unit::none));
            let is_part = matches!(gold, Value::Number(number) if number.exact().is_some_and(|value| !value.is_int()));
            let plain = if cents.is_some() && is_part {
                Reason::DifferentUnit
            } else {
                amounts(&gold_side.amount, &answer_side.amount, rules, fuel)
            };
            if let (false, None, Some(unit)) = (is_equal(plain), &gold_side.unit, cents)
                && let Some(dollars) = times(&answer_side.amount, unit.factor())
                && is_equal(amounts(gold, &dollars, rules, fuel))
            {
                return Reason::EqualQuantity;
            }
            if is_equal(plain) || !(gold_side.degree || answer_side.degree) {
                return plain;
            }
            // Degrees on one side, radians on the other.
            let radians = |side: &Measured<'_>, value: &Value| match value {
                Value::Quantity(_) => side.amount.scalar().map(in_radians),
                value => value.scalar(),
            };
            match (radians(&gold_side, gold), radians(&answer_side, answer)) {
                (Some(gold), Some(answer)) => scalar::compare(&Value::Expr(gold), &Value::Expr(answer), rules, fuel),
                _ => plain,
            }
        }
    }
}

fn is_share_of_money(value: &Value) -> bool {
    let is_share = |value: &Value| matches!(value, Value::Number(number) if number.percent);
    match value {
        Value::Quantity(quantity) => is_share(&quantity.amount) && quantity.unit == Unit::currency('$'),
        Value::Number(number) => number.percent && number.currency.is_some(),
        _ => false,
    }
}

fn is_radian(unit: &Unit) -> bool {
    ["radian", "rad"].iter().any(|name| Unit::counted(name).is_some_and(|radian| radian == *unit))
}

/// Degrees on one side, and the word "radians" on the other.
fn in_common_angle(gold: &Measured<'_>, answer: &Measured<'_>, rules: &Rules, fuel: &mut Fuel) -> Option<Reason> {
    let radians = |side: &Measured<'_>| {
        let amount = side.amount.scalar()?;
        Some(Value::Expr(if side.degree { in_radians(amount) } else { amount }))
    };
    Some(scalar::compare(&radians(gold)?, &radians(answer)?, rules, fuel))
}

fn is_glued(value: &Value) -> bool {
    matches!(value, Value::Quantity(quantity) if quantity.glued)
}

fn in_radians(amount: Expr) -> Expr {
    Builder::with(&amount, |builder, amount| {
        let pi = builder.constant(Constant::Pi);
        let turn = builder.integer(180);
        let unit = builder.push(Node::Divide(pi, turn));
        builder.push(Node::Multiply(amount, unit))
    })
}

/// A scalar times a rational.
fn times(value: &Value, factor: &RBig) -> Option<Value> {
    match value {
        Value::Number(number) if number.exact().is_some() => {
            let value = number.exact()? * factor;
            let notation = if value.is_int() { Notation::Integer } else { Notation::Fraction };
            Some(Value::Number(Number { magnitude: Magnitude::Exact(value), notation, ..number.clone() }))
        }
        value => {
            let factor = Expr::from(Number::plain(Magnitude::Exact(factor.clone()), Notation::Fraction));
            Some(Value::Expr(Builder::binary(&factor, &value.scalar()?, Node::Multiply)))
        }
    }
}

/// Numbers and expressions without units; a percent sign is a hundredth, or ignored if the rules allow it.
fn amounts(gold: &Value, answer: &Value, rules: &Rules, fuel: &mut Fuel) -> Reason {
    if let (Value::Number(_), Value::Number(_)) | (Value::List(_), _) | (_, Value::List(_)) = (gold, answer) {
        return super::compare(gold, answer, rules, fuel);
    }
    let has_percent = |value: &Value| matches!(value, Value::Number(number) if number.percent);
    if !has_percent(gold) && !has_percent(answer) {
        return scalar::compare(gold, answer, rules, fuel);
    }
    let reading = |value: &Value, scale: bool| match value {
        Value::Number(number) if number.percent => {
            let bare = Value::Number(Number { percent: false, ..number.clone() });
            if scale { times(&bare, &RBig::from_parts(1.into(), 100_u8.into())) } else { Some(bare) }
        }
        value => Some(value.clone()),
    };
    let mut last = Reason::DifferentNumber;
    for scale in [true, false] {
        if !scale && rules.percent == Percent::Hundredth {
            break;
        }
        let (Some(gold), Some(answer)) = (reading(gold, scale), reading(answer, scale)) else { continue };
        last = scalar::compare(&gold, &answer, rules, fuel);
        if is_equal(last) {
            return Reason::EqualPercent;
        }
    }
    last
}
