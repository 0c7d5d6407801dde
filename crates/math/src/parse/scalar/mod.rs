//! Scalar expressions: an operator-precedence parser without recursion. Open brackets and arguments are on a stack of
//! frames, operators that wait for an operand on a stack of operators.

mod application;
mod cursor;
mod frame;
mod letters;
mod marks;
mod name;
mod operator;
mod postfix;
mod primary;
mod stack;

use std::ops::Range;

use super::structure::Tokens;
use crate::expr::{Builder, Expr};
use crate::{Fuel, OutOfFuel};
use cursor::Cursor;
pub(super) use letters::{has_no_vowel, is_letter, is_script_of_words};
use stack::{LastOperand, Stack};

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
        cursor: Cursor::new(tokens, range.clone()),
        stack: Stack::new(range.end),
        builder: Builder::default(),
        bound: Vec::new(),
        sign,
        fuel,
    };
    match parser.run() {
        Ok(expr) => Ok(expr),
        Err(ScalarError::NotScalar) => Ok(None),
        Err(ScalarError::OutOfFuel) => Err(OutOfFuel),
    }
}

/// An expression under construction. The parts keep their own invariants; the files of this module are the grammar.
struct Parser<'t, 'a, 'f> {
    cursor: Cursor<'t, 'a>,
    stack: Stack,
    builder: Builder,
    /// Bound variables of the enclosing sums.
    bound: Vec<String>,
    sign: PlusMinus,
    fuel: &'f mut Fuel,
}

type ScalarResult<T = ()> = Result<T, ScalarError>;

impl Parser<'_, '_, '_> {
    fn run(mut self) -> ScalarResult<Option<Expr>> {
        loop {
            self.fuel.spend(2)?;
            if self.builder.is_full() || self.stack.depth() > MAX_DEPTH {
                return Err(ScalarError::NotScalar);
            }
            self.cursor.pass_skipped();
            let Some(frame) = self.stack.frame() else { return Err(ScalarError::NotScalar) };
            if self.cursor.is_at_end() || (frame.single && self.stack.has_operand()) {
                if let Some(root) = self.close()? {
                    return Ok(self.builder.finish(root));
                }
            } else if self.stack.has_operand() {
                self.operator()?;
            } else {
                self.primary()?;
            }
        }
    }
}

#[cfg(test)]
mod tests;
