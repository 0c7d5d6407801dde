//! Signatures of expressions as they are written: an expression evaluated modulo a prime with a random number in place
//! of each numeral, so that `17 \cdot 23` is not 391, but `(17)\cdot 23 + 0`, `1 \cdot 23 \cdot 17` and `-(-17) \cdot
//! 23` are the same.

use std::collections::HashSet;

use dashu_ratio::RBig;

use crate::evaluate::prime::{PRIMES, add, hash, inverse, mix, multiply, negate, power};
use crate::expr::{Constant, Expr, Function, Node, NodeId};
use crate::{Magnitude, Number, Region, Relation, Sign, Value};

/// An expression as written, up to its disguises.
pub(super) type Signature = u64;

const PRIME: u64 = PRIMES[0];
/// The state of 1 as a term.
const ONE: u64 = 104;
/// Exponents up to which a power is a product.
const MAX_PRODUCT: u64 = 64;

/// A random residue for a state, the same every time.
fn random(state: u64) -> Signature {
    // Neither 0 nor 1, which are themselves.
    mix(state) % (PRIME - 2) + 2
}

pub(super) fn both(kind: u64, a: Signature, b: Signature) -> Signature {
    random(mix(mix(kind) ^ a).wrapping_add(b))
}

fn of_integer(digits: &str) -> Signature {
    match digits {
        "0" => 0,
        "1" => 1,
        "-1" => PRIME - 1,
        digits => match digits.strip_prefix('-') {
            Some(digits) => negate(random(hash(digits)), PRIME),
            None => random(hash(digits)),
        },
    }
}

fn of_rational(value: &RBig) -> Signature {
    let below = of_integer(&value.denominator().to_string());
    multiply(of_integer(&value.numerator().to_string()), inverse(below, PRIME).unwrap_or(0), PRIME)
}

fn of_number(number: &Number) -> Signature {
    let value = match &number.magnitude {
        Magnitude::Exact(value) => of_rational(value),
        Magnitude::LongDecimal(digits) => random(hash(&digits.digits)),
    };
    if number.percent { multiply(value, inverse(of_integer("100"), PRIME).unwrap_or(0), PRIME) } else { value }
}

/// Signatures of all nodes, in their order.
pub(super) fn of_nodes(expr: &Expr) -> Vec<Signature> {
    let bound = bound_variables(expr);
    // As a term, 1 is a numeral like any other: `(x - 1)(x + 1)` is not `x^2 - 1`.
    let is_literal =
        |id: u32, value: &RBig| matches!(expr.node(id), Node::Literal(number) if number.exact() == Some(value));
    let (is_one, is_minus_one) = (|id| is_literal(id, &RBig::ONE), |id| is_literal(id, &RBig::NEG_ONE));
    let mut found: Vec<Signature> = Vec::with_capacity(expr.len());
    for node in expr.nodes() {
        let signature_of = |id: &u32| found.get(*id as usize).copied().unwrap_or(0);
        let raised = |base: Signature, exponent: Signature, written: Option<&Number>| {
            // Small exponents are products: `x \cdot x` is `x^2`.
            let small = written.and_then(Number::exact).filter(|value| value.is_int());
            let small = small.and_then(|value| i64::try_from(value.numerator()).ok());
            match small {
                Some(exponent) if exponent.unsigned_abs() <= MAX_PRODUCT => {
                    let product = power(base, exponent.unsigned_abs(), PRIME);
                    if exponent < 0 { inverse(product, PRIME).unwrap_or(0) } else { product }
                }
                _ => both(1, base, exponent),
            }
        };
        let half = || of_rational(&RBig::from_parts(1.into(), 2_u8.into()));
        let signature = match node {
            Node::Literal(number) => of_number(number),
            Node::Constant(constant) => random(match constant {
                Constant::Pi => 101,
                Constant::E => 102,
                Constant::I => 103,
            }),
            Node::Symbol(name) => match bound.get(found.len()).copied().flatten() {
                // The variable of a sum with one term is its bound.
                Some(Bound { from, to, .. }) if signature_of(&from) == signature_of(&to) => signature_of(&from),
                Some(Bound { depth, .. }) => random(500 + depth as u64),
                None => random(hash(expr.name(*name)) ^ 7),
            },
            Node::Negate(a) => negate(signature_of(a), PRIME),
            Node::Add(a, b) => {
                let term = |id: &u32| match expr.node(*id) {
                    _ if is_one(*id) => random(ONE),
                    _ if is_minus_one(*id) => negate(random(ONE), PRIME),
                    Node::Negate(inner) if is_one(*inner) => negate(random(ONE), PRIME),
                    _ => signature_of(id),
                };
                add(term(a), term(b), PRIME)
            }
            Node::Multiply(a, b) => multiply(signature_of(a), signature_of(b), PRIME),
            Node::Divide(a, b) => multiply(signature_of(a), inverse(signature_of(b), PRIME).unwrap_or(0), PRIME),
            Node::Power(a, b) => {
                let written = match expr.node(*b) {
                    Node::Literal(number) => Some(number),
                    _ => None,
                };
                if signature_of(b) == 1 { signature_of(a) } else { raised(signature_of(a), signature_of(b), written) }
            }
            Node::Call(Function::Sqrt, a) => both(1, signature_of(a), half()),
            Node::Call2(Function::Root, a, n) => both(1, signature_of(a), inverse(signature_of(n), PRIME).unwrap_or(0)),
            Node::Call(Function::Exp, a) => both(1, random(102), signature_of(a)),
            Node::Call(function, a) => both(100 + *function as u64, signature_of(a), 0),
            Node::Call2(function, a, b) => both(200 + *function as u64, signature_of(a), signature_of(b)),
            Node::Apply(name, a) => both(hash(expr.name(*name)) ^ 9, signature_of(a), 0),
            Node::Term(_) => 0,
            Node::Fold { product, from, to, .. } => {
                // The node before it is the root of its term.
                let term = found.last().copied().unwrap_or(0);
                let (from, to) = (signature_of(from), signature_of(to));
                if from == to { term } else { both(300 + u64::from(*product), both(2, from, to), term) }
            }
        };
        found.push(signature);
    }
    found
}

/// Where a variable is bound: how many sums and products are around the one that binds it, and the bounds of that one.
#[derive(Clone, Copy)]
struct Bound {
    depth: usize,
    from: NodeId,
    to: NodeId,
}

/// For each node, where it is bound. `None` where it is not.
fn bound_variables(expr: &Expr) -> Vec<Option<Bound>> {
    let folds = expr.nodes().iter().enumerate().filter_map(|(end, node)| match node {
        Node::Fold { variable, begin, from, to, .. } => Some((*begin as usize, end, *variable, *from, *to)),
        _ => None,
    });
    let folds: Vec<_> = folds.collect();
    if folds.is_empty() {
        return Vec::new();
    }
    let mut bound = vec![None; expr.len()];
    // Inner ones come first.
    for (begin, end, variable, from, to) in &folds {
        let depth = folds.iter().filter(|(outer, last, ..)| outer < begin && end < last).count();
        for (node, bound) in expr.nodes().iter().zip(&mut bound).take(*end).skip(*begin) {
            if *node == Node::Symbol(*variable) {
                bound.get_or_insert(Bound { depth, from: *from, to: *to });
            }
        }
    }
    bound
}

/// Whether a node is more than a numeral, a constant or a name, with or without a sign.
pub(super) fn is_operation(node: &Node) -> bool {
    !matches!(node, Node::Literal(_) | Node::Constant(_) | Node::Symbol(_) | Node::Negate(_) | Node::Term(_))
}

/// Whether an expression has anything but a numeral, a constant or a name, with or without a sign.
pub(super) fn has_operation(expr: &Expr) -> bool {
    expr.any(|node| !matches!(node, Node::Literal(_) | Node::Constant(_) | Node::Symbol(_) | Node::Negate(_)))
}

/// Whether a region is an intersection or a difference, which may be computed further.
pub(super) fn is_computed(region: &Region) -> bool {
    match region {
        Region::Intersection(_) | Region::Minus(..) => true,
        Region::Union(parts) => parts.iter().any(is_computed),
        Region::Reals | Region::Interval(..) | Region::Points(_) => false,
    }
}

/// The signature of a value. `None` where it has none.
pub(super) fn of_value(value: &Value) -> Option<Signature> {
    let in_order = |kind: u64, items: &[Value]| {
        items.iter().try_fold(random(kind), |sum, item| Some(both(kind, sum, of_value(item)?)))
    };
    let in_any_order = |kind: u64, items: &[Value]| {
        items.iter().try_fold(random(kind), |sum, item| Some(add(sum, both(kind, of_value(item)?, 0), PRIME)))
    };
    match value {
        Value::Number(number) => Some(of_number(number)),
        Value::Expr(expr) => of_nodes(expr).last().copied(),
        Value::Quantity(quantity) => of_value(&quantity.amount),
        Value::Relation(relation) => of_relation(relation),
        Value::Conditions(relations) => relations
            .iter()
            .try_fold(random(11), |sum, relation| Some(add(sum, both(11, of_relation(relation)?, 0), PRIME))),
        Value::List(items) => in_any_order(12, items),
        Value::Set(items) => in_any_order(13, items),
        Value::Tuple(tuple) => in_order(14 + u64::from(tuple.open) * 256 + u64::from(tuple.close), &tuple.items),
        Value::Ratio(items) => in_order(15, items),
        Value::Matrix(matrix) => in_order(1000 + matrix.columns as u64, &matrix.cells),
        Value::Region(region) => Some(random(hash(&region.to_string()))),
        Value::Based(_) | Value::Infinite { .. } | Value::Time(_) | Value::Comprehension(_) | Value::Text(_) => {
            Some(random(hash(&value.to_string())))
        }
    }
}

/// The signature of a relation: equal for both of its directions, and for its terms moved to one side.
fn of_relation(relation: &Relation) -> Option<Signature> {
    if let ([left, right], [sign]) = (relation.members.as_slice(), relation.signs.as_slice())
        && let (Some(left), Some(right)) = (of_value(left), of_value(right))
    {
        let difference = add(left, negate(right, PRIME), PRIME);
        return Some(match sign {
            Sign::Greater => both(21, difference, 0),
            Sign::Less => both(21, negate(difference, PRIME), 0),
            Sign::GreaterOrEqual => both(22, difference, 0),
            Sign::LessOrEqual => both(22, negate(difference, PRIME), 0),
            Sign::Equal | Sign::NotEqual | Sign::Approximately | Sign::Congruent => {
                both(23 + u64::from(*sign == Sign::NotEqual), multiply(difference, difference, PRIME), 0)
            }
            Sign::In | Sign::To => both(25, left, right),
        });
    }
    let signs = format!("{:?}", relation.signs);
    relation.members.iter().try_fold(random(hash(&signs)), |sum, member| Some(both(26, sum, of_value(member)?)))
}

/// Adds the signatures of a value and of everything in it.
pub(super) fn parts_of(value: &Value, found: &mut HashSet<Signature>) {
    found.extend(of_value(value));
    match value {
        Value::Expr(expr) => found.extend(of_nodes(expr)),
        Value::Quantity(quantity) => parts_of(&quantity.amount, found),
        Value::Relation(relation) => {
            relation.members.iter().for_each(|member| parts_of(member, found));
            // `3 = x + 2 < 7` holds two relations.
            for (pair, sign) in relation.members.windows(2).zip(&relation.signs) {
                found.extend(of_relation(&Relation { members: pair.to_vec(), signs: vec![*sign] }));
            }
        }
        Value::Conditions(relations) => {
            relations.iter().for_each(|relation| parts_of(&Value::Relation(relation.clone()), found));
        }
        Value::List(items) | Value::Set(items) | Value::Ratio(items) => {
            items.iter().for_each(|item| parts_of(item, found));
        }
        Value::Tuple(tuple) => tuple.items.iter().for_each(|item| parts_of(item, found)),
        Value::Matrix(matrix) => matrix.cells.iter().for_each(|cell| parts_of(cell, found)),
        _ => {}
    }
}
