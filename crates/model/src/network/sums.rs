//! Gradients summed in blocks of a batch: which thread computes which micro-batch, and when a block's sum is combined with others.
//!
//! Nothing here decides a bit: within a block sums take micro-batches in order ([`Block`]), and blocks are combined by their positions
//! ([`Tree`]). What is decided is memory: as many gradients exist as blocks are begun or wait for a neighbour.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::NetworkOptions;
use super::block::{Block, BlockSums};
use super::gradients::GradientSet;
use super::tree::Tree;
use super::workers::Workers;
use crate::error::{ModelError, Result};
use crate::kernels::Arrays;
use crate::pack::Packed;
use crate::parameters::Parameters;

/// Most blocks of a batch.
const MOST_BLOCKS: usize = 1024;

/// The gradients that have to be in memory at a time, for blocks one after the other: one that is being summed, and one at each level of
/// the tree.
pub const fn fewest_gradients(blocks: usize) -> usize {
    blocks.ilog2() as usize + 1
}

/// The gradients that are in memory at a time at most, if every thread works on its own block.
pub const fn most_gradients(blocks: usize, threads: usize) -> usize {
    let fewest = fewest_gradients(blocks);
    let wanted = fewest.saturating_add(threads.saturating_sub(1));
    if wanted < blocks { wanted } else { blocks }
}

/// Refuses numbers of blocks or gradients that cannot be summed.
pub(super) fn validate_blocks(options: &NetworkOptions) -> Result<()> {
    let blocks = options.gradient_blocks;
    if !blocks.is_power_of_two() || blocks > MOST_BLOCKS {
        return Err(ModelError::input("gradient_blocks", blocks, format!("a power of two up to {MOST_BLOCKS}")));
    }
    let fewest = fewest_gradients(blocks);
    match options.gradients_at_once >= fewest {
        true => Ok(()),
        false => Err(ModelError::input("gradients_at_once", options.gradients_at_once, format!("{fewest} or more"))),
    }
}

/// The sums of a batch.
pub(super) struct Sums<G> {
    blocks: usize,
    /// Most gradients at a time.
    limit: usize,
    tree: Tree<GradientSet<G>>,
    /// The first block that has not been begun.
    next: usize,
    /// The last block that was begun: a later call may go on with it.
    last: Option<Begun<G>>,
    /// Gradients in memory.
    live: usize,
}

/// A block whose sum is not complete.
struct Begun<G> {
    number: usize,
    block: Arc<Block<G>>,
    /// Micro-batches of the block in earlier calls.
    before: usize,
}

impl<G: Send + Sync> Sums<G> {
    pub(super) fn new(options: &NetworkOptions) -> Self {
        let blocks = options.gradient_blocks;
        let limit = most_gradients(blocks, options.threads).min(options.gradients_at_once);
        Self { blocks, limit, tree: Tree::new(blocks), next: 0, last: None, live: 0 }
    }

    /// Runs `train` on every micro-batch, given what to add its gradients to.
    ///
    /// # Errors
    /// Blocks out of order, or an error of a micro-batch: of the first one, if several fail.
    pub(super) fn pass<K: Arrays<Gradient = G>>(
        mut self,
        kernels: &K,
        parameters: &Parameters,
        workers: &Workers,
        batches: &[Packed],
        train: impl Fn(usize, &BlockSums<'_, G>) -> Result<()> + Sync,
    ) -> Result<Self> {
        let mut parts = self.parts(batches)?;
        let Some(first) = parts.first_mut() else { return Ok(self) };
        let mut begun = 0;
        match self.last.take() {
            Some(last) if last.number == first.number => {
                (first.block, first.before, begun) = (Some(last.block), last.before, 1);
            }
            Some(last) => self.close(kernels, last.number, Some(last.block))?,
            None => {}
        }
        let state = Mutex::new(PassState { sums: self, parts, begun, failed: None });
        let pass = Pass { kernels, parameters, state, changed: Condvar::new() };
        workers.everywhere(|| pass.work(&train));
        let PassState { mut sums, parts, failed, .. } = pass.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, error)) = failed {
            return Err(error);
        }
        // The last one may go on in the next call.
        sums.last = parts.into_iter().next_back().and_then(Part::into_begun);
        Ok(sums)
    }

    /// The sum over all blocks; `None` if there was no micro-batch.
    pub(super) fn finish(mut self, kernels: &impl Arrays<Gradient = G>) -> Result<Option<GradientSet<G>>> {
        if let Some(Begun { number, block, .. }) = self.last.take() {
            self.close(kernels, number, Some(block))?;
        }
        for empty in self.next..self.blocks {
            self.close(kernels, empty, None)?;
        }
        Ok(self.tree.into_root())
    }

    /// The parts of a call, one for each block.
    fn parts(&self, batches: &[Packed]) -> Result<Vec<Part<G>>> {
        let mut parts: Vec<Part<G>> = Vec::new();
        let mut first = self.last.as_ref().map_or(self.next, |last| last.number);
        for (index, batch) in batches.iter().enumerate() {
            let number = batch.block();
            if number < first || number >= self.blocks {
                let allowed = format!("{first} to {}, in ascending order", self.blocks - 1);
                return Err(ModelError::input("block of a micro-batch", number, allowed));
            }
            match parts.last_mut().filter(|part| part.number == number) {
                Some(part) => part.micro_batches.end += 1,
                None => parts.push(Part::new(number, index)),
            }
            first = number;
        }
        Ok(parts)
    }

    /// Begins a block. All before it that were not begun are empty.
    fn begin<K: Arrays<Gradient = G>>(
        &mut self,
        kernels: &K,
        parameters: &Parameters,
        number: usize,
    ) -> Result<Arc<Block<G>>> {
        for empty in self.next..number {
            self.close(kernels, empty, None)?;
        }
        self.next = number + 1;
        self.live += 1;
        Ok(Arc::new(Block::new(kernels, parameters)?))
    }

    /// Adds the sum of a block that is complete to the tree.
    fn close(
        &mut self,
        kernels: &impl Arrays<Gradient = G>,
        number: usize,
        block: Option<Arc<Block<G>>>,
    ) -> Result<()> {
        let block = block.map(|block| Arc::into_inner(block).expect("no thread works on a complete block"));
        let sums = block.map(|block| block.into_sums(kernels)).transpose()?;
        self.tree.close(number, sums, |lower, upper| {
            self.live -= 1;
            lower.plus(kernels, upper)
        })
    }
}

/// The micro-batches of one block in a call.
struct Part<G> {
    number: usize,
    micro_batches: Range<usize>,
    /// Once it has begun.
    block: Option<Arc<Block<G>>>,
    /// Micro-batches of the block in earlier calls.
    before: usize,
    /// Micro-batches that a thread has taken.
    taken: usize,
    /// Micro-batches that are summed.
    done: usize,
}

impl<G> Part<G> {
    /// A part of one micro-batch.
    fn new(number: usize, micro_batch: usize) -> Self {
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
struct Pass<'a, K: Arrays> {
    kernels: &'a K,
    parameters: &'a Parameters,
    state: Mutex<PassState<K::Gradient>>,
    changed: Condvar,
}

struct PassState<G> {
    sums: Sums<G>,
    parts: Vec<Part<G>>,
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

impl<K: Arrays> Pass<'_, K> {
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

    /// The next micro-batch for a thread that has worked on a part: of the same block, whose sums are in its cache; of a new one, if there is
    /// memory for it; or of the block that the fewest threads work on.
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
                let (index, number) = (part.micro_batches.start + part.taken, part.before + part.taken);
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
        let Part { number, ref micro_batches, .. } = *state.parts.get(part)?;
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
    block: Option<Arc<Block<K::Gradient>>>,
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
        // Whoever completes the block is its only owner.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use candle_core::Tensor;
    use proptest::prelude::*;

    use super::*;
    use crate::config::tests::tiny;
    use crate::parameters::ParameterId;

    /// Gradients in words, and how many there are.
    #[derive(Default)]
    struct Words {
        live: Arc<AtomicUsize>,
        peak: AtomicUsize,
    }

    /// What was added to a gradient, in its order.
    struct Text {
        text: String,
        live: Arc<AtomicUsize>,
    }

    impl Drop for Text {
        fn drop(&mut self) {
            self.live.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl Arrays for Words {
        type Matrix = ();
        type Gradient = Text;
        const SERVES_THREADS: bool = true;

        fn zero_gradient(&self, _: &Tensor) -> Result<Text> {
            let live = self.live.fetch_add(1, Ordering::SeqCst) + 1;
            self.peak.fetch_max(live, Ordering::SeqCst);
            Ok(Text { text: String::new(), live: Arc::clone(&self.live) })
        }

        fn add_gradient(&self, into: &mut Text, other: &Text) -> Result<()> {
            into.text = format!("[{} + {}]", into.text, other.text);
            Ok(())
        }

        fn gradient_tensor(&self, gradient: Text, _: &Tensor) -> Result<Tensor> {
            Ok(Tensor::from_slice(gradient.text.as_bytes(), gradient.text.len(), &candle_core::Device::Cpu)?)
        }

        fn to_host(&self, (): &()) -> Result<Vec<f32>> {
            Ok(Vec::new())
        }
    }

    fn options(blocks: usize, threads: usize) -> NetworkOptions {
        NetworkOptions { gradient_blocks: blocks, threads, ..NetworkOptions::default() }
    }

    /// Micro-batches of these blocks, in calls that end before these indices.
    fn summed(blocks: &[usize], ends: &[usize], options: &NetworkOptions) -> Result<(Vec<Vec<u8>>, usize)> {
        let kernels = Words::default();
        let workers = Workers::new(options.threads)?;
        let parameters = Parameters::described(&tiny())?;
        let batches: Vec<_> = blocks.iter().map(|&block| Packed::default().in_block(block)).collect();
        let mut sums = Sums::new(options);
        let mut first = 0;
        for end in ends.iter().copied().chain([batches.len()]) {
            sums = sums.pass(&kernels, &parameters, &workers, &batches[first..end.max(first)], |index, sums| {
                for id in (0..parameters.specs().len()).map(ParameterId::at) {
                    sums.of(id)?.text += &format!(" {}", first + index);
                }
                sums.of_embedding()?.text += &format!(" {}e", first + index);
                Ok(())
            })?;
            first = end.max(first);
        }
        let sum = sums.finish(&kernels)?.map(|sum| sum.into_tensors(&kernels, &parameters)).transpose()?;
        let bytes = sum.into_iter().flatten().map(|tensor| tensor.to_vec1::<u8>()).collect::<Result<Vec<_>, _>>()?;
        // The embedding's own sum counts as one more parameter.
        Ok((bytes, kernels.peak.load(Ordering::SeqCst).div_ceil(parameters.specs().len() + 1)))
    }

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn blocks_take_their_micro_batches_in_order_and_are_combined_by_position() {
        let (sums, _) = summed(&[0, 0, 1, 3, 3, 3], &[], &options(4, 1)).unwrap();
        assert_eq!(text(&sums[1]), "[[ 0 1 +  2] +  3 4 5]");
        // The tied embedding comes after the head.
        assert_eq!(text(&sums[0]), "[[[ 0 1 +  0e 1e] + [ 2 +  2e]] + [ 3 4 5 +  3e 4e 5e]]");
    }

    #[test]
    fn blocks_come_in_ascending_order_and_below_their_number() {
        for (blocks, ends) in [(&[1, 0][..], &[][..]), (&[1, 0], &[1]), (&[0, 4], &[])] {
            let error = summed(blocks, ends, &options(4, 1)).unwrap_err().to_string();
            assert!(error.starts_with("block of a micro-batch is "), "{error}");
        }
    }

    #[test]
    fn numbers_of_blocks_that_make_no_tree_are_refused() {
        for blocks in [0, 3, 2048] {
            assert!(validate_blocks(&options(blocks, 1)).unwrap_err().to_string().starts_with("gradient_blocks is"));
        }
        let few = NetworkOptions { gradients_at_once: 3, ..options(8, 1) };
        assert_eq!(validate_blocks(&few).unwrap_err().to_string(), "gradients_at_once is 3, allowed: 4 or more");
        validate_blocks(&NetworkOptions { gradients_at_once: 1, ..options(1, 9) }).unwrap();
    }

    #[test]
    fn one_thread_needs_a_gradient_for_each_level_and_more_threads_one_each_up_to_the_blocks() {
        let at_once = |blocks| [1, 2, 4, 64].map(|threads| most_gradients(blocks, threads));
        assert_eq!(at_once(1), [1; 4]);
        assert_eq!(at_once(2), [2; 4]);
        assert_eq!(at_once(8), [4, 5, 7, 8]);
    }

    #[test]
    fn of_several_failures_the_first_is_returned_and_no_thread_waits_for_it() {
        let kernels = Words::default();
        let workers = Workers::new(4).unwrap();
        let parameters = Parameters::described(&tiny()).unwrap();
        let batches: Vec<_> = (0..12).map(|_| Packed::default().in_block(0)).collect();
        let failed = Sums::new(&options(1, 4)).pass(&kernels, &parameters, &workers, &batches, |index, sums| {
            drop(sums.of(ParameterId::at(0))?);
            match index {
                2 | 3 => Err(ModelError::Loss(format!("micro-batch {index}").into())),
                _ => sums.of(ParameterId::at(1)).map(drop),
            }
        });
        assert_eq!(failed.err().unwrap().to_string(), "micro-batch 2");
    }

    #[test]
    fn a_thread_that_panics_leaves_no_other_waiting() {
        let kernels = Words::default();
        let workers = Workers::new(2).unwrap();
        let parameters = Parameters::described(&tiny()).unwrap();
        let batches: Vec<_> = (0..6).map(|_| Packed::default().in_block(0)).collect();
        let pass = || {
            Sums::new(&options(1, 2)).pass(&kernels, &parameters, &workers, &batches, |index, sums| {
                assert!(index != 1, "out of luck");
                sums.of(ParameterId::at(0)).map(drop)
            })
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(pass)).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn threads_calls_and_memory_decide_nothing_but_how_many_gradients_there_are_at_a_time(
            height in 0u32..4,
            mut places in prop::collection::vec(0usize..8, 1..40),
            mut ends in prop::collection::vec(0usize..40, 0..4),
            threads in 1usize..9,
            spare in 0usize..4,
        ) {
            let blocks = 1 << height;
            places.iter_mut().for_each(|place| *place %= blocks);
            places.sort_unstable();
            ends.iter_mut().for_each(|end| *end = (*end).min(places.len()));
            ends.sort_unstable();
            let (expected, alone) = summed(&places, &[], &options(blocks, 1)).unwrap();
            prop_assert!(alone <= fewest_gradients(blocks), "{alone} of {blocks}");
            let limited = NetworkOptions { gradients_at_once: fewest_gradients(blocks) + spare, ..options(blocks, threads) };
            let (sums, peak) = summed(&places, &ends, &limited).unwrap();
            prop_assert_eq!(sums, expected);
            prop_assert!(peak <= limited.gradients_at_once.min(most_gradients(blocks, threads)), "{} of {:?}", peak, limited);
        }
    }
}
