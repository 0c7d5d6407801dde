//! The prompts in the order in which they are started: those that an earlier start of the run left without a step, then
//! the data order.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

/// Prompts that are not started yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PromptQueue {
    /// Numbers before `next`, ascending.
    left: VecDeque<u64>,
    /// Number in the data order of the prompt after those.
    next: u64,
}

impl PromptQueue {
    /// The number of the next prompt, which is started.
    pub(super) fn take(&mut self) -> u64 {
        self.left.pop_front().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// The number of the next prompt.
    pub(super) fn peek(&self) -> u64 {
        self.left.front().copied().unwrap_or(self.next)
    }

    /// Numbers of prompts that were started once, and wait to be started again.
    pub(super) fn left(&self) -> impl Iterator<Item = u64> {
        self.left.iter().copied()
    }

    /// This queue with prompts that are started again, since no step has them.
    pub(super) fn with(&self, unfinished: impl Iterator<Item = u64>) -> Self {
        let (next, left) = self.rest(unfinished);
        Self { left: left.into(), next }
    }

    /// Where the data order goes on, and the numbers before that which are in no step: those that are `out`, and those
    /// that are not started.
    pub(super) fn rest(&self, out: impl Iterator<Item = u64>) -> (u64, Vec<u64>) {
        let mut waiting: BTreeSet<u64> = out.chain(self.left.iter().copied()).collect();
        let mut next = self.next;
        // Those at the end are simply the next ones of the data order.
        while next > 0 && waiting.remove(&(next - 1)) {
            next -= 1;
        }
        (next, waiting.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(left: &[u64], next: u64) -> PromptQueue {
        PromptQueue { left: left.iter().copied().collect(), next }
    }

    #[test]
    fn what_was_left_comes_first_and_then_the_data_order_goes_on() {
        let mut queue = queue(&[2, 5], 9);
        assert_eq!([(); 5].map(|()| queue.take()), [2, 5, 9, 10, 11]);
        assert_eq!(queue.peek(), 12);
    }

    #[test]
    fn a_prompt_without_a_step_waits_unless_the_data_order_has_not_passed_it() {
        let mut queue = queue(&[2, 5], 9);
        assert_eq!(queue.rest(std::iter::empty()), (9, vec![2, 5]));
        let started: Vec<u64> = (0..4).map(|_| queue.take()).collect();
        assert_eq!(queue.rest(started.into_iter()), (9, vec![2, 5]), "2 and 5 are out, 9 and 10 come next again");
        assert_eq!(queue.rest([10, 5].into_iter()), (10, vec![5]));
    }
}
