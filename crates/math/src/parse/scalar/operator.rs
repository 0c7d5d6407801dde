//! Infix operators, and the precedence of all.

use super::frame::OnClose;
use super::{LastOperand, Parser, PlusMinus, ScalarError, ScalarResult};
use crate::expr::{Function, Node, NodeId};
use crate::parse::token::TokenKind;
use crate::{Notation, Number};

/// An operator that waits for its right operand.
#[derive(Debug, Clone)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    /// A factor within a function argument without parentheses: `\sin 2x`
    Factor,
    Divide,
    Modulo,
    /// `a+b \over c+d`, and `\choose`: everything before against everything after.
    Over,
    Choose,
    /// An integer before a fraction: a mixed number or a product.
    Mixed,
    Power,
    Negate,
    /// The sign of an exponent.
    NegateExponent,
    /// A function before an argument without parentheses, with its power or base.
    Call(Function, Option<NodeId>),
    /// A sum or product before its term.
    Fold {
        product: bool,
        variable: u32,
        from: NodeId,
        to: NodeId,
        begin: NodeId,
    },
    /// An opening absolute-value bar.
    Bar,
}

const OVER: u8 = 5;

const ADD: u8 = 10;

const FOLD: u8 = 15;

pub(super) const MULTIPLY: u8 = 20;

const CALL: u8 = 25;

const FACTOR: u8 = 30;

const MIXED: u8 = 40;

pub(super) const POWER: u8 = 50;

impl Operator {
    fn precedence(&self) -> u8 {
        match self {
            // Closed by its own end only.
            Self::Bar => 0,
            Self::Over | Self::Choose => OVER,
            Self::Add | Self::Subtract => ADD,
            Self::Fold { .. } => FOLD,
            Self::Multiply | Self::Divide | Self::Modulo | Self::Negate => MULTIPLY,
            Self::Call(..) => CALL,
            Self::Factor => FACTOR,
            Self::Mixed => MIXED,
            Self::Power => POWER,
            Self::NegateExponent => POWER + 10,
        }
    }
}

impl Parser<'_, '_, '_> {
    /// Applies the operators of this frame of at least this precedence.
    pub(super) fn reduce(&mut self, least: u8) -> ScalarResult {
        while let Some(operator) = self.stack.operator() {
            if matches!(operator, Operator::Bar) {
                return if least == 0 { Err(ScalarError::NotScalar) } else { Ok(()) };
            }
            if operator.precedence() < least {
                break;
            }
            if let Some(operator) = self.stack.pop_operator() {
                self.fuel.spend(2)?;
                if self.builder.is_full() {
                    return Err(ScalarError::NotScalar);
                }
                self.apply(operator)?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, operator: Operator) -> ScalarResult {
        let right = self.stack.pop_operand()?;
        let node = match operator {
            Operator::Negate | Operator::NegateExponent => self.builder.negate(right),
            Operator::Call(Function::LogBase, Some(base)) => {
                self.builder.push(Node::Call2(Function::LogBase, right, base))
            }
            Operator::Call(function, power) => {
                let call = self.builder.push(Node::Call(function, right));
                match power {
                    Some(power) => self.builder.push(Node::Power(call, power)),
                    None => call,
                }
            }
            Operator::Fold { product, variable, from, to, begin } => {
                self.bound.pop();
                let fold = self.builder.push(Node::Fold { product, variable, from, to, begin });
                self.builder.close_term(begin, fold);
                fold
            }
            Operator::Bar => return Err(ScalarError::NotScalar),
            infix => {
                let left = self.stack.pop_operand()?;
                self.infix(&infix, left, right)
            }
        };
        self.stack.push_result(node);
        Ok(())
    }

    fn infix(&mut self, operator: &Operator, left: NodeId, right: NodeId) -> NodeId {
        match operator {
            Operator::Add => self.builder.push(Node::Add(left, right)),
            Operator::Subtract => {
                let right = self.builder.push(Node::Negate(right));
                self.builder.push(Node::Add(left, right))
            }
            Operator::Divide | Operator::Over => self.builder.divide(left, right),
            Operator::Choose => self.builder.push(Node::Call2(Function::Binomial, left, right)),
            Operator::Modulo => self.builder.push(Node::Call2(Function::Modulo, left, right)),
            Operator::Power => self.builder.push(Node::Power(left, right)),
            Operator::Mixed if self.is_mixed(left, right) => self.builder.push(Node::Add(left, right)),
            _ => self.builder.push(Node::Multiply(left, right)),
        }
    }

    /// Whether the operands are an integer and a proper fraction.
    fn is_mixed(&self, left: NodeId, right: NodeId) -> bool {
        let (Some(Node::Literal(whole)), Some(Node::Literal(part))) =
            (self.builder.node(left), self.builder.node(right))
        else {
            return false;
        };
        let is_proper =
            |part: &Number| part.exact().is_some_and(|p| *p >= dashu_ratio::RBig::ZERO && *p < dashu_ratio::RBig::ONE);
        whole.notation == Notation::Integer && part.notation == Notation::Fraction && is_proper(part)
    }

    pub(super) fn push(&mut self, operator: Operator, least: u8) -> ScalarResult {
        self.reduce(least)?;
        self.stack.push_operator(operator);
        Ok(())
    }

    /// Reads what follows an operand.
    pub(super) fn operator(&mut self) -> ScalarResult {
        let Some(kind) = self.cursor.peek() else { return Err(ScalarError::NotScalar) };
        if !self.cursor.is_at_token_start() {
            return self.juxtaposition();
        }
        match kind {
            TokenKind::Space => self.cursor.advance(),
            TokenKind::Symbol('+') => self.sign(Operator::Add)?,
            TokenKind::Symbol('-') => self.sign(Operator::Subtract)?,
            TokenKind::Command("pm") => self.sign(self.plus_minus(true))?,
            TokenKind::Command("mp") => self.sign(self.plus_minus(false))?,
            TokenKind::Symbol('*') if self.cursor.kind(self.cursor.at() + 1) == Some(&TokenKind::Symbol('*')) => {
                self.cursor.jump(self.cursor.at() + 2);
                self.push(Operator::Power, POWER + 1)?;
            }
            TokenKind::Symbol('*') | TokenKind::Command("cdot" | "times" | "ast" | "bullet") => {
                self.cursor.advance();
                self.push(Operator::Multiply, MULTIPLY)?;
            }
            TokenKind::Symbol('/') | TokenKind::Command("div") => {
                self.cursor.advance();
                self.push(Operator::Divide, MULTIPLY)?;
            }
            TokenKind::Command("bmod" | "mod") | TokenKind::Word("mod") => {
                self.cursor.advance();
                self.push(Operator::Modulo, MULTIPLY)?;
            }
            TokenKind::Command(over @ ("over" | "choose")) => {
                self.cursor.advance();
                self.push(if *over == "over" { Operator::Over } else { Operator::Choose }, OVER)?;
            }
            TokenKind::Symbol('^') => self.superscript()?,
            TokenKind::Symbol('!') => self.factorial()?,
            TokenKind::Symbol(',') => self.comma()?,
            TokenKind::Symbol('|') => self.bar_or_factor()?,
            TokenKind::Percent => self.percent()?,
            TokenKind::Command("degree") => self.degree(1)?,
            TokenKind::Command("circ") => {
                // `f \circ g` is a composition.
                let next = self.cursor.after_spaces(self.cursor.at() + 1);
                if matches!(
                    self.cursor.kind(next),
                    Some(TokenKind::Word(_) | TokenKind::Label(_) | TokenKind::Command(_) | TokenKind::Open(_))
                ) {
                    return Err(ScalarError::NotScalar);
                }
                self.degree(1)?;
            }
            _ => self.juxtaposition()?,
        }
        Ok(())
    }

    fn sign(&mut self, operator: Operator) -> ScalarResult {
        self.cursor.advance();
        self.push(operator, ADD)
    }

    pub(super) fn plus_minus(&self, is_plus_minus: bool) -> Operator {
        if (self.sign == PlusMinus::Plus) == is_plus_minus { Operator::Add } else { Operator::Subtract }
    }

    /// Adjacent operands are factors, unless both are numerals.
    pub(super) fn juxtaposition(&mut self) -> ScalarResult {
        let Some(kind) = self.cursor.peek() else { return Err(ScalarError::NotScalar) };
        let is_numeral = matches!(kind, TokenKind::Numeral(_));
        if is_numeral && self.stack.last_operand() != LastOperand::Other && self.cursor.is_at_token_start() {
            return Err(ScalarError::NotScalar);
        }
        // `1{00}` and `{1}{00}` show 100.
        if self.stack.last_operand() != LastOperand::Other && self.begins_with_numeral() {
            return Err(ScalarError::NotScalar);
        }
        if self.stack.last_operand() == LastOperand::Integer && matches!(kind, TokenKind::Command("frac")) {
            return self.push(Operator::Mixed, MIXED + 1);
        }
        self.reduce(MIXED)?;
        let waits = matches!(self.stack.operator(), Some(Operator::Call(..) | Operator::Factor));
        if waits && !self.is_function(kind) {
            return self.push(Operator::Factor, FACTOR);
        }
        self.push(Operator::Multiply, MULTIPLY)
    }

    /// What a group is that was read: braces are not seen, so that `{2}` is a numeral, except in an exponent.
    pub(super) fn shown(&self, value: NodeId) -> LastOperand {
        let is_exponent = matches!(self.stack.operator(), Some(Operator::Power | Operator::NegateExponent));
        match self.builder.node(value) {
            Some(Node::Literal(number)) if !is_exponent => match number.notation {
                Notation::Integer => LastOperand::Integer,
                Notation::Decimal { .. } => LastOperand::Decimal,
                _ => LastOperand::Other,
            },
            _ => LastOperand::Other,
        }
    }

    /// Whether a group begins here, and a numeral is the first that it shows.
    fn begins_with_numeral(&self) -> bool {
        let is_hidden = |at: usize| matches!(self.cursor.kind(at), Some(TokenKind::GroupOpen | TokenKind::Space));
        let mut at = self.cursor.at();
        let is_group = self.cursor.kind(at) == Some(&TokenKind::GroupOpen);
        while is_hidden(at) {
            at += 1;
        }
        is_group && matches!(self.cursor.kind(at), Some(TokenKind::Numeral(_)))
    }

    /// Begins a function application: the argument is in brackets, or extends to the next sign.
    pub(super) fn function_argument(&mut self, function: Function, extra: Option<NodeId>) -> ScalarResult {
        self.cursor.skip_spaces();
        let then = match (function, extra) {
            (Function::LogBase, Some(base)) => OnClose::LogArgument(base),
            (function, _) if function.takes_two() => OnClose::First(function),
            (function, power) => OnClose::Call(function, power),
        };
        match self.cursor.peek() {
            Some(TokenKind::GroupOpen | TokenKind::Open('(' | '[')) => self.bracket(then),
            _ if function.takes_two() => Err(ScalarError::NotScalar),
            _ => {
                self.stack.push_operator(Operator::Call(function, extra));
                Ok(())
            }
        }
    }

    /// Begins the term of a sum or product.
    pub(super) fn sum_term(&mut self, product: bool, variable: &str, from: NodeId, to: NodeId) {
        let variable_id = self.builder.name(variable);
        let begin = self.builder.push(Node::Term(0));
        self.bound.push(variable.to_owned());
        self.stack.push_operator(Operator::Fold { product, variable: variable_id, from, to, begin });
    }
}
