//! The gradients of one block of a batch, which several threads may add to in the order of its micro-batches.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::gradients::{GradientSet, Sum};
use crate::error::{ModelError, Result};
use crate::kernels::Arrays;
use crate::parameters::{ParameterId, Parameters};

/// The sums of a block. Each takes the block's micro-batches one after the other, so that threads may compute several
/// of them at the same time: a thread waits only where it would add to a sum before its turn.
///
/// A backward pass adds to a tied head at its beginning and to the embedding at its end. Where kernels serve several
/// threads these two have sums of their own, which are added once the block is complete: otherwise every micro-batch
/// would wait for the whole pass before it.
pub(super) struct GradientBlock<G> {
    /// One for each parameter that is trained.
    slots: Vec<Slot<G>>,
    /// The index of the first of these.
    first: usize,
    /// The embedding's own sum, if it is tied to the head and they are summed apart.
    tied_embedding: Option<Slot<G>>,
    embedding: ParameterId,
    /// The first micro-batch that failed: later ones are never given their turn.
    failed: AtomicUsize,
}

impl<G: Send> GradientBlock<G> {
    /// Sums of zero, one for each trained parameter.
    pub(super) fn new<K: Arrays<Gradient = G>>(kernels: &K, parameters: &Parameters) -> Result<Self> {
        let ids = parameters.ids();
        let embedding = ids.embedding;
        let trained = parameters.trained();
        let is_tied = ids.is_tied() && trained.contains(&embedding.index());
        let is_apart = K::SERVES_THREADS;
        let slot = |id: ParameterId| {
            let additions = if id == embedding && is_tied && !is_apart { 2 } else { 1 };
            Ok(Slot::new(kernels.zero_gradient(parameters.get(id))?, additions))
        };
        let mut block = Self {
            first: trained.start,
            slots: trained.map(|id| slot(ParameterId::at(id))).collect::<Result<_>>()?,
            tied_embedding: (is_tied && is_apart).then(|| slot(embedding)).transpose()?,
            embedding,
            failed: AtomicUsize::new(usize::MAX),
        };
        let slots = block.slots.iter_mut().chain(&mut block.tied_embedding);
        kernels.prepare_gradients(slots.map(Slot::gradient_mut));
        Ok(block)
    }

    /// Ends the waiting of all micro-batches after this one.
    pub(super) fn fail(&self, micro_batch: usize) {
        self.failed.fetch_min(micro_batch, Ordering::SeqCst);
        for slot in self.slots.iter().chain(&self.tied_embedding) {
            // Under the lock: a thread that is about to wait has either not read `failed` yet, or waits already.
            let _turns = slot.lock();
            slot.changed.notify_all();
        }
    }

    /// The sums, once every slot is complete.
    pub(super) fn into_sums(self, kernels: &impl Arrays<Gradient = G>) -> Result<GradientSet<G>> {
        let mut sums: Vec<_> = self.slots.into_iter().map(Slot::into_sum).collect();
        if let Some(embedding) = self.tied_embedding.map(Slot::into_sum) {
            // Trained with all the others, from the first parameter on.
            let both = &mut sums[self.embedding.index()];
            kernels.add_gradient(&mut both.gradient, embedding.gradient)?;
            both.is_reached &= embedding.is_reached;
        }
        Ok(GradientSet::new(sums))
    }
}

/// The sum of a parameter.
struct Slot<G> {
    turns: Mutex<Turns<G>>,
    changed: Condvar,
    /// How often each micro-batch adds to it.
    additions: usize,
}

struct Turns<G> {
    gradient: G,
    /// How often something was added.
    done: usize,
}

impl<G> Slot<G> {
    fn new(gradient: G, additions: usize) -> Self {
        Self { turns: Mutex::new(Turns { gradient, done: 0 }), changed: Condvar::new(), additions }
    }

    fn lock(&self) -> MutexGuard<'_, Turns<G>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gradient_mut(&mut self) -> &mut G {
        &mut self.turns.get_mut().unwrap_or_else(PoisonError::into_inner).gradient
    }

    fn into_sum(self) -> Sum<G> {
        let Turns { gradient, done } = self.turns.into_inner().unwrap_or_else(PoisonError::into_inner);
        Sum { gradient, is_reached: done > 0 }
    }
}

/// What a micro-batch adds its gradients to: each parameter's sum, when all micro-batches before it have added to it.
pub(crate) struct BlockSums<'a, G> {
    block: &'a GradientBlock<G>,
    micro_batch: usize,
}

impl<'a, G: Send> BlockSums<'a, G> {
    /// For the block's micro-batch of this number, from 0.
    pub(super) fn new(block: &'a GradientBlock<G>, micro_batch: usize) -> Self {
        Self { block, micro_batch }
    }

    /// The sum to add a parameter's gradient to, as soon as it is this micro-batch's turn; `None` for a parameter that
    /// is frozen.
    ///
    /// # Errors
    /// [`ModelError::Abandoned`] if a micro-batch before this one has failed.
    pub(crate) fn of(&self, id: ParameterId) -> Result<Option<Reached<'_, G>>> {
        self.slot(id).map(|slot| self.reach(slot)).transpose()
    }

    /// The sum to add the embedding's gradient to, as soon as it is this micro-batch's turn; `None` where it is frozen.
    pub(crate) fn of_embedding(&self) -> Result<Option<Reached<'_, G>>> {
        let slot = self.block.tied_embedding.as_ref().or_else(|| self.slot(self.block.embedding));
        slot.map(|slot| self.reach(slot)).transpose()
    }

    fn slot(&self, id: ParameterId) -> Option<&'a Slot<G>> {
        self.block.slots.get(id.index().checked_sub(self.block.first)?)
    }

    fn reach<'s>(&self, slot: &'s Slot<G>) -> Result<Reached<'s, G>> {
        let mut turns = slot.lock();
        while turns.done / slot.additions != self.micro_batch {
            if self.block.failed.load(Ordering::SeqCst) < self.micro_batch {
                return Err(ModelError::Abandoned);
            }
            turns = slot.changed.wait(turns).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(Reached { turns, changed: &slot.changed })
    }
}

/// A parameter's sum, for one addition. When it is dropped, it is the next micro-batch's turn.
pub(crate) struct Reached<'a, G> {
    turns: MutexGuard<'a, Turns<G>>,
    changed: &'a Condvar,
}

impl<G> Deref for Reached<'_, G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.turns.gradient
    }
}

impl<G> DerefMut for Reached<'_, G> {
    fn deref_mut(&mut self) -> &mut G {
        &mut self.turns.gradient
    }
}

impl<G> Drop for Reached<'_, G> {
    fn drop(&mut self) {
        self.turns.done += 1;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::config::tests::tiny;
    use crate::kernels::cpu::Cpu;

    fn block() -> (Cpu, Parameters, GradientBlock<Vec<f32>>) {
        let cpu = Cpu::new().unwrap();
        let parameters = Parameters::random(&tiny(), 0, 0.1, &Device::Cpu).unwrap();
        let block = GradientBlock::new(&cpu, &parameters).unwrap();
        (cpu, parameters, block)
    }

    #[test]
    fn a_parameter_that_no_backward_pass_reached_is_refused_by_name() {
        // The embedding is tied to the head, which does not reach it.
        for missing in 0..=block().1.specs().len() {
            let (cpu, parameters, block) = block();
            let count = parameters.specs().len();
            let sums = BlockSums::new(&block, 0);
            for id in (0..count).filter(|&id| id != missing) {
                sums.of(ParameterId::at(id)).unwrap().unwrap()[0] += 1.0;
            }
            if missing < count {
                sums.of_embedding().unwrap().unwrap()[0] += 1.0;
            }
            let error = block.into_sums(&cpu).unwrap().into_tensors(&cpu, &parameters).unwrap_err();
            let name = &parameters.specs()[missing % count].name;
            assert!(matches!(error, ModelError::NoGradient(ref found) if found == name), "{name}: {error}");
        }
    }

    #[test]
    fn micro_batches_add_in_their_order_whichever_thread_is_first() {
        let (_, _, block) = block();
        std::thread::scope(|scope| {
            // Each multiplies what is there by ten before it adds: another order is another number.
            for micro_batch in (0..6).rev() {
                let block = &block;
                scope.spawn(move || {
                    let sums = BlockSums::new(block, micro_batch);
                    let mut sum = sums.of(ParameterId::at(0)).unwrap().unwrap();
                    sum[0] = 10.0 * sum[0] + (micro_batch + 1) as f32;
                });
            }
        });
        assert_eq!(block.slots[0].lock().gradient[0], 123_456.0);
    }

    #[test]
    fn after_a_failure_later_micro_batches_are_given_up_and_earlier_ones_go_on() {
        let (_, _, block) = block();
        std::thread::scope(|scope| {
            let later = scope.spawn(|| BlockSums::new(&block, 2).of(ParameterId::at(0)).map(drop));
            block.fail(1);
            assert!(matches!(later.join().unwrap(), Err(ModelError::Abandoned)));
        });
        BlockSums::new(&block, 0).of(ParameterId::at(0)).unwrap().unwrap();
    }
}
