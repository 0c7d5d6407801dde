//! Where the pieces of a piecewise expression may meet, estimated from above: `\min(x, 10^3)` is x below 1000.

use crate::expr::{Constant, Expr, Function, Node, NodeId};

/// Beyond every magnitude that matters.
const FAR: i64 = i64::MAX;

/// What is known of a part of an expression.
#[derive(Clone, Copy)]
struct Bounds {
    /// A bound of the magnitude, if it is constant.
    constant: Option<i64>,
    /// The largest bound of a constant in it.
    largest: i64,
    /// The product of the magnitudes of its divisors: `x/10 - 5` turns at 50.
    divisor: i64,
    /// Whether a root or a logarithm of a variable occurs: `\sqrt x - 5` turns at 25.
    root: bool,
    logarithm: bool,
}

impl Bounds {
    const VARIABLE: Self = Self { constant: None, largest: 1, divisor: 1, root: false, logarithm: false };

    fn constant(bound: i64) -> Self {
        Self { constant: Some(bound), largest: bound, ..Self::VARIABLE }
    }

    fn with(self, other: Self, bound: impl FnOnce(i64, i64) -> i64) -> Self {
        let constant = self.constant.zip(other.constant).map(|(a, b)| bound(a, b));
        Self {
            constant,
            largest: self.largest.max(other.largest).max(constant.unwrap_or(1)),
            divisor: self.divisor.saturating_mul(other.divisor),
            root: self.root || other.root,
            logarithm: self.logarithm || other.logarithm,
        }
    }

    fn threshold(self) -> i64 {
        let linear = self.largest.saturating_mul(self.divisor);
        let power = if self.root { linear.saturating_mul(linear) } else { linear };
        if self.logarithm { power.max(grown(10, self.largest)) } else { power }
    }
}

/// The power `base^exponent`, or [`FAR`] for an exponent that is out of range.
fn grown(base: i64, exponent: i64) -> i64 {
    u32::try_from(exponent).map_or(FAR, |exponent| base.saturating_pow(exponent))
}

/// The largest magnitude at which pieces may meet, or more.
pub(super) fn of(expr: &Expr) -> i64 {
    let mut parts: Vec<Bounds> = Vec::with_capacity(expr.len());
    let mut reach = 1;
    for node in expr.nodes() {
        let bounds_of = |id: &NodeId| parts.get(*id as usize).copied().unwrap_or(Bounds::VARIABLE);
        let part = match node {
            Node::Literal(number) => {
                let bound = node.magnitude().unwrap_or(FAR);
                let divisor = number.exact().map_or(FAR, |value| i64::try_from(value.denominator()).unwrap_or(FAR));
                Bounds { divisor, ..Bounds::constant(bound) }
            }
            Node::Constant(Constant::I) => Bounds::constant(1),
            Node::Constant(_) => Bounds::constant(4),
            Node::Symbol(_) | Node::Term(_) => Bounds::VARIABLE,
            Node::Negate(a) | Node::Apply(_, a) => bounds_of(a),
            Node::Add(a, b) => bounds_of(a).with(bounds_of(b), i64::saturating_add),
            Node::Multiply(a, b) => bounds_of(a).with(bounds_of(b), i64::saturating_mul),
            Node::Divide(a, b) => {
                let above = bounds_of(a);
                let below = bounds_of(b);
                let divisor = above.divisor.saturating_mul(below.constant.unwrap_or(1)).saturating_mul(below.divisor);
                let bound = |above: i64, _| above.saturating_mul(below.divisor);
                Bounds { divisor, ..above.with(below, bound) }
            }
            Node::Power(a, b) => {
                let base = bounds_of(a);
                let exponent = bounds_of(b);
                let root = exponent.constant.is_some() && exponent.divisor > 1 && base.constant.is_none();
                let mut power = base.with(exponent, |base, exponent| grown(base.max(2), exponent));
                power.root |= root;
                power
            }
            Node::Call(Function::Sqrt, a) => Bounds { root: true, ..bounds_of(a) },
            Node::Call(Function::Ln | Function::Log | Function::Lg, a) if bounds_of(a).constant.is_none() => {
                Bounds { logarithm: true, ..bounds_of(a) }
            }
            Node::Call(Function::Exp, a) => bounds_of(a).with(bounds_of(a), |exponent, _| grown(3, exponent)),
            Node::Call(Function::Factorial | Function::DoubleFactorial, a) => {
                bounds_of(a).with(bounds_of(a), |n, _| (1..=n.min(21)).fold(1_i64, i64::saturating_mul))
            }
            Node::Call(_, a) => bounds_of(a),
            Node::Call2(Function::LogBase, a, b) if bounds_of(a).constant.is_none() => {
                Bounds { logarithm: true, ..bounds_of(a).with(bounds_of(b), i64::max) }
            }
            Node::Call2(Function::Root, a, b) => Bounds { root: true, ..bounds_of(a).with(bounds_of(b), i64::max) },
            Node::Call2(Function::Binomial, a, b) => bounds_of(a).with(bounds_of(b), |n, _| grown(2, n)),
            Node::Call2(_, a, b) => bounds_of(a).with(bounds_of(b), i64::max),
            Node::Fold { from, to, .. } => {
                bounds_of(from).with(bounds_of(to), |a, b| a.max(b).saturating_mul(a.max(b)))
            }
        };
        let turns = match node {
            Node::Call(Function::Abs | Function::Floor | Function::Ceiling | Function::Sqrt, _) => true,
            Node::Call2(function, ..) => {
                matches!(function, Function::Modulo | Function::Min | Function::Max | Function::Root)
            }
            _ => false,
        };
        // A constant has no pieces.
        if turns && part.constant.is_none() {
            // The outer root or logarithm does not move the threshold of its own argument.
            let inner = match node {
                Node::Call(Function::Sqrt, a) | Node::Call2(Function::Root, a, _) => bounds_of(a),
                _ => part,
            };
            reach = reach.max(inner.threshold());
        }
        parts.push(part);
    }
    // What is outside of the piecewise parts may still be compared with them.
    parts
        .iter()
        .map(|part| if part.constant == Some(FAR) { 1 } else { part.largest.min(1 << 40) })
        .fold(reach, i64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use crate::{Fuel, Value};

    fn reach(text: &str) -> i64 {
        match parse(text, &mut Fuel::new(10_000)) {
            Ok(Value::Expr(expr)) => of(&expr),
            other => panic!("{text} is {other:?}"),
        }
    }

    #[test]
    fn thresholds_are_bounded_from_above() {
        assert_eq!(reach("\\min(x, 10^3)"), 1000);
        assert!(reach("|x/10 - 10^5|") >= 1_000_000);
        assert!(reach("|0.001x - 5|") >= 5000);
        assert!(reach("\\max(\\sqrt{x}, 1000)") >= 1_000_000);
        assert!(reach("\\max(\\ln x, 9)") >= 8104);
        assert!(reach("\\min(x, 10!)") >= 3_628_800);
        assert_eq!(reach("\\min(x, 10^{100})"), FAR);
        assert!(reach("x + 7") <= 7);
    }
}
