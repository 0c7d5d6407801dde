//! Where a group's gradient is summed: blocks of a mini-batch, fixed by position.

/// The blocks of one update. Group number p of n is in block ⌊p B / n⌋ of B: blocks are whole groups, one after the
/// other, and their sizes differ by one group at most. With fewer groups than blocks each group is a block of its own,
/// and the others are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// A power of two.
    count: usize,
    groups: usize,
}

impl Blocks {
    /// `count` blocks of an update over `groups` groups, of which there is at least one.
    pub(crate) fn new(count: usize, groups: usize) -> Self {
        Self { count, groups }
    }

    /// The block of the group at a position, below the number of groups.
    pub(crate) fn of(self, position: usize) -> usize {
        debug_assert!(position < self.groups, "group {position} of {}", self.groups);
        position * self.count / self.groups
    }
}

/// A sequence's place in the sum of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The block of the update.
    pub(crate) block: usize,
    /// The group. On a CPU sequences of one group may share a micro-batch, those of different groups never do.
    pub(crate) group: usize,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Blocks;

    proptest! {
        #[test]
        fn blocks_are_whole_groups_in_order_and_of_nearly_one_size(height in 0u32..6, groups in 1usize..200) {
            let count = 1 << height;
            let of: Vec<usize> = (0..groups).map(|position| Blocks::new(count, groups).of(position)).collect();
            prop_assert!(of.is_sorted() && of.iter().all(|&block| block < count));
            let sizes = (0..count).map(|block| of.iter().filter(|&&of| of == block).count());
            let least = sizes.clone().min().unwrap();
            let most = sizes.max().unwrap();
            prop_assert!(most - least <= 1, "{of:?}");
        }

        #[test]
        fn consecutive_shares_of_the_blocks_are_consecutive_groups(height in 1u32..6, groups in 1usize..200) {
            // What a rank of two would take.
            let blocks = Blocks::new(1 << height, groups);
            let upper = (0..groups).filter(|&position| blocks.of(position) >= 1 << (height - 1));
            prop_assert_eq!(upper.min().unwrap_or(groups), groups.div_ceil(2));
        }
    }
}
