//! Marks on a name: orders of derivatives, indices, accents, numbers of combinations.

use std::ops::Range;

use super::{LastOperand, Parser, ScalarError, ScalarResult};
use crate::expr::{Function, Node};
use crate::parse::text;
use crate::parse::token::TokenKind;

/// Letters that are indices in a subscript.
const INDICES: &str = "ijkmn";

impl Parser<'_, '_, '_> {
    /// The mark of `f^{(4)}`, a derivative and no power, and its end.
    pub(super) fn order(&self) -> Option<(String, usize)> {
        let at = self.cursor.at();
        if self.cursor.peek() != Some(&TokenKind::Symbol('^'))
            || self.cursor.kind(at + 1) != Some(&TokenKind::GroupOpen)
            || self.cursor.kind(at + 2) != Some(&TokenKind::Open('('))
        {
            return None;
        }
        let close = self.cursor.partner(at + 1)?;
        let inner = self.cursor.tokens().trimmed(at + 3..close.checked_sub(1)?);
        let order = match self.cursor.kind(inner.start)? {
            TokenKind::Numeral(numeral) if numeral.is_digits() => numeral.integer.to_string(),
            TokenKind::Word(word) if word.len() == 1 => (*word).to_owned(),
            _ => return None,
        };
        let is_all = inner.len() == 1 && self.cursor.kind(close - 1) == Some(&TokenKind::Close(')'));
        is_all.then(|| (format!("^({order})"), close + 1))
    }

    /// `C_{10}^3` and `C^3_{10}`: the number of combinations. Nothing where the marks are no such numbers.
    pub(super) fn combinations(&mut self) -> bool {
        let at = self.cursor.at();
        let number = |at: usize| {
            let inner = self.cursor.tokens().trimmed(at..self.argument_end(at)?);
            match self.cursor.kind(inner.start)? {
                TokenKind::Numeral(n) if inner.len() == 1 && n.is_digits() && n.integer.len() < 5 => {
                    n.integer.parse().ok()
                }
                _ => None,
            }
        };
        let Some(middle) = self.argument_end(at + 1) else { return false };
        let Some(end) = self.argument_end(middle + 1) else { return false };
        let (above, below): (Option<i64>, Option<i64>) = match (self.cursor.kind(at), self.cursor.kind(middle)) {
            (Some(TokenKind::Symbol('_')), Some(TokenKind::Symbol('^'))) => (number(at + 1), number(middle + 1)),
            (Some(TokenKind::Symbol('^')), Some(TokenKind::Symbol('_'))) => (number(middle + 1), number(at + 1)),
            _ => return false,
        };
        let (Some(above), Some(below)) = (above, below) else { return false };
        // `C_1^2` is the square of a constant.
        if below >= above {
            return false;
        }
        let above = self.builder.integer(above);
        let below = self.builder.integer(below);
        let node = self.builder.push(Node::Call2(Function::Binomial, above, below));
        self.stack.push_operand(node, LastOperand::Other);
        self.cursor.jump(end);
        true
    }

    /// Whether a subscript is computed: an index letter, or a sum with one.
    pub(super) fn is_index(&self, range: Range<usize>) -> bool {
        let mut letters = range.clone().map(|at| self.cursor.tokens().kind(at));
        let is_letter =
            |kind: &TokenKind<'_>| matches!(kind, TokenKind::Word(word) if word.len() == 1 && INDICES.contains(word));
        range.len() == 1 && letters.clone().any(is_letter)
            || range.len() > 1
                && letters.clone().any(is_letter)
                && letters.any(|kind| matches!(kind, TokenKind::Symbol('+' | '-')))
    }

    /// `\hat{x}` is a name of its own.
    pub(super) fn accent(&mut self, accent: &str) -> ScalarResult {
        let at = self.cursor.after_spaces(self.cursor.at() + 1);
        let end = self.argument_end(at).ok_or(ScalarError::NotScalar)?;
        let inner = text::canonical(self.cursor.tokens(), at..end);
        self.cursor.jump(end);
        self.named(&format!("{accent}({inner})"))
    }

    /// `\frac{dy}{dx}` is a name of its own as well, and not a fraction from which d cancels. `false` if it is not a
    /// derivative.
    pub(super) fn derivative(&mut self) -> ScalarResult<bool> {
        let Some(above) = self.argument_end(self.cursor.at() + 1) else { return Ok(false) };
        let Some(below) = self.argument_end(above) else { return Ok(false) };
        let begins = |at: usize| {
            let mut at = at;
            while matches!(self.cursor.kind(at), Some(TokenKind::GroupOpen | TokenKind::Space)) {
                at += 1;
            }
            match self.cursor.kind(at) {
                Some(TokenKind::Word(word) | TokenKind::Label(word)) => word.starts_with('d'),
                Some(TokenKind::Command("partial")) => true,
                _ => false,
            }
        };
        let differential = |range: Range<usize>| self.cursor.tokens().stripped(range).len() > 3;
        let is_long = |at: usize, end: usize| {
            differential(at..end) || matches!(self.cursor.kind(at + 1), Some(TokenKind::Word(word)) if word.len() > 1)
        };
        if !begins(self.cursor.at() + 1) || !begins(above) || !is_long(above, below) {
            return Ok(false);
        }
        let name = text::canonical(self.cursor.tokens(), self.cursor.at()..below);
        self.cursor.jump(below);
        self.symbol(&name)?;
        Ok(true)
    }
}
