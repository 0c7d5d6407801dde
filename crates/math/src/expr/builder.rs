//! Builds an expression node by node, folding constants as it goes: `3/4` is a literal.

use dashu_ratio::RBig;

use super::{Constant, Expr, Function, Node, NodeId};
use crate::{Magnitude, Notation, Number};

/// Most nodes of an expression.
pub(crate) const MAX_NODES: usize = 4096;

/// Most variables of an expression, which are searched linearly.
const MAX_NAMES: usize = 128;

/// An expression under construction. The root is added last.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    nodes: Vec<Node>,
    names: Vec<String>,
    matrices: Vec<String>,
}

impl Builder {
    /// The finished expression. `None` if it is empty.
    pub(crate) fn finish(self, root: NodeId) -> Option<Expr> {
        // If folding left the root in the middle, it is moved to the end.
        if root as usize + 1 != self.nodes.len() {
            return None;
        }
        Some(self.expr())
    }

    fn expr(self) -> Expr {
        Expr { nodes: self.nodes, names: self.names, matrices: self.matrices }
    }

    /// Notes that a name was written as a matrix or vector.
    pub(crate) fn mark_as_matrix(&mut self, name: &str) {
        if !self.matrices.iter().any(|matrix| matrix == name) {
            self.matrices.push(name.to_owned());
        }
    }

    /// Whether there are more nodes than an expression may have.
    pub(crate) fn is_full(&self) -> bool {
        self.nodes.len() >= MAX_NODES || self.names.len() > MAX_NAMES
    }

    pub(crate) fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        // A little more than `MAX_NODES`.
        (self.nodes.len() - 1) as NodeId
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id as usize)
    }

    /// The index of a name, added if new.
    pub(crate) fn name(&mut self, name: &str) -> u32 {
        let index = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        index as u32
    }

    pub(crate) fn symbol(&mut self, name: &str) -> NodeId {
        let name = self.name(name);
        self.push(Node::Symbol(name))
    }

    pub(crate) fn constant(&mut self, constant: Constant) -> NodeId {
        self.push(Node::Constant(constant))
    }

    pub(crate) fn literal(&mut self, number: Number) -> NodeId {
        self.push(Node::Literal(number))
    }

    pub(crate) fn integer(&mut self, integer: i64) -> NodeId {
        self.literal(Number::plain(Magnitude::Exact(RBig::from(integer)), Notation::Integer))
    }

    /// `-operand`, folded for a number.
    pub(crate) fn negate(&mut self, operand: NodeId) -> NodeId {
        if operand as usize + 1 == self.nodes.len()
            && let Some(Node::Literal(number)) = self.nodes.last_mut()
        {
            *number = std::mem::take(number).negated();
            return operand;
        }
        self.push(Node::Negate(operand))
    }

    /// `above/below`, folded for two integers.
    pub(crate) fn divide(&mut self, above: NodeId, below: NodeId) -> NodeId {
        if below as usize + 1 == self.nodes.len()
            && above + 1 == below
            && let [.., Node::Literal(numerator), Node::Literal(denominator)] = self.nodes.as_slice()
            && let (Some(value), Some(divisor)) = (integer(numerator), integer(denominator))
            && !divisor.is_zero()
        {
            let quotient = Number::plain(Magnitude::Exact(value / divisor), Notation::Fraction);
            self.nodes.truncate(above as usize);
            return self.literal(quotient);
        }
        self.push(Node::Divide(above, below))
    }

    /// `√radicand`, folded where possible.
    pub(crate) fn sqrt(&mut self, radicand: NodeId) -> NodeId {
        self.push(Node::Call(Function::Sqrt, radicand))
    }

    /// `left op right` of two expressions.
    pub(crate) fn binary(left: &Expr, right: &Expr, node: impl FnOnce(NodeId, NodeId) -> Node) -> Expr {
        let mut builder = Self::default();
        let left = builder.append(left);
        let right = builder.append(right);
        builder.push(node(left, right));
        builder.expr()
    }

    /// `op(operand)` of an expression.
    pub(crate) fn unary(operand: &Expr, node: impl FnOnce(NodeId) -> Node) -> Expr {
        let mut builder = Self::default();
        let operand = builder.append(operand);
        builder.push(node(operand));
        builder.expr()
    }

    /// Wraps the root of an expression in any number of new nodes.
    pub(crate) fn with(operand: &Expr, wrap: impl FnOnce(&mut Self, NodeId) -> NodeId) -> Expr {
        let mut builder = Self::default();
        let operand = builder.append(operand);
        wrap(&mut builder, operand);
        builder.expr()
    }

    /// The expression with some nodes replaced by one of their operands, and without what is then unused. `None` if it
    /// has sums, whose terms have a place.
    pub(crate) fn mapped(expr: &Expr, operand: impl Fn(&Node) -> Option<NodeId>) -> Option<Expr> {
        let target = |id: NodeId| {
            let mut id = id;
            // Operands come before their node, so this ends.
            while let Some(next) = operand(expr.node(id)) {
                id = next;
            }
            id
        };
        let count = expr.nodes.len();
        let root = target(NodeId::try_from(count.checked_sub(1)?).ok()?);
        let mut used = vec![false; count];
        *used.get_mut(root as usize)? = true;
        for at in (0..count).rev() {
            if used.get(at) == Some(&true) {
                expr.nodes.get(at)?.each_operand(|id| {
                    if let Some(used) = used.get_mut(target(id) as usize) {
                        *used = true;
                    }
                });
            }
        }
        let mut places = vec![0; count];
        let mut nodes = Vec::with_capacity(count);
        for (at, node) in expr.nodes.iter().enumerate().filter(|(at, _)| used.get(*at) == Some(&true)) {
            if matches!(node, Node::Term(_) | Node::Fold { .. }) {
                return None;
            }
            let moved = node.moved(|id| places.get(target(id) as usize).copied().unwrap_or(0), |name| name);
            let place = NodeId::try_from(nodes.len()).ok()?;
            nodes.push(moved);
            *places.get_mut(at)? = place;
        }
        Some(Expr { nodes, ..expr.names_alone() })
    }

    /// The expression with the application of a name as a product: `P(1 - r)`. `None` if it has sums, whose terms have
    /// a place.
    pub(crate) fn applied_as_factor(expr: &Expr, name: &str) -> Option<Expr> {
        let mut places = vec![0; expr.nodes.len()];
        let mut nodes = Vec::with_capacity(expr.nodes.len() + 4);
        for (at, node) in expr.nodes.iter().enumerate() {
            let place = |id: NodeId| places.get(id as usize).copied().unwrap_or(0);
            let moved = match node {
                Node::Term(_) | Node::Fold { .. } => return None,
                // `P(1 + r)^t`: the power is that of the factor in brackets.
                Node::Power(base, exponent)
                    if let Node::Apply(index, a) = expr.node(*base)
                        && expr.name(*index) == name =>
                {
                    nodes.push(Node::Symbol(*index));
                    nodes.push(Node::Power(place(*a), place(*exponent)));
                    let at = NodeId::try_from(nodes.len()).ok()?;
                    Node::Multiply(at - 2, at - 1)
                }
                Node::Apply(index, a) if expr.name(*index) == name => {
                    nodes.push(Node::Symbol(*index));
                    Node::Multiply(NodeId::try_from(nodes.len() - 1).ok()?, place(*a))
                }
                _ => node.moved(place, |name| name),
            };
            let place = NodeId::try_from(nodes.len()).ok()?;
            nodes.push(moved);
            *places.get_mut(at)? = place;
        }
        Some(Expr { nodes, ..expr.names_alone() })
    }

    /// The sub-expression whose root is this node, if its nodes come first.
    pub(crate) fn prefix(expr: &Expr, last: NodeId) -> Expr {
        Expr { nodes: expr.nodes.iter().take(last as usize + 1).cloned().collect(), ..expr.names_alone() }
    }

    /// The sub-expression whose root is this node, also within the term of a sum.
    pub(crate) fn part(expr: &Expr, id: NodeId) -> Expr {
        let prefix = Self::prefix(expr, id);
        Self::mapped(&prefix, |_| None).unwrap_or(prefix)
    }

    /// Appends a copy of an expression and returns its root.
    pub(crate) fn append(&mut self, expr: &Expr) -> NodeId {
        let base = self.nodes.len() as NodeId;
        expr.matrices.iter().for_each(|name| self.mark_as_matrix(name));
        let names: Vec<u32> = expr.names.iter().map(|name| self.name(name)).collect();
        // Every node's name is among them.
        let renamed = |name: u32| names.get(name as usize).copied().unwrap_or(name);
        for node in &expr.nodes {
            self.nodes.push(node.moved(|id| id + base, renamed));
        }
        (self.nodes.len() - 1) as NodeId
    }

    /// Sets the end of the term that begins at `begin`.
    pub(crate) fn close_term(&mut self, begin: NodeId, end: NodeId) {
        if let Some(node) = self.nodes.get_mut(begin as usize) {
            *node = Node::Term(end);
        }
    }
}

/// The value of a number that was written as an integer.
fn integer(number: &Number) -> Option<&RBig> {
    match number.notation {
        Notation::Integer if number.is_bare() => number.exact(),
        _ => None,
    }
}
