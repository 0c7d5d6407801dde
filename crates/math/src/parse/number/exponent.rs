//! Powers of ten after a numeral: `\times 10^{-3}`, `e-3`.

use super::NumberReader;
use crate::parse::token::TokenKind;

impl NumberReader<'_, '_, '_> {
    /// The power of ten after a numeral: `\\times 10^{-3}`, `* 10^3`, `e-3`. `None`, consuming nothing, if there is
    /// none.
    pub(super) fn exponent(&mut self) -> Option<i64> {
        let start = self.at;
        let exponent = self.times_power().or_else(|| {
            self.at = start;
            self.letter_exponent()
        });
        if exponent.is_none() {
            self.at = start;
        }
        exponent
    }

    fn times_power(&mut self) -> Option<i64> {
        self.spaces();
        match self.peek()? {
            TokenKind::Command("times" | "cdot") | TokenKind::Symbol('*') => self.at += 1,
            // `1.5 x 10^3`
            TokenKind::Word("x" | "X") | TokenKind::Label("x" | "X") => self.at += 1,
            _ => return None,
        }
        self.spaces();
        let ten = matches!(self.peek()?, TokenKind::Numeral(numeral) if numeral.is_digits() && numeral.integer == "10");
        self.at += 1;
        if !ten || self.peek() != Some(&TokenKind::Symbol('^')) {
            return None;
        }
        self.at += 1;
        self.spaces();
        if self.peek()? != &TokenKind::GroupOpen {
            return self.signed_digits();
        }
        let close = self.tokens.partner(self.at, self.end)?;
        self.at += 1;
        let exponent = self.signed_digits()?;
        self.spaces();
        (self.at == close).then(|| {
            self.at += 1;
            exponent
        })
    }

    /// `e3` and `E-3` directly after the digits.
    fn letter_exponent(&mut self) -> Option<i64> {
        // `4.7\\mathrm{e}6` has white space where its braces were.
        if !matches!(self.peek()?, TokenKind::Word("e" | "E")) {
            self.spaces();
            if !matches!(self.peek()?, TokenKind::Label("e" | "E")) {
                return None;
            }
        }
        self.at += 1;
        self.signed_digits()
    }

    fn signed_digits(&mut self) -> Option<i64> {
        self.spaces();
        let negative = self.peek()? == &TokenKind::Symbol('-');
        if negative || self.peek()? == &TokenKind::Symbol('+') {
            self.at += 1;
        }
        match self.peek()? {
            TokenKind::Numeral(numeral) if numeral.is_digits() && numeral.integer.len() <= 4 => {
                self.at += 1;
                let exponent: i64 = numeral.integer.parse().ok()?;
                Some(if negative { -exponent } else { exponent })
            }
            _ => None,
        }
    }
}
