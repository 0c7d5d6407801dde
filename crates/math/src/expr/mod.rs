//! Scalar expressions, stored as trees in an arena.
//!
//! The nodes of a tree are in one vector, children before parents. Evaluation is a loop without recursion, equality
//! compares two vectors, and dropping a deep tree drops a vector.

mod builder;
mod display;
mod function;

pub(crate) use builder::Builder;
pub(crate) use function::Function;

use crate::Number;

/// A node by its index in the arena.
pub(crate) type NodeId = u32;

/// One operation or leaf of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// A rational number, as it was written.
    Literal(Number),
    Constant(Constant),
    /// A variable, by its index among the expression's names.
    Symbol(u32),
    Negate(NodeId),
    Add(NodeId, NodeId),
    Multiply(NodeId, NodeId),
    Divide(NodeId, NodeId),
    Power(NodeId, NodeId),
    /// A function of one argument.
    Call(Function, NodeId),
    /// A function of two arguments.
    Call2(Function, NodeId, NodeId),
    /// An undefined function of one argument: `f(x)`, `a_{n+1}`.
    Apply(u32, NodeId),
    /// The start of the term of a [`Node::Fold`] at this index; the nodes between are evaluated by it alone.
    Term(NodeId),
    /// A sum or product over a range of integers; the term is between `begin`, a [`Node::Term`], and this node.
    Fold {
        product: bool,
        variable: u32,
        from: NodeId,
        to: NodeId,
        begin: NodeId,
    },
}

impl Node {
    /// Returned for a missing node. No domain has a value for it.
    const NONE: Self = Self::Term(0);

    /// Calls `f` with each operand.
    pub(crate) fn each_operand(&self, mut f: impl FnMut(NodeId)) {
        match self {
            Self::Literal(_) | Self::Constant(_) | Self::Symbol(_) | Self::Term(_) => {}
            Self::Negate(a) | Self::Call(_, a) | Self::Apply(_, a) => f(*a),
            Self::Add(a, b)
            | Self::Multiply(a, b)
            | Self::Divide(a, b)
            | Self::Power(a, b)
            | Self::Call2(_, a, b)
            | Self::Fold { from: a, to: b, .. } => {
                f(*a);
                f(*b);
            }
        }
    }

    /// The node with its operands at other places, and its names under other indices.
    pub(crate) fn moved(&self, place: impl Fn(NodeId) -> NodeId, name: impl Fn(u32) -> u32) -> Self {
        match self {
            Self::Literal(_) | Self::Constant(_) => self.clone(),
            Self::Symbol(index) => Self::Symbol(name(*index)),
            Self::Negate(a) => Self::Negate(place(*a)),
            Self::Add(a, b) => Self::Add(place(*a), place(*b)),
            Self::Multiply(a, b) => Self::Multiply(place(*a), place(*b)),
            Self::Divide(a, b) => Self::Divide(place(*a), place(*b)),
            Self::Power(a, b) => Self::Power(place(*a), place(*b)),
            Self::Call(function, a) => Self::Call(*function, place(*a)),
            Self::Call2(function, a, b) => Self::Call2(*function, place(*a), place(*b)),
            Self::Apply(index, a) => Self::Apply(name(*index), place(*a)),
            Self::Term(end) => Self::Term(place(*end)),
            Self::Fold { product, variable, from, to, begin } => Self::Fold {
                product: *product,
                variable: name(*variable),
                from: place(*from),
                to: place(*to),
                begin: place(*begin),
            },
        }
    }

    /// The larger of numerator and denominator of a literal. `None` for anything else, and beyond 63 bits.
    pub(crate) fn magnitude(&self) -> Option<i64> {
        let Self::Literal(number) = self else { return None };
        let value = number.exact()?;
        let above = i64::try_from(value.numerator()).ok()?.checked_abs()?;
        Some(above.max(i64::try_from(value.denominator()).ok()?))
    }
}

/// Constants that have a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constant {
    Pi,
    E,
    I,
}

/// A scalar expression: numbers, constants, variables and operations on them.
#[derive(Debug, Clone)]
pub struct Expr {
    nodes: Vec<Node>,
    names: Vec<String>,
    /// Names that were written as matrices or vectors, whose products have an order.
    matrices: Vec<String>,
}

/// As the operations are in the same order, it makes no difference which of the names are matrices.
impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.nodes == other.nodes && self.names == other.names
    }
}

impl Expr {
    /// Nodes, children before parents; the last one is the root.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Names of variables and of undefined functions.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Names whose products have an order: those written in bold, operators with a hat, and where one is transposed, all
    /// capitals.
    pub(crate) fn matrices(&self) -> Vec<&str> {
        let is_capital = |name: &str| matches!(name.as_bytes(), [letter] if letter.is_ascii_uppercase());
        let has_transpose = self.has_transpose();
        let is_matrix = |name: &&str| {
            self.matrices.iter().any(|matrix| matrix == name)
                || name.starts_with("hat(")
                || has_transpose && *name != "T" && is_capital(name)
        };
        self.names.iter().map(String::as_str).filter(is_matrix).collect()
    }

    /// A node; a missing one is a term without a value.
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id as usize).unwrap_or(&Node::NONE)
    }

    /// Node that the whole expression evaluates to.
    pub(crate) fn root(&self) -> &Node {
        // A builder never returns an empty expression.
        self.nodes.last().unwrap_or(&Node::NONE)
    }

    /// A name by its index.
    pub(crate) fn name(&self, index: u32) -> &str {
        self.names.get(index as usize).map_or("", String::as_str)
    }

    /// Renames a variable; the new name must not occur yet.
    pub(crate) fn renamed(&self, from: &str, to: &str) -> Self {
        let renamed = |names: &[String]| {
            names.iter().map(|name| if name == from { to.to_owned() } else { name.clone() }).collect::<Vec<_>>()
        };
        Self { nodes: self.nodes.clone(), names: renamed(&self.names), matrices: renamed(&self.matrices) }
    }

    /// Whether a capital has the exponent T.
    pub(crate) fn has_transpose(&self) -> bool {
        let is_letter = |id: &NodeId, is: fn(&u8) -> bool| match self.node(*id) {
            Node::Symbol(name) => matches!(self.name(*name).as_bytes(), [letter] if is(letter)),
            _ => false,
        };
        self.any(|node| match node {
            Node::Power(a, b) => is_letter(a, u8::is_ascii_uppercase) && is_letter(b, |letter| *letter == b'T'),
            _ => false,
        })
    }

    /// The names without any node.
    fn names_alone(&self) -> Self {
        Self { nodes: Vec::new(), names: self.names.clone(), matrices: self.matrices.clone() }
    }

    /// Whether any node satisfies the predicate.
    pub(crate) fn any(&self, is: impl Fn(&Node) -> bool) -> bool {
        self.nodes.iter().any(is)
    }

    /// Whether it has neither variables nor undefined functions, and so denotes a number.
    pub(crate) fn is_closed(&self) -> bool {
        self.names.is_empty() || !self.any(|node| matches!(node, Node::Symbol(_) | Node::Apply(..)))
    }

    /// The name, if it is a single variable.
    pub(crate) fn as_symbol(&self) -> Option<&str> {
        match self.root() {
            Node::Symbol(name) => Some(self.name(*name)),
            _ => None,
        }
    }

    /// The function's name, if it is an undefined function of an argument.
    pub(crate) fn as_application(&self) -> Option<&str> {
        match self.root() {
            Node::Apply(name, _) => Some(self.name(*name)),
            _ => None,
        }
    }

    /// Whether it only names a quantity: variables and undefined functions, their products, ratios and absolute values,
    /// as in `x`, `f(2)`, `|AB|`, `\frac{NO}{BO}`. A sum, a power, or a number next to a variable is an expression and
    /// not a name.
    pub(crate) fn is_name(&self) -> bool {
        if let Node::Apply(..) = self.root() {
            return true;
        }
        self.any(|node| matches!(node, Node::Symbol(_) | Node::Apply(..)))
            && self.nodes.iter().all(|node| {
                matches!(node, Node::Symbol(_) | Node::Multiply(..) | Node::Divide(..) | Node::Call(Function::Abs, _))
            })
    }

    /// Whether it is capitals in a row, which may be a word and no product: `HHT`, `IV`.
    pub(crate) fn is_capitals(&self) -> bool {
        let is_capital = |name: u32| matches!(self.name(name).as_bytes(), [letter] if letter.is_ascii_uppercase());
        matches!(self.root(), Node::Multiply(..))
            && self.nodes.iter().all(|node| match node {
                Node::Multiply(..) => true,
                Node::Symbol(name) => is_capital(*name),
                _ => false,
            })
    }

    /// Number of nodes, a measure of work.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}

impl From<Number> for Expr {
    fn from(number: Number) -> Self {
        Self { nodes: vec![Node::Literal(number)], names: Vec::new(), matrices: Vec::new() }
    }
}
