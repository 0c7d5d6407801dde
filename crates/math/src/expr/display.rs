//! The canonical spelling of an expression, written without recursion with a stack of pending pieces.

use std::fmt;

use super::{Constant, Expr, Function, Node, NodeId};

/// A piece that is still to be written.
enum Piece {
    Text(&'static str),
    /// A node, parenthesised if its precedence is lower than this.
    Node(NodeId, u8),
}

/// The precedence of a node.
fn precedence(node: &Node) -> u8 {
    match node {
        Node::Add(..) => 1,
        Node::Negate(_) => 2,
        Node::Multiply(..) | Node::Divide(..) => 3,
        Node::Power(..) => 4,
        Node::Literal(number) => match number.exact() {
            Some(value) if value.is_int() && value.sign() == dashu_int::Sign::Positive => 5,
            Some(_) => 3,
            None => 5,
        },
        _ => 5,
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pieces = vec![Piece::Node(self.nodes.len().saturating_sub(1) as NodeId, 0)];
        while let Some(piece) = pieces.pop() {
            let (id, least) = match piece {
                Piece::Text(text) => {
                    f.write_str(text)?;
                    continue;
                }
                Piece::Node(id, least) => (id, least),
            };
            let node = self.node(id);
            let in_parentheses = precedence(node) < least;
            if in_parentheses {
                f.write_str("(")?;
                pieces.push(Piece::Text(")"));
            }
            self.write_node(f, id, &mut pieces)?;
        }
        Ok(())
    }
}

impl Expr {
    /// Writes a leaf, or pushes the parts of another node.
    fn write_node(&self, f: &mut fmt::Formatter<'_>, id: NodeId, pieces: &mut Vec<Piece>) -> fmt::Result {
        let mut infix = |a: NodeId, left: u8, sign: &'static str, b: NodeId, right: u8| {
            pieces.extend([Piece::Node(b, right), Piece::Text(sign), Piece::Node(a, left)]);
        };
        match self.node(id) {
            Node::Literal(number) => return fmt::Display::fmt(number, f),
            Node::Constant(Constant::Pi) => return f.write_str("pi"),
            Node::Constant(Constant::E) => return f.write_str("e"),
            Node::Constant(Constant::I) => return f.write_str("i"),
            Node::Symbol(name) => return f.write_str(self.name(*name)),
            Node::Term(_) => {}
            Node::Add(a, b) => match self.node(*b) {
                Node::Negate(inner) => infix(*a, 1, " - ", *inner, 2),
                _ => infix(*a, 1, " + ", *b, 2),
            },
            Node::Multiply(a, b) => infix(*a, 3, "*", *b, 4),
            Node::Divide(a, b) => infix(*a, 3, "/", *b, 4),
            Node::Power(a, b) => infix(*a, 5, "^", *b, 5),
            Node::Negate(a) => {
                f.write_str("-")?;
                pieces.push(Piece::Node(*a, 3));
            }
            Node::Call(Function::Factorial, a) => pieces.extend([Piece::Text("!"), Piece::Node(*a, 5)]),
            Node::Call(function, a) => {
                f.write_str(function.name())?;
                pieces.extend([Piece::Text(")"), Piece::Node(*a, 0), Piece::Text("(")]);
            }
            Node::Call2(function, a, b) => {
                f.write_str(function.name())?;
                pieces.extend([
                    Piece::Text(")"),
                    Piece::Node(*b, 0),
                    Piece::Text(", "),
                    Piece::Node(*a, 0),
                    Piece::Text("("),
                ]);
            }
            Node::Apply(name, a) => {
                f.write_str(self.name(*name))?;
                pieces.extend([Piece::Text(")"), Piece::Node(*a, 0), Piece::Text("(")]);
            }
            Node::Fold { product, variable, from, to, .. } => {
                let name = if *product { "prod" } else { "sum" };
                write!(f, "{name}({}=", self.name(*variable))?;
                // The term is the node before this one.
                pieces.extend([
                    Piece::Text(")"),
                    Piece::Node(id.saturating_sub(1), 0),
                    Piece::Text(", "),
                    Piece::Node(*to, 0),
                    Piece::Text(".."),
                    Piece::Node(*from, 0),
                ]);
            }
        }
        Ok(())
    }
}
