//! The prompts in the order in which they are started: those that an earlier start of the run left without a step, then the data order.

use std::collections::{BTreeSet, VecDeque};

/// Prompts that are not started yet.
#[derive(Debug)]
pub(super) struct PromptQueue {
    /// Numbers before `cursor`, ascending.
    left: VecDeque<u64>,
    /// Number in the data order of the next prompt after those.
    cursor: u64,
}

impl PromptQueue {
    pub(super) fn new(left: &[u64], cursor: u64) -> Self {
        Self { left: left.iter().copied().collect(), cursor }
    }

    /// The number of the next prompt.
    pub(super) fn next(&mut self) -> u64 {
        self.left.pop_front().unwrap_or_else(|| {
            self.cursor += 1;
            self.cursor - 1
        })
    }

    /// Where the data order goes on, and the numbers before that which are in no step: those that are `out`, and those that are not started.
    pub(super) fn rest(&self, out: impl Iterator<Item = u64>) -> (u64, Vec<u64>) {
        let mut waiting: BTreeSet<u64> = out.chain(self.left.iter().copied()).collect();
        let mut next = self.cursor;
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

    #[test]
    fn what_was_left_comes_first_and_then_the_data_order_goes_on() {
        let mut queue = PromptQueue::new(&[2, 5], 9);
        assert_eq!([(); 5].map(|()| queue.next()), [2, 5, 9, 10, 11]);
    }

    #[test]
    fn a_prompt_without_a_step_waits_unless_the_data_order_has_not_passed_it() {
        let mut queue = PromptQueue::new(&[2, 5], 9);
        assert_eq!(queue.rest(std::iter::empty()), (9, vec![2, 5]));
        let started: Vec<u64> = (0..4).map(|_| queue.next()).collect();
        assert_eq!(queue.rest(started.into_iter()), (9, vec![2, 5]), "2 and 5 are out, 9 and 10 come next again");
        assert_eq!(queue.rest([10, 5].into_iter()), (10, vec![5]));
    }
}
