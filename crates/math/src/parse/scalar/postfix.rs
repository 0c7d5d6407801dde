//! What follows an operand and takes no other: powers, degrees, factorials, percent signs, closing bars.

use super::operator::{Operator, POWER};
use super::{LastOperand, Parser, ScalarError, ScalarResult};
use crate::expr::{Function, Node};
use crate::parse::token::TokenKind;

impl Parser<'_, '_, '_> {
    pub(super) fn superscript(&mut self) -> ScalarResult {
        // `^\circ` and `^{\circ}`
        let at = self.cursor.after_spaces(self.cursor.at() + 1);
        let is_circle = |kind: Option<&TokenKind<'_>>| matches!(kind, Some(TokenKind::Command("circ" | "degree")));
        if is_circle(self.cursor.kind(at)) {
            return self.degree(at + 1 - self.cursor.at());
        }
        if self.cursor.kind(at) == Some(&TokenKind::GroupOpen) {
            let close = self.cursor.partner(at).ok_or(ScalarError::NotScalar)?;
            let inner = self.cursor.tokens().stripped(at + 1..close);
            if inner.len() == 1 && is_circle(self.cursor.kind(inner.start)) {
                return self.degree(close + 1 - self.cursor.at());
            }
        }
        self.cursor.advance();
        // Exponentiation is right-associative.
        self.push(Operator::Power, POWER + 1)
    }

    /// A degree sign of this many tokens: π/180 times the operand before it.
    pub(super) fn degree(&mut self, tokens: usize) -> ScalarResult {
        self.reduce(POWER)?;
        let operand = self.stack.pop_operand()?;
        let pi = self.builder.constant(crate::expr::Constant::Pi);
        let turn = self.builder.integer(180);
        let unit = self.builder.push(Node::Divide(pi, turn));
        let node = self.builder.push(Node::Multiply(operand, unit));
        self.cursor.jump(self.cursor.at() + tokens);
        self.stack.push_operand(node, LastOperand::Other);
        Ok(())
    }

    pub(super) fn factorial(&mut self) -> ScalarResult {
        let double = self.cursor.kind(self.cursor.at() + 1) == Some(&TokenKind::Symbol('!'));
        let operand = self.stack.pop_operand()?;
        let function = if double { Function::DoubleFactorial } else { Function::Factorial };
        let node = self.builder.push(Node::Call(function, operand));
        self.cursor.jump(self.cursor.at() + if double { 2 } else { 1 });
        self.stack.push_operand(node, LastOperand::Other);
        Ok(())
    }

    pub(super) fn percent(&mut self) -> ScalarResult {
        let operand = self.stack.pop_operand()?;
        let hundred = self.builder.integer(100);
        let node = self.builder.push(Node::Divide(operand, hundred));
        self.cursor.advance();
        self.stack.push_operand(node, LastOperand::Other);
        Ok(())
    }

    /// A bar after an operand closes an open absolute value, or else begins a factor.
    pub(super) fn bar_or_factor(&mut self) -> ScalarResult {
        self.reduce(1)?;
        if !matches!(self.stack.operator(), Some(Operator::Bar)) {
            return self.juxtaposition();
        }
        self.stack.pop_operator();
        let operand = self.stack.pop_operand()?;
        let node = self.builder.push(Node::Call(Function::Abs, operand));
        self.cursor.advance();
        self.stack.push_operand(node, LastOperand::Other);
        Ok(())
    }
}
