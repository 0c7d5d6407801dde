//! Signatures that look through arithmetic within an expression: `\binom{30 + 1}{28}` and `\sum_{k=1}^{1} \binom{31}{28}`
//! are `\binom{31}{28}`, as numbers are computed while functions stay as they are.

use dashu_ratio::RBig;

use super::signature::{Signature, both};
use crate::evaluate::prime::{PRIMES, add, inverse, multiply, negate, power, reduce, reduce_unsigned};
use crate::expr::{Expr, Node};

const PRIME: u64 = PRIMES[1];
/// Exponents up to which a power is computed.
const MAX_EXPONENT: u64 = 64;

/// A node of an expression.
#[derive(Debug, Clone, Copy)]
struct Known {
    signature: Signature,
    /// Its value where it is a small integer.
    small: Option<i64>,
    /// Whether it has a function, which is not computed.
    has_function: bool,
}

/// The signatures of all nodes, in their order; `None` for those with variables, and those that are arithmetic alone.
pub(super) fn of_nodes(expr: &Expr) -> Vec<Option<Signature>> {
    let mut found: Vec<Option<Known>> = Vec::with_capacity(expr.len());
    for node in expr.nodes() {
        let at = |id: &u32| found.get(*id as usize).copied().flatten();
        let last = found.last().copied().flatten();
        let known = of_node(node, &at, last);
        found.push(known);
    }
    found.into_iter().map(|known| known.filter(|known| known.has_function).map(|known| known.signature)).collect()
}

fn of_node(node: &Node, at: &impl Fn(&u32) -> Option<Known>, last: Option<Known>) -> Option<Known> {
    let arithmetic = |a: Known, b: Known, value: Option<Signature>, small: Option<i64>| {
        Some(Known { signature: value?, small, has_function: a.has_function || b.has_function })
    };
    let function = |kind: u64, a: Known, b: Option<Known>| {
        let signature = both(kind, a.signature, b.map_or(0, |b| b.signature));
        Some(Known { signature, small: None, has_function: true })
    };
    match node {
        Node::Literal(number) => {
            let value = number.exact().filter(|_| !number.percent)?;
            let small = if value.is_int() { i64::try_from(value.numerator()).ok() } else { None };
            Some(Known { signature: of_rational(value)?, small, has_function: false })
        }
        Node::Negate(a) => {
            let a = at(a)?;
            arithmetic(a, a, Some(negate(a.signature, PRIME)), a.small.and_then(i64::checked_neg))
        }
        Node::Add(a, b) => {
            let (a, b) = (at(a)?, at(b)?);
            let small = a.small.zip(b.small).and_then(|(a, b)| a.checked_add(b));
            arithmetic(a, b, Some(add(a.signature, b.signature, PRIME)), small)
        }
        Node::Multiply(a, b) => {
            let (a, b) = (at(a)?, at(b)?);
            let small = a.small.zip(b.small).and_then(|(a, b)| a.checked_mul(b));
            arithmetic(a, b, Some(multiply(a.signature, b.signature, PRIME)), small)
        }
        Node::Divide(a, b) => {
            let (a, b) = (at(a)?, at(b)?);
            let small = a.small.zip(b.small).filter(|(a, b)| *b != 0 && a % b == 0).map(|(a, b)| a / b);
            arithmetic(a, b, inverse(b.signature, PRIME).map(|b| multiply(a.signature, b, PRIME)), small)
        }
        Node::Power(a, b) => {
            let (a, b) = (at(a)?, at(b)?);
            match b.small.map(i64::unsigned_abs) {
                Some(exponent) if exponent <= MAX_EXPONENT && !b.has_function => {
                    let raised = power(a.signature, exponent, PRIME);
                    let raised = if b.small < Some(0) { inverse(raised, PRIME) } else { Some(raised) };
                    arithmetic(a, b, raised, None)
                }
                _ => function(1, a, Some(b)),
            }
        }
        Node::Call(name, a) => function(100 + *name as u64, at(a)?, None),
        Node::Call2(name, a, b) => function(200 + *name as u64, at(a)?, Some(at(b)?)),
        // One term, which has no variable: the node before it is its root.
        Node::Fold { from, to, .. } => {
            last.filter(|_| at(from).zip(at(to)).is_some_and(|(a, b)| a.small.is_some() && a.small == b.small))
        }
        Node::Constant(constant) => {
            Some(Known { signature: both(7, *constant as u64, 0), small: None, has_function: false })
        }
        Node::Symbol(_) | Node::Apply(..) | Node::Term(_) => None,
    }
}

fn of_rational(value: &RBig) -> Option<Signature> {
    let below = reduce_unsigned(value.denominator(), PRIME);
    Some(multiply(reduce(value.numerator(), PRIME), inverse(below, PRIME)?, PRIME))
}
