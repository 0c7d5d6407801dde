//! Open brackets and arguments, and what is built when they close.

use std::ops::Range;

use super::{LastOperand, Parser, ScalarError, ScalarResult};
use crate::expr::{Function, Node, NodeId};
use crate::parse::token::TokenKind;

/// A range of tokens that is parsed on its own.
#[derive(Debug)]
pub(super) struct Frame {
    /// Index behind the last token.
    pub(super) end: usize,
    /// Whether it takes a single operand, like an argument without braces.
    pub(super) single: bool,
    /// Numbers of operators and operands on the stacks when it was opened.
    pub(super) operators: usize,
    pub(super) operands: usize,
    /// Where parsing continues. `None`: where the frame ended.
    pub(super) resume: Option<usize>,
    pub(super) on_close: OnClose,
}

/// What is built from the expression of a frame.
#[derive(Debug, Clone)]
pub(super) enum OnClose {
    /// The expression is the result.
    Finish,
    /// The expression is an operand of the frame around it.
    Operand,
    /// The argument of a function, raised to the given power.
    Call(Function, Option<NodeId>),
    /// The first argument of a function of two; the second follows after a comma.
    First(Function),
    /// The expression is the second argument of a function.
    Second(Function, NodeId),
    /// The argument of an undefined function.
    Apply(u32),
    Numerator,
    Denominator(NodeId),
    /// The expression is the upper number of `\binom{n}{k}`.
    BinomialTop,
    BinomialBottom(NodeId),
    /// The index of a root, followed by its radicand.
    RootIndex,
    Radicand(NodeId),
    /// The base of a logarithm, followed by its argument.
    LogBase,
    LogArgument(NodeId),
    /// The power of a function, followed by its argument: `\sin^2 x`
    FunctionPower(Function),
    /// The lower bound of a sum, with its variable.
    SumFrom(bool, String),
    SumTo(bool, String, NodeId),
}

impl Frame {
    pub(super) fn new(end: usize, on_close: OnClose, operators: usize, operands: usize) -> Self {
        Self { end, single: false, operators, operands, resume: None, on_close }
    }
}

impl Parser<'_, '_, '_> {
    /// Opens a frame over tokens; parsing continues at `resume` afterwards.
    pub(super) fn open(&mut self, range: Range<usize>, resume: usize, on_close: OnClose) {
        self.stack.open(range.end, on_close).resume = Some(resume);
        self.stack.forget_last_operand();
        self.cursor.set_end(range.end);
        self.cursor.jump(range.start);
    }

    /// Opens a frame for a TeX argument: a group, or the next operand.
    pub(super) fn argument(&mut self, on_close: OnClose) -> ScalarResult {
        self.cursor.skip_spaces();
        let at = self.cursor.at();
        if self.cursor.is_at_token_start()
            && self.cursor.peek() == Some(&TokenKind::GroupOpen)
            && let Some(close) = self.cursor.partner(at)
        {
            self.open(at + 1..close, close + 1, on_close);
            return Ok(());
        }
        if self.cursor.is_at_end() {
            return Err(ScalarError::NotScalar);
        }
        self.stack.open(self.cursor.end(), on_close).single = true;
        Ok(())
    }

    /// Opens a frame over the bracket at the cursor.
    pub(super) fn bracket(&mut self, on_close: OnClose) -> ScalarResult {
        let at = self.cursor.at();
        let close = self.cursor.partner(at).ok_or(ScalarError::NotScalar)?;
        // `(n+1]` is an end of an interval.
        if let (Some(TokenKind::Open('(' | '[')), Some(TokenKind::Close('⌋' | '⌉' | '}')))
        | (Some(TokenKind::Open('(')), Some(TokenKind::Close(']')))
        | (Some(TokenKind::Open('[')), Some(TokenKind::Close(')'))) = (self.cursor.kind(at), self.cursor.kind(close))
        {
            return Err(ScalarError::NotScalar);
        }
        self.open(at + 1..close, close + 1, on_close);
        Ok(())
    }

    /// Closes the innermost frame. Returns the root of the outermost one.
    pub(super) fn close(&mut self) -> ScalarResult<Option<NodeId>> {
        if !self.stack.has_operand() {
            return Err(ScalarError::NotScalar);
        }
        self.reduce(0)?;
        let (frame, value) = self.stack.close()?;
        self.cursor.set_end(self.stack.frame().map_or(0, |outer| outer.end));
        let is_group = self.cursor.kind(frame.end) == Some(&TokenKind::GroupClose);
        if let Some(resume) = frame.resume {
            self.cursor.jump(resume);
        }
        self.cursor.forget_skipped();
        match frame.on_close {
            OnClose::Finish => return Ok(Some(value)),
            OnClose::Operand => {
                let last = if is_group { self.shown(value) } else { LastOperand::Other };
                self.stack.push_operand(value, last);
            }
            OnClose::Call(function, power) => {
                let mut node = self.builder.push(Node::Call(function, value));
                if let Some(power) = power {
                    node = self.builder.push(Node::Power(node, power));
                }
                self.stack.push_operand(node, LastOperand::Other);
            }
            OnClose::Second(function, first) => {
                let node = self.builder.push(Node::Call2(function, first, value));
                self.stack.push_operand(node, LastOperand::Other);
            }
            OnClose::Apply(name) => {
                let node = self.builder.push(Node::Apply(name, value));
                self.stack.push_operand(node, LastOperand::Other);
            }
            OnClose::Numerator => self.argument(OnClose::Denominator(value))?,
            OnClose::Denominator(above) => {
                let node = self.builder.divide(above, value);
                self.stack.push_operand(node, LastOperand::Other);
            }
            OnClose::BinomialTop => self.argument(OnClose::BinomialBottom(value))?,
            OnClose::BinomialBottom(above) => {
                let node = self.builder.push(Node::Call2(Function::Binomial, above, value));
                self.stack.push_operand(node, LastOperand::Other);
            }
            OnClose::RootIndex => self.argument(OnClose::Radicand(value))?,
            OnClose::Radicand(index) => {
                let node = self.builder.push(Node::Call2(Function::Root, value, index));
                self.stack.push_operand(node, LastOperand::Other);
            }
            OnClose::LogBase => self.function_argument(Function::LogBase, Some(value))?,
            OnClose::LogArgument(base) => {
                let node = self.builder.push(Node::Call2(Function::LogBase, value, base));
                self.stack.push_operand(node, LastOperand::Other);
            }
            OnClose::FunctionPower(function) => self.function_argument(function, Some(value))?,
            OnClose::SumFrom(product, variable) => self.sum_to(product, variable, value)?,
            OnClose::SumTo(product, variable, from) => self.sum_term(product, &variable, from, value),
            // The second argument is missing.
            OnClose::First(_) => return Err(ScalarError::NotScalar),
        }
        Ok(None)
    }

    /// A comma within the parentheses of a function of two arguments.
    pub(super) fn comma(&mut self) -> ScalarResult {
        let Some(Frame { on_close: OnClose::First(function), .. }) = self.stack.frame() else {
            return Err(ScalarError::NotScalar);
        };
        let function = *function;
        self.reduce(0)?;
        let first = self.stack.pop_operand()?;
        let frame = self.stack.frame_mut().ok_or(ScalarError::NotScalar)?;
        frame.on_close = OnClose::Second(function, first);
        self.stack.expect_operand();
        self.cursor.advance();
        Ok(())
    }
}
