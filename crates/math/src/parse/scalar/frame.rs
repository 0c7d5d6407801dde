//! Open brackets and arguments, and what is built when they close.

use std::ops::Range;

use super::{LastOperand, Parser, ScalarError, ScalarResult};
use crate::expr::{Function, Node, NodeId};
use crate::parse::token::Kind;

/// A range of tokens that is parsed on its own.
#[derive(Debug)]
pub(super) struct Frame {
    /// Its end.
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
    /// The whole expression.
    Finish,
    /// An operand.
    Operand,
    /// The argument of a function, raised to the given power.
    Call(Function, Option<NodeId>),
    /// The first argument of a function of two; the second follows after a comma.
    First(Function),
    /// The second argument.
    Second(Function, NodeId),
    /// The argument of an undefined function.
    Apply(u32),
    Numerator,
    Denominator(NodeId),
    /// `\binom{n}{k}`
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
        let frame = Frame::new(range.end, on_close, self.operators.len(), self.operands.len());
        self.frames.push(Frame { resume: Some(resume), ..frame });
        self.at = range.start;
        self.offset = 0;
        self.has_operand = false;
        self.last = LastOperand::Other;
    }

    /// Opens a frame for a TeX argument: a group, or the next operand.
    pub(super) fn argument(&mut self, on_close: OnClose) -> ScalarResult {
        self.spaces();
        let end = self.frames.last().map_or(0, |frame| frame.end);
        if self.offset == 0
            && self.peek() == Some(&Kind::GroupOpen)
            && let Some(close) = self.tokens.partner(self.at, end)
        {
            self.open(self.at + 1..close, close + 1, on_close);
            return Ok(());
        }
        if self.at >= end {
            return Err(ScalarError::NotScalar);
        }
        let frame = Frame::new(end, on_close, self.operators.len(), self.operands.len());
        self.frames.push(Frame { single: true, ..frame });
        self.has_operand = false;
        Ok(())
    }

    /// Opens a frame over the bracket at the cursor.
    pub(super) fn bracket(&mut self, on_close: OnClose) -> ScalarResult {
        let end = self.frames.last().map_or(0, |frame| frame.end);
        let close = self.tokens.partner(self.at, end).ok_or(ScalarError::NotScalar)?;
        self.open(self.at + 1..close, close + 1, on_close);
        Ok(())
    }

    /// Closes the innermost frame. Returns the root of the outermost one.
    pub(super) fn close(&mut self) -> ScalarResult<Option<NodeId>> {
        if !self.has_operand {
            return Err(ScalarError::NotScalar);
        }
        self.reduce(0)?;
        let value = self.pop_operand()?;
        let frame = self.frames.pop().ok_or(ScalarError::NotScalar)?;
        if self.operands.len() != frame.operands || self.operators.len() != frame.operators {
            return Err(ScalarError::NotScalar);
        }
        if let Some(resume) = frame.resume {
            self.at = resume;
            self.offset = 0;
        }
        self.has_operand = false;
        self.skipped = None;
        match frame.on_close {
            OnClose::Finish => return Ok(Some(value)),
            OnClose::Operand => self.operand(value, LastOperand::Other),
            OnClose::Call(function, power) => {
                let mut node = self.builder.push(Node::Call(function, value));
                if let Some(power) = power {
                    node = self.builder.push(Node::Power(node, power));
                }
                self.operand(node, LastOperand::Other);
            }
            OnClose::Second(function, first) => {
                let node = self.builder.push(Node::Call2(function, first, value));
                self.operand(node, LastOperand::Other);
            }
            OnClose::Apply(name) => {
                let node = self.builder.push(Node::Apply(name, value));
                self.operand(node, LastOperand::Other);
            }
            OnClose::Numerator => self.argument(OnClose::Denominator(value))?,
            OnClose::Denominator(above) => {
                let node = self.builder.divide(above, value);
                self.operand(node, LastOperand::Other);
            }
            OnClose::BinomialTop => self.argument(OnClose::BinomialBottom(value))?,
            OnClose::BinomialBottom(above) => {
                let node = self.builder.push(Node::Call2(Function::Binomial, above, value));
                self.operand(node, LastOperand::Other);
            }
            OnClose::RootIndex => self.argument(OnClose::Radicand(value))?,
            OnClose::Radicand(index) => {
                let node = self.builder.push(Node::Call2(Function::Root, value, index));
                self.operand(node, LastOperand::Other);
            }
            OnClose::LogBase => self.function_argument(Function::LogBase, Some(value))?,
            OnClose::LogArgument(base) => {
                let node = self.builder.push(Node::Call2(Function::LogBase, value, base));
                self.operand(node, LastOperand::Other);
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
        let Some(Frame { on_close: OnClose::First(function), .. }) = self.frames.last() else {
            return Err(ScalarError::NotScalar);
        };
        let function = *function;
        self.reduce(0)?;
        let first = self.pop_operand()?;
        let frame = self.frames.last_mut().ok_or(ScalarError::NotScalar)?;
        frame.on_close = OnClose::Second(function, first);
        self.has_operand = false;
        self.advance();
        Ok(())
    }
}
