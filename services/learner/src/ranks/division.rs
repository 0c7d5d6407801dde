//! What of the work is whose.

use std::ops::Range;

use evenkeel_model::{BlockShare, ParameterSpec};

/// Which rank of how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    rank: usize,
    ranks: usize,
}

impl Division {
    /// One process that does everything.
    pub const ALONE: Self = Self { rank: 0, ranks: 1 };

    /// Rank `rank` of `ranks`, the first of which is 0.
    pub fn new(rank: usize, ranks: usize) -> Self {
        debug_assert!(rank < ranks, "rank {rank} of {ranks}");
        Self { rank, ranks }
    }

    /// The number of this rank.
    pub fn rank(self) -> usize {
        self.rank
    }

    /// How many there are.
    pub fn ranks(self) -> usize {
        self.ranks
    }

    /// Whether there are no others.
    pub fn is_alone(self) -> bool {
        self.ranks == 1
    }

    /// Whether this is the rank of a group whose responses any rank may score.
    pub(crate) fn scores(self, group: usize) -> bool {
        group % self.ranks == self.rank
    }

    /// The blocks of an update whose gradients this rank sums: consecutive ones, so that it combines as many of them as
    /// it can.
    pub(crate) fn blocks(self, blocks: usize) -> Range<usize> {
        self.blocks_of(self.rank, blocks)
    }

    /// The blocks whose gradients another rank sums.
    pub(crate) fn blocks_of(self, rank: usize, blocks: usize) -> Range<usize> {
        rank * blocks / self.ranks..(rank + 1) * blocks / self.ranks
    }

    /// This rank's blocks as the model's share.
    pub(crate) fn share(self, blocks: usize) -> BlockShare {
        let own = self.blocks(blocks);
        if self.is_alone() { BlockShare::ALL } else { BlockShare { first: own.start, end: own.end } }
    }

    /// The parameters whose moments each rank has, by their numbers among those that are trained: consecutive whole
    /// tensors, with about the same number of values each.
    pub(crate) fn parameters(self, trained: &[ParameterSpec]) -> Vec<Range<usize>> {
        let sizes = trained.iter().map(|spec| spec.shape.iter().product::<usize>());
        let mut before = vec![0];
        before.extend(sizes.scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        }));
        let total = before[trained.len()];
        // The boundary between tensors that is nearest to an equal share; boundaries ascend with the shares.
        let boundary = |rank: usize| {
            let wanted = total as f64 * rank as f64 / self.ranks as f64;
            let far = |at: &usize| (before[*at] as f64 - wanted).abs();
            (0..=trained.len()).min_by(|one, other| far(one).total_cmp(&far(other))).unwrap_or(0)
        };
        (0..self.ranks).map(|rank| boundary(rank)..boundary(rank + 1)).collect()
    }

    /// The parameters that this rank updates.
    pub(crate) fn own_parameters(self, trained: &[ParameterSpec]) -> Range<usize> {
        self.parameters(trained).swap_remove(self.rank)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_model::ParameterKind;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_block_and_every_parameter_is_of_one_rank_in_their_order(
            sizes in prop::collection::vec(1usize..1000, 1..40),
            ranks in 1usize..9,
            height in 3u32..6,
        ) {
            let spec = |size: usize| {
                ParameterSpec { name: String::new(), shape: vec![size], kind: ParameterKind::Matrix }
            };
            let specs: Vec<_> = sizes.iter().map(|&size| spec(size)).collect();
            let all = Division::new(0, ranks);
            let parameters: Vec<usize> = all.parameters(&specs).into_iter().flatten().collect();
            prop_assert_eq!(parameters, (0..sizes.len()).collect::<Vec<_>>());
            let blocks: Vec<usize> = (0..ranks).flat_map(|rank| all.blocks_of(rank, 1 << height)).collect();
            prop_assert_eq!(blocks, (0..1 << height).collect::<Vec<_>>());
            // No share is larger than an equal one and the largest tensor together.
            let most = sizes.iter().sum::<usize>() as f64 / ranks as f64 + *sizes.iter().max().unwrap() as f64;
            for part in all.parameters(&specs) {
                prop_assert!(sizes[part].iter().sum::<usize>() as f64 <= most);
            }
        }
    }
}
