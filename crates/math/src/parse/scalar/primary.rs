//! Operands: numerals, names, brackets, and commands with their arguments.

use super::frame::OnClose;
use super::letters::is_letter;
use super::operator::Operator;
use super::{LastOperand, Parser, ScalarError, ScalarResult};
use crate::Number;
use crate::expr::{Constant, Function};
use crate::parse::token::TokenKind;

/// Most sums that may be nested.
const MAX_SUMS: usize = 3;

impl Parser<'_, '_, '_> {
    /// Reads an operand, or a prefix of one.
    pub(super) fn primary(&mut self) -> ScalarResult {
        let Some(kind) = self.cursor.peek() else { return Err(ScalarError::NotScalar) };
        match kind {
            TokenKind::Space => self.cursor.advance(),
            TokenKind::Symbol('+') => self.cursor.advance(),
            TokenKind::Symbol('-') => self.negative(),
            TokenKind::Command("pm") => self.signed(true),
            TokenKind::Command("mp") => self.signed(false),
            TokenKind::Numeral(_) => self.numeral()?,
            TokenKind::Word(word) => self.letters(word)?,
            TokenKind::Label(label) => self.label(label)?,
            TokenKind::GroupOpen => self.bracket(OnClose::Operand)?,
            TokenKind::Open('(' | '[') => self.bracket(OnClose::Operand)?,
            TokenKind::Open('⌊') => self.bracket(OnClose::Call(Function::Floor, None))?,
            TokenKind::Open('⌈') => self.bracket(OnClose::Call(Function::Ceiling, None))?,
            TokenKind::Symbol('|') => {
                self.stack.push_operator(Operator::Bar);
                self.cursor.advance();
            }
            TokenKind::Command(name) => self.command(name)?,
            _ => return Err(ScalarError::NotScalar),
        }
        Ok(())
    }

    fn negative(&mut self) {
        let exponent = matches!(self.stack.operator(), Some(Operator::Power | Operator::NegateExponent));
        self.stack.push_operator(if exponent { Operator::NegateExponent } else { Operator::Negate });
        self.cursor.advance();
    }

    fn signed(&mut self, is_plus_minus: bool) {
        if matches!(self.plus_minus(is_plus_minus), Operator::Subtract) {
            self.stack.push_operator(Operator::Negate);
        }
        self.cursor.advance();
    }

    fn numeral(&mut self) -> ScalarResult {
        let Some(TokenKind::Numeral(numeral)) = self.cursor.peek() else { return Err(ScalarError::NotScalar) };
        let is_argument = self.stack.frame().is_some_and(|frame| frame.single);
        if !self.cursor.is_at_token_start() || (is_argument && numeral.is_digits()) {
            // A TeX argument is one digit; the rest of the numeral is the next factor.
            let end = if is_argument { self.cursor.offset() + 1 } else { numeral.integer.len() };
            let digits = numeral.integer.get(self.cursor.offset()..end).ok_or(ScalarError::NotScalar)?;
            let (fraction, point) = if is_argument { ("", false) } else { (numeral.fraction, numeral.point) };
            let number = Number::from_digits(digits, fraction, point);
            self.cursor.consume(end - self.cursor.offset(), numeral.integer.len());
            let node = self.builder.literal(number);
            self.stack.push_operand(node, LastOperand::Other);
            return Ok(());
        }
        self.fuel.spend((numeral.integer.len() + numeral.fraction.len()) / 4)?;
        let number = Number::from_digits(&numeral.integer, numeral.fraction, numeral.point);
        let is_exponent = matches!(self.stack.operator(), Some(Operator::Power | Operator::NegateExponent));
        self.cursor.advance();
        let last = match () {
            () if is_exponent => LastOperand::Other,
            () if numeral.point => LastOperand::Decimal,
            () => LastOperand::Integer,
        };
        let node = self.builder.literal(number);
        self.stack.push_operand(node, last);
        Ok(())
    }

    fn command(&mut self, name: &str) -> ScalarResult {
        if let Some(function) = Function::named(name)
            && function != Function::Sqrt
        {
            self.cursor.advance();
            return self.function(function);
        }
        match name {
            "pi" => self.constant(Constant::Pi),
            "frac" => {
                if self.derivative()? {
                    return Ok(());
                }
                self.cursor.advance();
                return self.argument(OnClose::Numerator);
            }
            "binom" => {
                self.cursor.advance();
                return self.argument(OnClose::BinomialTop);
            }
            "sqrt" => {
                self.cursor.advance();
                return self.root(true);
            }
            "surd" => {
                self.cursor.advance();
                return self.root(false);
            }
            "sum" => return self.sum(false),
            "prod" => return self.sum(true),
            "overline" | "bar" | "hat" | "vec" | "dot" | "ddot" | "tilde" | "widehat" | "underline" | "mathcal" => {
                return self.accent(name);
            }
            name if is_letter(name) => {
                self.cursor.advance();
                return self.named(name);
            }
            // Anything else is neither a number nor a letter.
            _ => return Err(ScalarError::NotScalar),
        }
        Ok(())
    }

    pub(super) fn constant(&mut self, constant: Constant) {
        self.cursor.advance();
        let node = self.builder.constant(constant);
        self.stack.push_operand(node, LastOperand::Other);
    }

    /// Reads what follows a function's name: its power or base, and its argument.
    pub(super) fn function(&mut self, function: Function) -> ScalarResult {
        self.cursor.skip_spaces();
        if function == Function::Sqrt {
            return self.root(false);
        }
        if self.cursor.is_at_token_start() && self.cursor.peek() == Some(&TokenKind::Symbol('^')) {
            // `\sin^{-1}` is the inverse.
            if let Some(inverse) = function.inverse()
                && let Some(end) = self.minus_one(self.cursor.at() + 1)
            {
                self.cursor.jump(end);
                return self.function_argument(inverse, None);
            }
            self.cursor.advance();
            return self.argument(OnClose::FunctionPower(function));
        }
        if self.cursor.is_at_token_start()
            && function == Function::Log
            && self.cursor.peek() == Some(&TokenKind::Symbol('_'))
        {
            self.cursor.advance();
            // A whole numeral is meant after `_`, as in `\log_10`.
            if let Some(TokenKind::Numeral(numeral)) = self.cursor.peek()
                && numeral.is_digits()
                && self.cursor.kind(self.cursor.at() + 1) == Some(&TokenKind::Space)
            {
                let base = self.builder.literal(Number::from_digits(&numeral.integer, "", false));
                self.cursor.advance();
                return self.function_argument(Function::LogBase, Some(base));
            }
            return self.argument(OnClose::LogBase);
        }
        self.function_argument(function, None)
    }

    /// The end of `-1` or `{-1}`, if it is here.
    fn minus_one(&self, at: usize) -> Option<usize> {
        let at = self.cursor.after_spaces(at);
        let (inner, end) = match self.cursor.kind(at)? {
            TokenKind::GroupOpen => {
                let close = self.cursor.partner(at)?;
                (self.cursor.tokens().stripped(at + 1..close), close + 1)
            }
            _ => (at..at + 2, at + 2),
        };
        let is_one = |kind: Option<&TokenKind<'_>>| matches!(kind, Some(TokenKind::Numeral(n)) if n.is_digits() && n.integer == "1");
        (inner.len() == 2
            && self.cursor.kind(inner.start) == Some(&TokenKind::Symbol('-'))
            && is_one(self.cursor.kind(inner.start + 1)))
        .then_some(end)
    }

    /// Reads the index and radicand of a root after its name. In plain text the radicand is a whole numeral.
    fn root(&mut self, tex: bool) -> ScalarResult {
        self.cursor.skip_spaces();
        match self.cursor.peek() {
            Some(TokenKind::Open('[')) if self.cursor.is_at_token_start() => {
                let close = self.cursor.partner(self.cursor.at()).ok_or(ScalarError::NotScalar)?;
                self.open(self.cursor.at() + 1..close, close + 1, OnClose::RootIndex);
                Ok(())
            }
            Some(TokenKind::Open('(')) if self.cursor.is_at_token_start() => {
                self.bracket(OnClose::Call(Function::Sqrt, None))
            }
            Some(TokenKind::Numeral(numeral)) if !tex && self.cursor.is_at_token_start() => {
                let number = Number::from_digits(&numeral.integer, numeral.fraction, numeral.point);
                self.cursor.advance();
                let radicand = self.builder.literal(number);
                let node = self.builder.sqrt(radicand);
                self.stack.push_operand(node, LastOperand::Other);
                Ok(())
            }
            _ => self.argument(OnClose::Call(Function::Sqrt, None)),
        }
    }

    /// `\sum_{k=1}^{n}` and `\prod`, with their term up to the next sign.
    fn sum(&mut self, product: bool) -> ScalarResult {
        self.cursor.advance();
        while matches!(self.cursor.peek(), Some(TokenKind::Space | TokenKind::Command("limits"))) {
            self.cursor.advance();
        }
        if self.bound.len() >= MAX_SUMS || self.cursor.peek() != Some(&TokenKind::Symbol('_')) {
            return Err(ScalarError::NotScalar);
        }
        self.cursor.advance();
        self.cursor.skip_spaces();
        // A single letter without braces is not a lower bound.
        let close = self.cursor.partner(self.cursor.at()).ok_or(ScalarError::NotScalar)?;
        let inner = self.cursor.tokens().stripped(self.cursor.at() + 1..close);
        let Some(TokenKind::Word(variable)) = self.cursor.kind(inner.start) else { return Err(ScalarError::NotScalar) };
        if variable.chars().nth(1).is_some() {
            return Err(ScalarError::NotScalar);
        }
        let equals = self.cursor.after_spaces(inner.start + 1);
        if self.cursor.kind(equals) != Some(&TokenKind::Symbol('=')) {
            return Err(ScalarError::NotScalar);
        }
        let variable = (*variable).to_owned();
        self.open(equals + 1..inner.end, close + 1, OnClose::SumFrom(product, variable));
        Ok(())
    }

    /// The upper bound of a sum, after the lower one.
    pub(super) fn sum_to(&mut self, product: bool, variable: String, from: crate::expr::NodeId) -> ScalarResult {
        self.cursor.skip_spaces();
        if self.cursor.peek() != Some(&TokenKind::Symbol('^')) {
            return Err(ScalarError::NotScalar);
        }
        self.cursor.advance();
        self.argument(OnClose::SumTo(product, variable, from))
    }
}
