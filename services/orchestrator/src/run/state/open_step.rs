//! A step that has begun: the groups that it has taken and left out so far.

use serde::{Deserialize, Serialize};

use super::event::Action;
use super::holds::Hold;

/// A step that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenStep {
    pub(super) step: u64,
    /// Version of the weights that sample it, or its first groups.
    pub(super) version: u64,
    /// Number of its first prompt, of the next one that it decides about, and of the one after the last that it has
    /// started, in data order.
    pub(super) first: u64,
    pub(super) next: u64,
    pub(super) started: u64,
    /// Groups that it has taken, and those of them that have no advantage and fill it up.
    pub(super) taken: u32,
    pub(super) filled_up: u64,
    /// Groups that have no advantage among those that are finished, in data order.
    pub(super) zero_advantage: u64,
    /// Prompts whose groups it has left out, in order.
    pub(super) dropped: Vec<u64>,
    /// Groups that later prompts overtook.
    pub(super) overtaken: u64,
    #[serde(default)]
    pub(super) hold: Hold,
    /// The step has all its groups.
    pub(super) is_full: bool,
    /// The learner has them all.
    pub(super) is_closed: bool,
}

impl OpenStep {
    pub(super) fn new(step: u64, version: u64, first: u64) -> Self {
        Self {
            step,
            version,
            first,
            next: first,
            started: first,
            taken: 0,
            filled_up: 0,
            zero_advantage: 0,
            dropped: Vec::new(),
            overtaken: 0,
            hold: Hold::default(),
            is_full: false,
            is_closed: false,
        }
    }

    /// The step takes a group.
    pub(super) fn take(&mut self, prompt: u64) -> Action {
        let index = self.taken;
        self.taken += 1;
        Action::Take { step: self.step, prompt, index, is_held: self.hold.holds(index) }
    }
}
