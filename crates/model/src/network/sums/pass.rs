//! Which thread computes which micro-batch, and when a block is complete.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::super::block::{BlockSums, GradientBlock};
use super::super::workers::Workers;
use super::{Begun, Sums};
use crate::error::{ModelError, Result};
use crate::kernels::Arrays;
use crate::parameters::Parameters;

/// The micro-batches of one block in a call.
pub(super) struct BlockPart<G> {
    pub(super) number: usize,
    pub(super) micro_batches: Range<usize>,
    /// Once it has begun.
    pub(super) block: Option<Arc<GradientBlock<G>>>,
    /// Micro-batches of the block in earlier calls.
    pub(super) before: usize,
    /// Micro-batches that a thread has taken.
    taken: usize,
    /// Micro-batches that are summed.
    done: usize,
}

impl<G> BlockPart<G> {
    /// A part of one micro-batch.
    pub(super) fn new(number: usize, micro_batch: usize) -> Self {
        Self { number, micro_batches: micro_batch..micro_batch + 1, block: None, before: 0, taken: 0, done: 0 }
    }

    /// Whether a thread may take another of its micro-batches.
    fn has_more(&self) -> bool {
        self.block.is_some() && self.taken < self.micro_batches.len()
    }

    fn is_done(&self) -> bool {
        self.done == self.micro_batches.len()
    }

    fn into_begun(self) -> Option<Begun<G>> {
        let before = self.before + self.micro_batches.len();
        Some(Begun { number: self.number, block: self.block?, before })
    }
}

/// A call of [`Sums::pass`], as its threads see it.
pub(super) struct Pass<'a, K: Arrays> {
    kernels: &'a K,
    parameters: &'a Parameters,
    state: Mutex<PassState<K::Gradient>>,
    changed: Condvar,
}

struct PassState<G> {
    sums: Sums<G>,
    parts: Vec<BlockPart<G>>,
    /// The parts that have begun.
    begun: usize,
    /// The first micro-batch that failed, and its error: nothing more is begun.
    failed: Option<(usize, ModelError)>,
}

impl<G> PassState<G> {
    fn fail(&mut self, micro_batch: usize, error: ModelError) {
        if self.failed.as_ref().is_none_or(|(first, _)| micro_batch < *first) {
            self.failed = Some((micro_batch, error));
        }
    }
}

impl<'a, K: Arrays> Pass<'a, K> {
    /// A pass over these parts, of which `begun` continue a block.
    pub(super) fn new(
        kernels: &'a K,
        parameters: &'a Parameters,
        sums: Sums<K::Gradient>,
        parts: Vec<BlockPart<K::Gradient>>,
        begun: usize,
    ) -> Self {
        let state = Mutex::new(PassState { sums, parts, begun, failed: None });
        Self { kernels, parameters, state, changed: Condvar::new() }
    }

    /// Runs `train` on every micro-batch, and returns the sums.
    pub(super) fn run(
        self,
        workers: &Workers,
        train: &(impl Fn(usize, &BlockSums<'_, K::Gradient>) -> Result<()> + Sync),
    ) -> Result<Sums<K::Gradient>> {
        workers.everywhere(|| self.work(train));
        let PassState { mut sums, parts, failed, .. } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, error)) = failed {
            return Err(error);
        }
        // The last block may go on in the next call.
        sums.last = parts.into_iter().next_back().and_then(BlockPart::into_begun);
        Ok(sums)
    }

    /// Takes micro-batches until none is left.
    fn work(&self, train: &(impl Fn(usize, &BlockSums<'_, K::Gradient>) -> Result<()> + Sync)) {
        let mut part = None;
        while let Some(mut taken) = self.take(part) {
            part = Some(taken.part);
            taken.result = taken.block.as_ref().map(|block| train(taken.index, &BlockSums::new(block, taken.number)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, PassState<K::Gradient>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next micro-batch for a thread that has worked on a part: of the same block, whose sums are in its cache; of
    /// a new one, if there is memory for it; or of the block that the fewest threads work on.
    fn take(&self, last: Option<usize>) -> Option<Taken<'_, K>> {
        let mut state = self.lock();
        while state.failed.is_none() {
            let own = last.filter(|&part| state.parts[part].has_more());
            let new = if own.is_none() { self.begin(&mut state) } else { None };
            let shared = |state: &PassState<K::Gradient>| {
                let open = (0..state.begun).filter(|&part| state.parts[part].has_more());
                open.min_by_key(|&part| state.parts[part].taken - state.parts[part].done)
            };
            if let Some(at) = own.or(new).or_else(|| shared(&state)) {
                let part = &mut state.parts[at];
                let index = part.micro_batches.start + part.taken;
                let number = part.before + part.taken;
                part.taken += 1;
                return Some(Taken { pass: self, part: at, index, number, block: part.block.clone(), result: None });
            }
            if state.begun == state.parts.len() || state.failed.is_some() {
                break;
            }
            // A block has to be complete before there is memory for another.
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// Begins the next block, if there is one, and memory for it.
    fn begin(&self, state: &mut PassState<K::Gradient>) -> Option<usize> {
        let part = state.begun;
        let BlockPart { number, ref micro_batches, .. } = *state.parts.get(part)?;
        let first = micro_batches.start;
        if state.sums.live >= state.sums.limit {
            return None;
        }
        match state.sums.begin(self.kernels, self.parameters, number) {
            Ok(block) => {
                (state.parts[part].block, state.begun) = (Some(block), part + 1);
                Some(part)
            }
            Err(error) => {
                state.fail(first, error);
                self.changed.notify_all();
                None
            }
        }
    }
}

/// A micro-batch that a thread works on, until it is dropped.
struct Taken<'a, K: Arrays> {
    pass: &'a Pass<'a, K>,
    part: usize,
    /// Index in the call.
    index: usize,
    /// Number in the block.
    number: usize,
    block: Option<Arc<GradientBlock<K::Gradient>>>,
    /// Absent if the thread panicked.
    result: Option<Result<()>>,
}

impl<K: Arrays> Drop for Taken<'_, K> {
    fn drop(&mut self) {
        let block = self.block.take();
        let error = match self.result.take() {
            Some(Ok(())) => None,
            Some(Err(error)) => Some(error),
            None => Some(ModelError::Abandoned),
        };
        if let (Some(block), Some(_)) = (&block, &error) {
            block.fail(self.number);
        }
        // The thread that completes the block is its only owner.
        drop(block);
        let mut state = self.pass.lock();
        match error {
            Some(error) => state.fail(self.index, error),
            None => {
                let is_last = self.part + 1 == state.parts.len();
                let part = &mut state.parts[self.part];
                part.done += 1;
                if part.is_done() && !is_last {
                    let number = part.number;
                    let block = part.block.take();
                    let first = part.micro_batches.start;
                    if let Err(error) = state.sums.close(self.pass.kernels, number, block) {
                        state.fail(first, error);
                    }
                }
            }
        }
        self.pass.changed.notify_all();
    }
}
