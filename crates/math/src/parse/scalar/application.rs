//! Whether a name before brackets is a function: `f(2)`, and not `k(x + 1)`.

use std::ops::Range;

use super::Parser;
use crate::parse::token::TokenKind;

/// Letters that denote functions before a parenthesis.
const FUNCTIONS: &str = "fghFGHPW";

impl Parser<'_, '_, '_> {
    /// Whether the following parenthesis holds an argument and not a factor.
    pub(super) fn is_application(&self, name: &str) -> bool {
        // `f\left(2\right)` has white space before its bracket.
        let open = self.cursor.after_spaces(self.cursor.at());
        let is_open = match self.cursor.kind(open) {
            Some(TokenKind::Open('(')) => true,
            // `E[X^2]`
            Some(TokenKind::Open('[')) => name == "E",
            _ => false,
        };
        if !self.cursor.is_at_token_start() || !is_open {
            return false;
        }
        let Some(close) = self.cursor.partner(open) else { return false };
        let inner = self.cursor.tokens().stripped(open + 1..close);
        let base = name.trim_end_matches('\'');
        let base = base.trim_end_matches("^-1");
        let is_function = base.split(['_', '^']).next().is_some_and(|base| base.len() == 1 && FUNCTIONS.contains(base));
        let is_zero = inner.len() == 1
            && matches!(self.cursor.kind(inner.start), Some(TokenKind::Numeral(n)) if n.integer == "0" && !n.point);
        is_function
            || is_zero
            || self.cursor.tokens().is_function(name)
            || self.is_known_function(name, inner.clone())
            || self.is_whole_application(inner, close)
    }

    /// Whether a name before such an argument denotes a function by convention: the expectation of capitals, the time
    /// that a task of size n takes, functions of integers and of analysis.
    fn is_known_function(&self, name: &str, mut inner: Range<usize>) -> bool {
        let words: Vec<&str> = inner
            .clone()
            .filter_map(|at| match self.cursor.kind(at) {
                Some(TokenKind::Word(word)) => Some(*word),
                _ => None,
            })
            .collect();
        let has_only = |letters: &str| words.iter().all(|word| word.chars().all(|letter| letters.contains(letter)));
        match name {
            "E" => !words.is_empty() && words.iter().all(|word| word.bytes().all(|c| c.is_ascii_uppercase())),
            "T" => !words.is_empty() && has_only("nmkN"),
            "phi" | "sigma" | "tau" => {
                let is_other = |at: usize| match self.cursor.kind(at) {
                    Some(TokenKind::Command(name)) => !matches!(*name, "cdot" | "times" | "frac"),
                    _ => false,
                };
                has_only("nmkpqabdN") && !inner.any(is_other)
            }
            "Gamma" | "zeta" | "psi" => true,
            _ => false,
        }
    }

    /// Whether the inverse of a function is applied: `f^{-1}(2)`. Consumes its power.
    pub(super) fn is_inverse(&mut self, name: &str) -> bool {
        if name.len() != 1 || !FUNCTIONS.contains(name) || self.cursor.peek() != Some(&TokenKind::Symbol('^')) {
            return false;
        }
        let Some(end) = self.argument_end(self.cursor.at() + 1) else { return false };
        let inner = self.cursor.tokens().trimmed(self.cursor.at() + 1..end);
        let is_minus_one = inner.len() == 2
            && self.cursor.kind(inner.start) == Some(&TokenKind::Symbol('-'))
            && matches!(self.cursor.kind(inner.start + 1), Some(TokenKind::Numeral(n)) if n.integer == "1" && !n.point);
        let is_applied = self.cursor.kind(self.cursor.after_spaces(end)) == Some(&TokenKind::Open('('));
        if is_minus_one && is_applied {
            self.cursor.jump(end);
        }
        is_minus_one && is_applied
    }

    /// Whether a name and a bracket with a number are all there is: `V(2)` is a value at 2, and no product.
    fn is_whole_application(&self, inner: Range<usize>, close: usize) -> bool {
        let is_alone = self.stack.is_at_start() && self.cursor.after_spaces(close + 1) >= self.cursor.end();
        let sign = usize::from(self.cursor.kind(inner.start) == Some(&TokenKind::Symbol('-')));
        is_alone
            && inner.len() == 1 + sign
            && matches!(self.cursor.kind(inner.start + sign), Some(TokenKind::Numeral(_)))
    }
}
