//! The evaluation loop over the nodes of an expression, generic in the domain.

use dashu_ratio::RBig;

use crate::expr::{Constant, Expr, Function, Node};
use crate::{Fuel, Number, OutOfFuel};

/// Why an expression has no value in a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EvalError {
    /// Undefined: a division by zero, a real root of a negative number.
    Undefined,
    /// The domain does not support the function.
    Unsupported,
    /// More precision may help.
    Imprecise,
    /// A number is too large to compute with.
    TooLarge,
    /// The check exceeded its steps.
    OutOfFuel,
}

impl From<OutOfFuel> for EvalError {
    fn from(_: OutOfFuel) -> Self {
        Self::OutOfFuel
    }
}

/// Most terms of a sum or product.
const MAX_TERMS: i64 = 10_000;

/// A domain of evaluation.
pub(crate) trait Algebra {
    /// A value of the domain.
    type Value: Clone;

    /// Steps of fuel per operation.
    fn cost(&self) -> usize;
    /// Additional steps of a division.
    fn division_cost(&self) -> usize {
        0
    }
    /// Additional steps for long operands.
    fn length_cost(&self, _a: &Self::Value, _b: &Self::Value) -> usize {
        0
    }
    fn literal(&mut self, number: &Number) -> Result<Self::Value, EvalError>;
    fn integer(&mut self, integer: i64) -> Result<Self::Value, EvalError>;
    fn constant(&mut self, constant: Constant) -> Result<Self::Value, EvalError>;
    fn symbol(&mut self, name: &str) -> Result<Self::Value, EvalError>;
    fn negate(&mut self, a: &Self::Value) -> Result<Self::Value, EvalError>;
    fn add(&mut self, a: &Self::Value, b: &Self::Value) -> Result<Self::Value, EvalError>;
    fn multiply(&mut self, a: &Self::Value, b: &Self::Value) -> Result<Self::Value, EvalError>;
    fn divide(&mut self, a: &Self::Value, b: &Self::Value) -> Result<Self::Value, EvalError>;
    /// `exact` is the exponent if it is a literal.
    fn power(
        &mut self,
        a: &Self::Value,
        b: &Self::Value,
        exact: Option<&RBig>,
        fuel: &mut Fuel,
    ) -> Result<Self::Value, EvalError>;
    fn call(&mut self, function: Function, a: &Self::Value, fuel: &mut Fuel) -> Result<Self::Value, EvalError>;
    fn call2(
        &mut self,
        function: Function,
        a: &Self::Value,
        b: &Self::Value,
        fuel: &mut Fuel,
    ) -> Result<Self::Value, EvalError>;
    fn apply(&mut self, name: &str, a: &Self::Value) -> Result<Self::Value, EvalError>;
    /// The value as a small integer, if it is exactly one.
    fn as_integer(&self, a: &Self::Value) -> Option<i64>;
}

/// Evaluates an expression in an algebra.
pub(crate) fn evaluate<A: Algebra>(expr: &Expr, algebra: &mut A, fuel: &mut Fuel) -> Result<A::Value, EvalError> {
    let mut run = Evaluator { expr, algebra, values: Vec::with_capacity(expr.len()), bound: Vec::new() };
    run.range(0, expr.len(), fuel)?;
    run.values.pop().flatten().ok_or(EvalError::Unsupported)
}

struct Evaluator<'e, 'a, A: Algebra> {
    expr: &'e Expr,
    algebra: &'a mut A,
    /// Values of the nodes so far.
    values: Vec<Option<A::Value>>,
    /// Bound variables of the enclosing sums, with their values.
    bound: Vec<(u32, A::Value)>,
}

impl<A: Algebra> Evaluator<'_, '_, A> {
    /// Evaluates the nodes from `begin` to `end`. Recurses once per nested sum, which the parser bounds.
    fn range(&mut self, begin: usize, end: usize, fuel: &mut Fuel) -> Result<(), EvalError> {
        let mut at = begin;
        while at < end {
            if let Some(Node::Term(fold)) = self.expr.nodes().get(at) {
                // Terms are evaluated by their sum only, and always end after they begin.
                if *fold as usize <= at {
                    return Err(EvalError::Unsupported);
                }
                self.values.resize_with(*fold as usize, || None);
                at = *fold as usize;
            }
            let value = self.node(at, fuel)?;
            self.values.push(Some(value));
            at += 1;
        }
        Ok(())
    }

    fn value(&self, id: u32) -> Result<&A::Value, EvalError> {
        self.values.get(id as usize).and_then(Option::as_ref).ok_or(EvalError::Unsupported)
    }

    fn node(&mut self, at: usize, fuel: &mut Fuel) -> Result<A::Value, EvalError> {
        fuel.spend(self.algebra.cost())?;
        let expr = self.expr;
        let value = |id: &u32| self.values.get(*id as usize).and_then(Option::as_ref).ok_or(EvalError::Unsupported);
        let name = |index: &u32| expr.name(*index);
        let node = expr.nodes().get(at).ok_or(EvalError::Unsupported)?;
        if let Node::Add(a, b) | Node::Multiply(a, b) | Node::Divide(a, b) = node {
            fuel.spend(self.algebra.length_cost(value(a)?, value(b)?))?;
        }
        match node {
            Node::Literal(number) => {
                let division = if number.exact().is_some_and(RBig::is_int) { 0 } else { self.algebra.division_cost() };
                fuel.spend(number.cost(number) + division)?;
                self.algebra.literal(number)
            }
            Node::Constant(constant) => self.algebra.constant(*constant),
            Node::Symbol(symbol) => match self.bound.iter().rev().find(|(bound, _)| bound == symbol) {
                Some((_, value)) => Ok(value.clone()),
                None => self.algebra.symbol(name(symbol)),
            },
            Node::Negate(a) => self.algebra.negate(value(a)?),
            Node::Add(a, b) => self.algebra.add(value(a)?, value(b)?),
            Node::Multiply(a, b) => self.algebra.multiply(value(a)?, value(b)?),
            Node::Divide(a, b) => {
                fuel.spend(self.algebra.division_cost())?;
                self.algebra.divide(value(a)?, value(b)?)
            }
            Node::Power(a, b) => {
                let exact = match expr.node(*b) {
                    Node::Literal(number) => number.exact(),
                    _ => None,
                };
                self.algebra.power(value(a)?, value(b)?, exact, fuel)
            }
            Node::Call(function, a) => self.algebra.call(*function, value(a)?, fuel),
            Node::Call2(function, a, b) => self.algebra.call2(*function, value(a)?, value(b)?, fuel),
            Node::Apply(function, a) => self.algebra.apply(name(function), value(a)?),
            Node::Term(_) => Err(EvalError::Unsupported),
            Node::Fold { product, variable, from, to, begin } => {
                self.fold(*product, *variable, (*from, *to), *begin as usize + 1..at, fuel)
            }
        }
    }

    fn fold(
        &mut self,
        product: bool,
        variable: u32,
        (from, to): (u32, u32),
        term: std::ops::Range<usize>,
        fuel: &mut Fuel,
    ) -> Result<A::Value, EvalError> {
        let bound = |run: &Self, id| run.algebra.as_integer(run.value(id)?).ok_or(EvalError::Unsupported);
        let from = bound(self, from)?;
        let to = bound(self, to)?;
        if to.saturating_sub(from) > MAX_TERMS {
            return Err(EvalError::TooLarge);
        }
        let mut total = self.algebra.integer(i64::from(product))?;
        let kept = self.values.len();
        for index in from..=to {
            fuel.spend(4)?;
            let index = self.algebra.integer(index)?;
            self.bound.push((variable, index));
            self.values.truncate(term.start);
            let done = self.range(term.start, term.end, fuel);
            self.bound.pop();
            done?;
            let value = self.value(term.end as u32 - 1)?.clone();
            total = if product { self.algebra.multiply(&total, &value)? } else { self.algebra.add(&total, &value)? };
        }
        self.values.truncate(kept.min(term.start));
        self.values.resize_with(term.end, || None);
        Ok(total)
    }
}
