//! Signatures that look through arithmetic within an expression: `\binom{30 + 1}{28}` and
//! `\sum_{k=1}^{1} \binom{31}{28}` are `\binom{31}{28}`, as numbers are computed while functions stay as they are.

use dashu_ratio::RBig;

use super::signature::{Signature, both};
use crate::Fuel;
use crate::evaluate::exact;
use crate::evaluate::prime::{PRIMES, add, inverse, multiply, negate, reduce, reduce_unsigned};
use crate::expr::{Builder, Expr, Function, Node, NodeId};

const PRIME: u64 = PRIMES[1];

/// A node of an expression.
#[derive(Debug, Clone, Copy)]
struct Known {
    signature: Signature,
    /// Value of the node where it is a small integer.
    small: Option<i64>,
    /// Whether it has a function, which is not computed.
    has_function: bool,
}

/// The signatures of all nodes, in their order; `None` for those with variables, and those that are arithmetic alone.
pub(super) fn of_nodes(expr: &Expr, fuel: &mut Fuel) -> Vec<Option<Signature>> {
    let mut found: Vec<Option<Known>> = Vec::with_capacity(expr.len());
    for (index, node) in expr.nodes().iter().enumerate() {
        let value_of = |id: &u32| found.get(*id as usize).copied().flatten();
        let last = found.last().copied().flatten();
        let known = match node {
            Node::Symbol(name) => only_value(expr, index, *name).and_then(|from| value_of(&from)),
            node => of_node(node, &value_of, last),
        };
        // A sum of several terms counts by its value.
        let known = match (node, known) {
            (Node::Fold { .. }, None) => integer(expr, index as NodeId, fuel).map(|small| Known {
                signature: reduce(&small.into(), PRIME),
                small: Some(small),
                has_function: true,
            }),
            (_, known) => known,
        };
        // The value of a function counts where it is an argument: `\binom{31}{\binom{8}{2}}`.
        let is_open = |known: &Known| known.small.is_none() && known.has_function;
        let small = known.filter(is_open).and_then(|_| integer(expr, index as NodeId, fuel));
        found.push(known.map(|known| Known { small: known.small.or(small), ..known }));
    }
    found.into_iter().map(|known| known.filter(|known| known.has_function).map(|known| known.signature)).collect()
}

/// The value of a node that is a small integer.
fn integer(expr: &Expr, id: NodeId, fuel: &mut Fuel) -> Option<i64> {
    let value = exact(&Builder::part(expr, id), fuel).ok()??.as_rational()?;
    if value.is_int() { i64::try_from(value.numerator()).ok() } else { None }
}

/// The lower bound of the sum whose variable stands at a node: the variable's value where the sum has one term.
fn only_value(expr: &Expr, index: usize, name: u32) -> Option<u32> {
    let folds = expr.nodes().iter().enumerate().skip(index);
    folds.into_iter().find_map(|(end, node)| match node {
        Node::Fold { variable, begin, from, .. } if *variable == name && (*begin as usize..end).contains(&index) => {
            Some(*from)
        }
        _ => None,
    })
}

fn of_node(node: &Node, at: &impl Fn(&u32) -> Option<Known>, last: Option<Known>) -> Option<Known> {
    // An argument counts by its value.
    let argument = |known: Known| known.small.map_or(known.signature, |small| reduce(&small.into(), PRIME));
    let arithmetic = |a: Known, b: Known, value: Option<Signature>, small: Option<i64>| {
        Some(Known { signature: value?, small, has_function: a.has_function || b.has_function })
    };
    let function = |kind: u64, a: Known, b: Option<Known>| {
        let signature = both(kind, argument(a), b.map_or(0, argument));
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
            let exponent = b.small.and_then(|exponent| u32::try_from(exponent).ok());
            let small = a.small.zip(exponent).and_then(|(base, exponent)| base.checked_pow(exponent));
            // The inverse of a power is a quotient.
            match b.small {
                Some(-1) => arithmetic(a, b, inverse(a.signature, PRIME), None),
                Some(1) => Some(a),
                _ => function(1, a, Some(b)).map(|known| Known { small, ..known }),
            }
        }
        Node::Call(Function::Sqrt, a) => {
            let a = at(a)?;
            let root = a.small.and_then(i64::checked_isqrt).filter(|root| root.checked_mul(*root) == a.small);
            function(100, a, None).map(|known| Known { small: root, ..known })
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
