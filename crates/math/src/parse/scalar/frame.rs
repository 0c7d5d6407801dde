//! What is open: brackets and arguments, and what becomes of them once they are read.

use std::ops::Range;

use super::{Last, Parser, Step, Stop};
use crate::expr::{Function, Node, NodeId};
use crate::parse::token::Kind;

/// A part of the tokens that is read on its own.
#[derive(Debug)]
pub(super) struct Frame {
    /// Where it ends.
    pub(super) end: usize,
    /// Whether one operand is all that it takes, as an argument without braces does.
    pub(super) single: bool,
    /// Operators and operands that were there before.
    pub(super) operators: usize,
    pub(super) operands: usize,
    /// Where reading goes on. `None` goes on where the frame ended.
    pub(super) resume: Option<usize>,
    pub(super) then: Then,
}

/// What becomes of the expression of a frame.
#[derive(Debug, Clone)]
pub(super) enum Then {
    /// It is the whole.
    Finish,
    /// It is an operand.
    Operand,
    /// It is the argument of a function, whose value is raised to that power.
    Call(Function, Option<NodeId>),
    /// It is the first argument of a function of two, the second follows behind a comma.
    First(Function),
    /// It is the second argument.
    Second(Function, NodeId),
    /// It is what an undefined function is taken of.
    Apply(u32),
    Numerator,
    Denominator(NodeId),
    /// `\binom{n}{k}`
    BinomialTop,
    BinomialBottom(NodeId),
    /// The index of a root, whose radicand follows.
    RootIndex,
    Radicand(NodeId),
    /// The base of a logarithm, whose argument follows.
    LogBase,
    LogArgument(NodeId),
    /// The power of a function, whose argument follows: `\sin^2 x`
    FunctionPower(Function),
    /// First value of the variable of a sum.
    SumFrom(bool, String),
    SumTo(bool, String, NodeId),
}

impl Frame {
    pub(super) fn new(end: usize, then: Then, operators: usize, operands: usize) -> Self {
        Self { end, single: false, operators, operands, resume: None, then }
    }
}

impl Parser<'_, '_, '_> {
    /// Opens a frame over tokens; reading goes on behind them.
    pub(super) fn open(&mut self, range: Range<usize>, resume: usize, then: Then) {
        let frame = Frame::new(range.end, then, self.operators.len(), self.operands.len());
        self.frames.push(Frame { resume: Some(resume), ..frame });
        self.at = range.start;
        self.offset = 0;
        self.has_operand = false;
        self.last = Last::Other;
    }

    /// Opens a frame for what TeX takes as an argument: a group, or the next operand.
    pub(super) fn argument(&mut self, then: Then) -> Step {
        self.spaces();
        let end = self.frames.last().map_or(0, |frame| frame.end);
        if self.offset == 0
            && self.peek() == Some(&Kind::GroupOpen)
            && let Some(close) = self.tokens.partner(self.at, end)
        {
            self.open(self.at + 1..close, close + 1, then);
            return Ok(());
        }
        if self.at >= end {
            return Err(Stop::NotScalar);
        }
        let frame = Frame::new(end, then, self.operators.len(), self.operands.len());
        self.frames.push(Frame { single: true, ..frame });
        self.has_operand = false;
        Ok(())
    }

    /// Opens a frame over the bracket at `at`.
    pub(super) fn bracket(&mut self, then: Then) -> Step {
        let end = self.frames.last().map_or(0, |frame| frame.end);
        let close = self.tokens.partner(self.at, end).ok_or(Stop::NotScalar)?;
        self.open(self.at + 1..close, close + 1, then);
        Ok(())
    }

    /// Closes the innermost frame. Its expression is the result where it was the outermost.
    pub(super) fn close(&mut self) -> Step<Option<NodeId>> {
        if !self.has_operand {
            return Err(Stop::NotScalar);
        }
        self.reduce(0)?;
        let value = self.pop_operand()?;
        let frame = self.frames.pop().ok_or(Stop::NotScalar)?;
        if self.operands.len() != frame.operands || self.operators.len() != frame.operators {
            return Err(Stop::NotScalar);
        }
        if let Some(resume) = frame.resume {
            self.at = resume;
            self.offset = 0;
        }
        self.has_operand = false;
        self.taken = None;
        match frame.then {
            Then::Finish => return Ok(Some(value)),
            Then::Operand => self.operand(value, Last::Other),
            Then::Call(function, power) => {
                let mut node = self.builder.push(Node::Call(function, value));
                if let Some(power) = power {
                    node = self.builder.push(Node::Power(node, power));
                }
                self.operand(node, Last::Other);
            }
            Then::Second(function, first) => {
                let node = self.builder.push(Node::Call2(function, first, value));
                self.operand(node, Last::Other);
            }
            Then::Apply(name) => {
                let node = self.builder.push(Node::Apply(name, value));
                self.operand(node, Last::Other);
            }
            Then::Numerator => self.argument(Then::Denominator(value))?,
            Then::Denominator(above) => {
                let node = self.builder.divide(above, value);
                self.operand(node, Last::Other);
            }
            Then::BinomialTop => self.argument(Then::BinomialBottom(value))?,
            Then::BinomialBottom(above) => {
                let node = self.builder.push(Node::Call2(Function::Binomial, above, value));
                self.operand(node, Last::Other);
            }
            Then::RootIndex => self.argument(Then::Radicand(value))?,
            Then::Radicand(index) => {
                let node = self.builder.push(Node::Call2(Function::Root, value, index));
                self.operand(node, Last::Other);
            }
            Then::LogBase => self.function_argument(Function::LogBase, Some(value))?,
            Then::LogArgument(base) => {
                let node = self.builder.push(Node::Call2(Function::LogBase, value, base));
                self.operand(node, Last::Other);
            }
            Then::FunctionPower(function) => self.function_argument(function, Some(value))?,
            Then::SumFrom(product, variable) => self.sum_to(product, variable, value)?,
            Then::SumTo(product, variable, from) => self.sum_term(product, &variable, from, value),
            // Its second argument never came.
            Then::First(_) => return Err(Stop::NotScalar),
        }
        Ok(None)
    }

    /// A comma within the parentheses of a function of two arguments.
    pub(super) fn comma(&mut self) -> Step {
        let Some(Frame { then: Then::First(function), .. }) = self.frames.last() else { return Err(Stop::NotScalar) };
        let function = *function;
        self.reduce(0)?;
        let first = self.pop_operand()?;
        let frame = self.frames.last_mut().ok_or(Stop::NotScalar)?;
        frame.then = Then::Second(function, first);
        self.has_operand = false;
        self.advance();
        Ok(())
    }
}
