//! The points at which expressions are compared, derived from the names of variables: the same on every machine.

mod threshold;

use super::prime::{hash, mix};
use super::real::Real;
use crate::expr::{Expr, Function, Node, NodeId};

/// Names that usually denote integers.
const INTEGERS: [&str; 8] = ["n", "m", "k", "j", "N", "M", "K", "l"];

/// The variables of a comparison and how they may be chosen.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    /// Variables that bound sums or occur in factorials: small integers.
    integer_valued: Vec<String>,
    /// Whether names that usually denote integers do: where one stands in an exponent, a floor or a remainder.
    /// Elsewhere `\\sin(m\\pi)` is not 0.
    has_integers: bool,
    /// Whether integers behave specially: floors, remainders, powers of negative numbers.
    pub(crate) discrete: bool,
    /// Whether expressions may agree in one region only: absolute values, maxima, roots of squares.
    pub(crate) piecewise: bool,
    /// Whether a variable occurs in an exponent, where its parity may be all that matters.
    pub(crate) in_exponent: bool,
    /// Up to where the pieces of a piecewise expression may meet: beyond its largest constant. Otherwise 1.
    reach: i64,
    /// Whether pieces may meet beyond every point that is tried, so that agreement proves nothing.
    pub(crate) beyond_reach: bool,
}

/// A set of nodes of an expression.
struct NodeSet(Vec<bool>);

impl NodeSet {
    fn new(nodes: usize) -> Self {
        Self(vec![false; nodes])
    }

    fn set(&mut self, id: NodeId) {
        if let Some(member) = self.0.get_mut(id as usize) {
            *member = true;
        }
    }

    fn contains(&self, at: usize) -> bool {
        self.0.get(at).copied().unwrap_or(false)
    }
}

/// Range of the magnitude by which points of piecewise expressions are spread.
const MIN_REACH: i64 = 16;
const MAX_REACH: i64 = 1 << 40;

impl Variables {
    /// Whether a variable is restricted to small integers.
    pub(super) fn is_integer_valued(&self, name: &str) -> bool {
        self.integer_valued.iter().any(|integer_valued| integer_valued == name)
    }

    /// Whether any variable is.
    pub(crate) fn any_integer_valued(&self) -> bool {
        !self.integer_valued.is_empty()
    }

    /// Collects the variables of all expressions of a comparison.
    pub(crate) fn of(exprs: &[&Expr]) -> Self {
        let mut variables = Self::default();
        for expr in exprs {
            let nodes = expr.nodes();
            let mut counts = NodeSet::new(nodes.len());
            let mut in_exponent = NodeSet::new(nodes.len());
            // Children come first, so that requirements are passed down by iterating from the end.
            for (at, node) in nodes.iter().enumerate().rev() {
                match node {
                    Node::Power(_, exponent) => in_exponent.set(*exponent),
                    Node::Symbol(_) => variables.in_exponent |= in_exponent.contains(at),
                    _ => {}
                }
                if in_exponent.contains(at) {
                    node.each_operand(|operand| in_exponent.set(operand));
                }
                match node {
                    Node::Fold { from, to, .. } => {
                        counts.set(*from);
                        counts.set(*to);
                    }
                    Node::Call(Function::Factorial | Function::DoubleFactorial, a) => counts.set(*a),
                    Node::Call2(Function::Binomial | Function::Gcd | Function::Lcm, a, b) => {
                        counts.set(*a);
                        counts.set(*b);
                    }
                    Node::Negate(a) if counts.contains(at) => counts.set(*a),
                    Node::Add(a, b) | Node::Multiply(a, b) | Node::Divide(a, b) | Node::Power(a, b)
                        if counts.contains(at) =>
                    {
                        counts.set(*a);
                        counts.set(*b);
                    }
                    Node::Symbol(name) if counts.contains(at) => {
                        variables.integer_valued.push(expr.name(*name).to_owned())
                    }
                    _ => {}
                }
            }
            variables.has_integers |= variables.in_exponent
                || expr.any(|node| {
                    matches!(
                        node,
                        Node::Call(
                            Function::Floor | Function::Ceiling | Function::Factorial | Function::DoubleFactorial,
                            _
                        ) | Node::Call2(Function::Modulo | Function::Gcd | Function::Lcm | Function::Binomial, ..)
                            | Node::Fold { .. }
                    )
                });
            variables.discrete |= expr.any(|node| {
                matches!(
                    node,
                    Node::Call(Function::Floor | Function::Ceiling | Function::Sin | Function::Cos, _)
                        | Node::Call2(Function::Modulo | Function::Gcd | Function::Lcm, ..)
                        | Node::Power(..)
                )
            });
        }
        variables.piecewise = exprs.iter().any(|expr| {
            expr.any(|node| match node {
                Node::Call(Function::Abs | Function::Floor | Function::Ceiling, _)
                | Node::Call2(Function::Modulo | Function::Min | Function::Max, ..) => true,
                // The root of a square is an absolute value.
                Node::Call(Function::Sqrt, _) => {
                    expr.names().len() > 1 || expr.any(|node| matches!(node, Node::Power(..)))
                }
                Node::Call2(Function::Root, ..) => expr.names().len() > 1,
                _ => false,
            })
        });
        variables.reach = 1;
        if variables.piecewise {
            let reach = exprs.iter().map(|expr| threshold::of(expr)).fold(MIN_REACH, i64::max);
            variables.reach = reach.min(MAX_REACH);
            variables.beyond_reach = reach > MAX_REACH;
        }
        variables.discrete &=
            exprs.iter().any(|expr| expr.names().iter().any(|name| INTEGERS.contains(&name.as_str())));
        variables
    }
}

/// A point at which expressions are evaluated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point<'n> {
    pub(crate) variables: &'n Variables,
    /// The number of the point.
    pub(crate) attempt: u64,
}

impl Point<'_> {
    /// The exact value of a variable.
    pub(super) fn value(&self, name: &str) -> Real {
        let (value, exponent) = self.coordinates(name);
        Real::binary(value, exponent)
    }

    /// The value of an undefined function, of either sign.
    pub(super) fn function_value(&self, name: &str, (odd, exponent): (i64, i64)) -> Real {
        let random = mix(mix(mix(hash(name) ^ mix(self.attempt)) ^ odd.cast_unsigned()) ^ exponent.cast_unsigned());
        let size = (random >> 24) as i64 + 1;
        let negative = self.attempt == 3 || (self.attempt > 3 && random % 2 == 1);
        Real::binary(if negative { -size } else { size }, -36)
    }

    /// `value · 2^exponent` of a variable. Points with equal coordinates are the same.
    pub(crate) fn coordinates(&self, name: &str) -> (i64, i64) {
        let random = mix(hash(name) ^ mix(self.attempt));
        let within = |count: u64| (random >> 8) as i64 % count as i64;
        if self.variables.is_integer_valued(name) {
            return (within(7) + 2, 0);
        }
        // Half of the points lie on both sides of where an absolute value, a floor or a maximum may switch.
        let reach = if self.attempt % 4 >= 2 { self.variables.reach } else { 1 };
        if self.variables.has_integers && INTEGERS.contains(&name) {
            // Odd and small when other variables are very negative, so that sums and powers of both are negative too.
            if self.attempt == 3 {
                return (2 * within(6) + 1, 0);
            }
            let scale = if self.attempt % 4 == 2 { (reach + 2) / 3 } else { 1 };
            return (within(12 * scale.cast_unsigned()) + 1, 0);
        }
        // In units of 1/128: between 1 and 4, in the unit interval, large, negative; then each variable for itself.
        let kind = match self.attempt {
            first @ 0..4 => first,
            _ if reach > 1 => 2 + random % 2,
            _ => random % 4,
        };
        let parts = match kind {
            0 => within(383) + 129,
            1 => within(127) + 1,
            // The first of each sign is certainly beyond.
            2 if reach > 1 && self.attempt < 4 => (within(1023) + 1025) * reach,
            3 if reach > 1 && self.attempt < 4 => (-within(255) - 257) * reach,
            2 => (within(2047) + 1) * reach,
            _ => (-within(511) - 1) * reach,
        };
        (parts, -7)
    }
}
