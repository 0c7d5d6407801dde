//! Operands, operators and frames that are not complete yet.

use super::frame::{Frame, OnClose};
use super::operator::Operator;
use super::{ScalarError, ScalarResult};
use crate::expr::NodeId;

/// How the last operand was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastOperand {
    /// A numeral; another one must not follow.
    Integer,
    Decimal,
    Other,
}

/// The stacks of the parser. Each frame uses only what was pushed after it was opened.
pub(super) struct Stack {
    operands: Vec<NodeId>,
    operators: Vec<Operator>,
    frames: Vec<Frame>,
    has_operand: bool,
    last: LastOperand,
}

impl Stack {
    /// A stack with the outermost frame, which ends at `end`.
    pub(super) fn new(end: usize) -> Self {
        let frame = Frame::new(end, OnClose::Finish, 0, 0);
        Self {
            operands: Vec::new(),
            operators: Vec::new(),
            frames: vec![frame],
            has_operand: false,
            last: LastOperand::Other,
        }
    }

    /// Number of open frames.
    pub(super) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Whether nothing was read yet.
    pub(super) fn is_at_start(&self) -> bool {
        self.frames.len() == 1 && self.operands.is_empty() && self.operators.is_empty()
    }

    /// The innermost frame that is open.
    pub(super) fn frame(&self) -> Option<&Frame> {
        self.frames.last()
    }

    pub(super) fn frame_mut(&mut self) -> Option<&mut Frame> {
        self.frames.last_mut()
    }

    /// Opens a frame that ends at a token.
    pub(super) fn open(&mut self, end: usize, on_close: OnClose) -> &mut Frame {
        let frame = Frame::new(end, on_close, self.operators.len(), self.operands.len());
        self.has_operand = false;
        self.frames.push_mut(frame)
    }

    /// Closes the innermost frame and returns it with its operand, the only one that may be left.
    pub(super) fn close(&mut self) -> ScalarResult<(Frame, NodeId)> {
        let operand = self.pop_operand()?;
        let frame = self.frames.pop().ok_or(ScalarError::NotScalar)?;
        if self.operands.len() != frame.operands || self.operators.len() != frame.operators {
            return Err(ScalarError::NotScalar);
        }
        self.has_operand = false;
        Ok((frame, operand))
    }

    /// Whether an operator comes next, and not an operand.
    pub(super) fn has_operand(&self) -> bool {
        self.has_operand
    }

    /// How the last operand was written.
    pub(super) fn last_operand(&self) -> LastOperand {
        self.last
    }

    /// Forgets how the last operand was written.
    pub(super) fn forget_last_operand(&mut self) {
        self.last = LastOperand::Other;
    }

    /// Expects an operand next.
    pub(super) fn expect_operand(&mut self) {
        self.has_operand = false;
    }

    /// Pushes a complete operand.
    pub(super) fn push_operand(&mut self, node: NodeId, last: LastOperand) {
        self.operands.push(node);
        self.has_operand = true;
        self.last = last;
    }

    /// Pushes the result of an operator.
    pub(super) fn push_result(&mut self, node: NodeId) {
        self.operands.push(node);
    }

    pub(super) fn pop_operand(&mut self) -> ScalarResult<NodeId> {
        let floor = self.frames.last().map_or(0, |frame| frame.operands);
        if self.operands.len() <= floor {
            return Err(ScalarError::NotScalar);
        }
        self.operands.pop().ok_or(ScalarError::NotScalar)
    }

    /// Pushes an operator, which waits for its right operand.
    pub(super) fn push_operator(&mut self, operator: Operator) {
        self.operators.push(operator);
        self.has_operand = false;
    }

    /// The last operator of the innermost frame.
    pub(super) fn operator(&self) -> Option<&Operator> {
        let floor = self.frames.last().map_or(0, |frame| frame.operators);
        self.operators.get(floor..)?.last()
    }

    pub(super) fn pop_operator(&mut self) -> Option<Operator> {
        self.operators.pop()
    }
}
