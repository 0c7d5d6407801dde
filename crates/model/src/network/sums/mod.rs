//! Gradients summed in blocks of a batch.
//!
//! Within a block sums take micro-batches in order ([`GradientBlock`]), and blocks are combined by their positions
//! ([`Tree`]). Which thread computes what (`pass.rs`) decides no bit, but how many gradients exist at a time: those of
//! blocks that are begun or wait for a neighbour.

mod pass;

use std::ops::Range;
use std::sync::Arc;

use super::NetworkOptions;
use super::block::{BlockSums, GradientBlock};
use super::gradients::GradientSet;
use super::tree::{Tree, TreeNode};
use super::workers::Workers;
use crate::error::{ModelError, Result};
use crate::kernels::Arrays;
use crate::pack::Packed;
use crate::parameters::Parameters;
use pass::{BlockPart, Pass};

/// Most blocks of a batch.
const MOST_BLOCKS: usize = 1024;

/// The gradients that have to be in memory at a time, for blocks one after the other: one that is being summed, and one
/// at each level of the tree.
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
    let BlockShare { first, end } = options.share;
    if first > end.min(blocks) {
        return Err(ModelError::input("share of the blocks", first, format!("at most {}", end.min(blocks))));
    }
    let fewest = fewest_gradients(blocks);
    if options.gradients_at_once >= fewest {
        Ok(())
    } else {
        Err(ModelError::input("gradients_at_once", options.gradients_at_once, format!("{fewest} or more")))
    }
}

/// The blocks of a batch that a network sums: others are summed elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShare {
    /// Number of the first block.
    pub first: usize,
    /// The first that is not its own any more; beyond the last block means all that follow.
    pub end: usize,
}

impl BlockShare {
    /// The share of a network that sums all blocks.
    pub const ALL: Self = Self { first: 0, end: usize::MAX };

    fn of(self, blocks: usize) -> Range<usize> {
        self.first..self.end.min(blocks)
    }
}

/// The sums of a batch.
pub(super) struct Sums<G> {
    /// Blocks that are summed here.
    blocks: Range<usize>,
    /// Most gradients at a time.
    limit: usize,
    tree: Tree<GradientSet<G>>,
    /// The first block that has not been begun.
    next: usize,
    /// The last block that was begun: a later call may continue it.
    last: Option<Begun<G>>,
    /// Number of gradients in memory.
    live: usize,
}

/// A block whose sum is not complete.
struct Begun<G> {
    number: usize,
    block: Arc<GradientBlock<G>>,
    /// Micro-batches of the block in earlier calls.
    before: usize,
}

impl<G: Send + Sync> Sums<G> {
    pub(super) fn new(options: &NetworkOptions) -> Self {
        let blocks = options.gradient_blocks;
        let limit = most_gradients(blocks, options.threads).min(options.gradients_at_once);
        let own = options.share.of(blocks);
        Self { next: own.start, blocks: own, limit, tree: Tree::new(blocks), last: None, live: 0 }
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
        Pass::new(kernels, parameters, self, parts, begun).run(workers, &train)
    }

    /// The sum over all blocks; `None` if there was no micro-batch.
    pub(super) fn finish(self, kernels: &impl Arrays<Gradient = G>) -> Result<Option<GradientSet<G>>> {
        Ok(self.closed(kernels)?.tree.into_root())
    }

    /// The sums of the nodes that the own blocks are made of.
    pub(super) fn finish_share(
        self,
        kernels: &impl Arrays<Gradient = G>,
    ) -> Result<Vec<(TreeNode, Option<GradientSet<G>>)>> {
        let own = self.blocks.clone();
        Ok(self.closed(kernels)?.tree.into_nodes(own))
    }

    /// The sums once no further micro-batch comes: remaining blocks are closed.
    fn closed(mut self, kernels: &impl Arrays<Gradient = G>) -> Result<Self> {
        if let Some(Begun { number, block, .. }) = self.last.take() {
            self.close(kernels, number, Some(block))?;
        }
        for empty in self.next..self.blocks.end {
            self.close(kernels, empty, None)?;
        }
        self.next = self.blocks.end;
        Ok(self)
    }

    /// The parts of a call, one for each block.
    fn parts(&self, batches: &[Packed]) -> Result<Vec<BlockPart<G>>> {
        let mut parts: Vec<BlockPart<G>> = Vec::new();
        let mut first = self.last.as_ref().map_or(self.next, |last| last.number);
        for (index, batch) in batches.iter().enumerate() {
            let number = batch.block();
            if number < first || number >= self.blocks.end {
                let allowed = format!("{first} to {}, in ascending order", self.blocks.end.saturating_sub(1));
                return Err(ModelError::input("block of a micro-batch", number, allowed));
            }
            match parts.last_mut().filter(|part| part.number == number) {
                Some(part) => part.micro_batches.end += 1,
                None => parts.push(BlockPart::new(number, index)),
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
    ) -> Result<Arc<GradientBlock<G>>> {
        for empty in self.next..number {
            self.close(kernels, empty, None)?;
        }
        self.next = number + 1;
        self.live += 1;
        Ok(Arc::new(GradientBlock::new(kernels, parameters)?))
    }

    /// Adds the sum of a block that is complete to the tree.
    fn close(
        &mut self,
        kernels: &impl Arrays<Gradient = G>,
        number: usize,
        block: Option<Arc<GradientBlock<G>>>,
    ) -> Result<()> {
        let block = block.map(|block| Arc::into_inner(block).expect("no thread works on a complete block"));
        let sums = block.map(|block| block.into_sums(kernels)).transpose()?;
        self.tree.close(number, sums, |lower, upper| {
            self.live -= 1;
            lower.plus(kernels, upper)
        })
    }
}

#[cfg(test)]
mod tests;
