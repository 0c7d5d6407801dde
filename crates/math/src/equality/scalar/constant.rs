//! The constant of integration, which may have another name.

use crate::expr::{Expr, Node};

/// The answer with its constant of integration called C, as in the gold answer: `x^2 + c`. `None` if the gold answer
/// has none, or if the name is not free.
pub(super) fn with_constant(gold: &Expr, answer: &Expr) -> Option<Expr> {
    const NAMES: [&str; 3] = ["c", "K", "k"];
    let has = |expr: &Expr, name: &str| expr.names().iter().any(|known| known == name);
    if !has(gold, "C") || has(answer, "C") || !is_added(gold, "C") {
        return None;
    }
    let name = NAMES.iter().find(|name| has(answer, name) && !has(gold, name))?;
    is_added(answer, name).then(|| answer.renamed(name, "C"))
}

/// Whether a variable is a term of a sum, and occurs nowhere else.
fn is_added(expr: &Expr, name: &str) -> bool {
    let is_it = |node: &Node| matches!(node, Node::Symbol(index) if expr.name(*index) == name);
    let mut open = vec![expr.root()];
    let mut found = 0;
    while let Some(node) = open.pop() {
        match node {
            Node::Add(a, b) => open.extend([expr.node(*a), expr.node(*b)]),
            node => found += usize::from(is_it(node)),
        }
    }
    found == 1 && expr.nodes().iter().filter(|node| is_it(node)).count() == 1 && matches!(expr.root(), Node::Add(..))
}
