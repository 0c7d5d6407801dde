//! When the model ran within a step, and for which groups: what traces show of it.

use std::time::SystemTime;

/// What a pass does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassKind {
    /// Forward alone: old and reference log-probabilities.
    Scoring,
    /// Forward and backward.
    Gradient,
    /// The optimizer's update.
    Update,
}

impl PassKind {
    /// Its name in metrics and traces.
    pub fn label(self) -> &'static str {
        match self {
            Self::Scoring => "scoring",
            Self::Gradient => "gradient",
            Self::Update => "update",
        }
    }
}

/// One pass over a few micro-batches, or an update.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// What it does.
    pub kind: PassKind,
    /// When it began.
    pub began: SystemTime,
    /// When it ended.
    pub ended: SystemTime,
    /// How many it ran; 0 for an update.
    pub micro_batches: usize,
    /// Indices of the step's groups whose responses are among them, ascending. Empty for an update and for a supervised step.
    pub groups: Vec<usize>,
}

/// The passes of the step so far.
#[derive(Debug, Default)]
pub(crate) struct Timeline(Vec<Pass>);

impl Timeline {
    /// Begins a step.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a pass that ends now.
    pub(crate) fn add(&mut self, kind: PassKind, began: SystemTime, micro_batches: usize) {
        self.0.push(Pass { kind, began, ended: SystemTime::now(), micro_batches, groups: Vec::new() });
    }

    /// Says whose responses the last pass of this kind ran. Does nothing where there was none.
    pub(crate) fn of_groups(&mut self, kind: PassKind, groups: impl Iterator<Item = usize>) {
        if let Some(pass) = self.0.iter_mut().rev().find(|pass| pass.kind == kind) {
            pass.groups = groups.collect();
            pass.groups.sort_unstable();
            pass.groups.dedup();
        }
    }

    /// Takes the passes.
    pub(crate) fn take(&mut self) -> Vec<Pass> {
        std::mem::take(&mut self.0)
    }
}
