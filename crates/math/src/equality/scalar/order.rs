//! Expressions with the same operations on the same leaves, in any order of terms and factors: `\sqrt{a^2 + b^2}` and
//! `\sqrt{b^2 + a^2}`. Exact, and linear in the number of nodes.

use std::collections::HashMap;

use crate::expr::{Expr, Node, NodeId};
use crate::{Fuel, OutOfFuel};

/// What a node does, with the classes of its operands; those of sums and products are sorted.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Form {
    operation: &'static str,
    leaf: String,
    operands: Vec<usize>,
}

/// Whether both are the same up to the order of terms and factors.
pub(super) fn same(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> Result<bool, OutOfFuel> {
    // Another order has as many nodes.
    if gold.len() != answer.len() {
        return Ok(false);
    }
    fuel.spend(gold.len() * 2)?;
    let mut classes = HashMap::new();
    let gold = class(gold, &mut classes);
    let answer = class(answer, &mut classes);
    Ok(gold.is_some() && gold == answer)
}

/// The class of the root. `None` where a node has none.
fn class(expr: &Expr, classes: &mut HashMap<Form, usize>) -> Option<usize> {
    let mut inner = vec![false; expr.len()];
    for node in expr.nodes() {
        let (Node::Add(a, b) | Node::Multiply(a, b)) = node else { continue };
        for operand in [a, b] {
            if std::mem::discriminant(expr.node(*operand)) == std::mem::discriminant(node) {
                *inner.get_mut(*operand as usize)? = true;
            }
        }
    }
    let mut found: Vec<Option<usize>> = Vec::with_capacity(expr.len());
    for (index, node) in expr.nodes().iter().enumerate() {
        if inner.get(index).copied()? {
            found.push(None);
            continue;
        }
        let class_of = |id: NodeId| found.get(id as usize).copied().flatten();
        let form = |operation, leaf: String, operands: Vec<usize>| Form { operation, leaf, operands };
        let form = match node {
            Node::Literal(number) => form("number", number.to_string(), Vec::new()),
            Node::Constant(constant) => form("constant", format!("{constant:?}"), Vec::new()),
            Node::Symbol(name) => form("name", expr.name(*name).to_owned(), Vec::new()),
            Node::Add(..) => form("+", String::new(), operands(expr, index, &found)?),
            Node::Multiply(..) => form("*", String::new(), operands(expr, index, &found)?),
            Node::Negate(a) => form("-", String::new(), vec![class_of(*a)?]),
            Node::Divide(a, b) => form("/", String::new(), vec![class_of(*a)?, class_of(*b)?]),
            Node::Power(a, b) => form("^", String::new(), vec![class_of(*a)?, class_of(*b)?]),
            Node::Call(function, a) => form("call", function.name().to_owned(), vec![class_of(*a)?]),
            Node::Call2(function, a, b) => form("call", function.name().to_owned(), vec![class_of(*a)?, class_of(*b)?]),
            Node::Apply(name, a) => form("apply", expr.name(*name).to_owned(), vec![class_of(*a)?]),
            Node::Term(_) | Node::Fold { .. } => return None,
        };
        let next = classes.len();
        found.push(Some(*classes.entry(form).or_insert(next)));
    }
    found.last().copied().flatten()
}

/// The sorted classes of the terms of a sum, or of the factors of a product.
fn operands(expr: &Expr, top: usize, found: &[Option<usize>]) -> Option<Vec<usize>> {
    let kind = std::mem::discriminant(expr.nodes().get(top)?);
    let mut open = vec![NodeId::try_from(top).ok()?];
    let mut classes = Vec::new();
    while let Some(id) = open.pop() {
        let node = expr.node(id);
        match node {
            Node::Add(a, b) | Node::Multiply(a, b) if std::mem::discriminant(node) == kind => open.extend([*a, *b]),
            _ => classes.push(found.get(id as usize).copied().flatten()?),
        }
    }
    classes.sort_unstable();
    Some(classes)
}
