//! Scalar expressions: an operator-precedence parser without recursion. Open brackets and arguments are on a stack of frames, operators
//! that wait for an operand on a stack of operators.

mod frame;
mod name;
mod operator;
mod primary;

use std::ops::Range;

use super::structure::Tokens;
use super::token::Kind;
use crate::expr::{Builder, Expr, NodeId};
use crate::{Fuel, OutOfFuel};
use frame::{Frame, OnClose};
use operator::Operator;

/// Most frames open at once.
const MAX_DEPTH: usize = 256;

/// How `\pm` is read; `\mp` is read as the opposite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlusMinus {
    Plus,
    Minus,
}

/// Why the tokens are not a scalar expression.
#[derive(Debug)]
pub(super) enum ScalarError {
    NotScalar,
    OutOfFuel,
}

impl From<OutOfFuel> for ScalarError {
    fn from(_: OutOfFuel) -> Self {
        Self::OutOfFuel
    }
}

/// Parses the tokens as an expression. `None` if they are something else.
pub(super) fn read(
    tokens: &Tokens<'_>,
    range: Range<usize>,
    sign: PlusMinus,
    fuel: &mut Fuel,
) -> Result<Option<Expr>, OutOfFuel> {
    let parser = Parser {
        tokens,
        fuel,
        sign,
        builder: Builder::default(),
        at: range.start,
        offset: 0,
        operands: Vec::new(),
        operators: Vec::new(),
        frames: vec![Frame::new(range.end, OnClose::Finish, 0, 0)],
        has_operand: false,
        last: LastOperand::Other,
        skipped: None,
        bound: Vec::new(),
    };
    match parser.run() {
        Ok(expr) => Ok(expr),
        Err(ScalarError::NotScalar) => Ok(None),
        Err(ScalarError::OutOfFuel) => Err(OutOfFuel),
    }
}

/// How the last operand was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastOperand {
    /// A numeral; another one must not follow.
    Integer,
    Decimal,
    Other,
}

struct Parser<'t, 'a, 'f> {
    tokens: &'t Tokens<'a>,
    fuel: &'f mut Fuel,
    sign: PlusMinus,
    builder: Builder,
    at: usize,
    /// Bytes of the token at `at` that are consumed already: `\frac12` takes two digits of one numeral.
    offset: usize,
    operands: Vec<NodeId>,
    operators: Vec<Operator>,
    frames: Vec<Frame>,
    has_operand: bool,
    last: LastOperand,
    /// A subscript after a superscript, which was consumed before it.
    skipped: Option<Range<usize>>,
    /// Bound variables of the enclosing sums.
    bound: Vec<String>,
}

type ScalarResult<T = ()> = Result<T, ScalarError>;

impl<'t, 'a> Parser<'t, 'a, '_> {
    fn run(mut self) -> ScalarResult<Option<Expr>> {
        loop {
            self.fuel.spend(2)?;
            if self.builder.is_full() || self.frames.len() > MAX_DEPTH {
                return Err(ScalarError::NotScalar);
            }
            if let Some(skipped) = self.skipped.clone()
                && self.at == skipped.start
            {
                self.at = skipped.end;
            }
            let (end, single) = match self.frames.last() {
                Some(frame) => (frame.end, frame.single),
                None => return Err(ScalarError::NotScalar),
            };
            if self.at >= end || (single && self.has_operand) {
                if let Some(root) = self.close()? {
                    return Ok(self.builder.finish(root));
                }
            } else if self.has_operand {
                self.operator()?;
            } else {
                self.primary()?;
            }
        }
    }

    fn kind(&self, at: usize) -> Option<&'t Kind<'a>> {
        let end = self.frames.last()?.end;
        (at < end).then(|| self.tokens.kind(at))
    }

    fn peek(&self) -> Option<&'t Kind<'a>> {
        self.kind(self.at)
    }

    fn spaces(&mut self) {
        while self.peek() == Some(&Kind::Space) {
            self.at += 1;
        }
    }

    fn advance(&mut self) {
        self.at += 1;
        self.offset = 0;
    }

    /// Pushes a complete operand.
    fn operand(&mut self, node: NodeId, last: LastOperand) {
        self.operands.push(node);
        self.has_operand = true;
        self.last = last;
    }

    fn pop_operand(&mut self) -> ScalarResult<NodeId> {
        let floor = self.frames.last().map_or(0, |frame| frame.operands);
        if self.operands.len() <= floor {
            return Err(ScalarError::NotScalar);
        }
        self.operands.pop().ok_or(ScalarError::NotScalar)
    }
}

#[cfg(test)]
mod tests;
