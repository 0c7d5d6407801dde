//! A sum over a fixed number of places, combined in a tree that only their positions decide.
//!
//! ```text
//! 0   1   2   3   4   5   6   7
//!  \ /     \ /     \ /     \ /
//!   +       +       +       +
//!     \   /           \   /
//!       +               +
//!            \     /
//!               +
//! ```
//!
//! A place may be empty; its neighbour's sum then goes up as it is.

use std::collections::BTreeMap;

/// The sums that wait for their neighbours.
pub(super) struct Tree<T> {
    /// From the leaves to the root: what is complete and has not been combined, by its position in the level.
    levels: Vec<BTreeMap<usize, Option<T>>>,
}

impl<T> Tree<T> {
    /// A tree over a power of two of places.
    pub(super) fn new(places: usize) -> Self {
        debug_assert!(places.is_power_of_two(), "{places} places");
        Self { levels: (0..=places.trailing_zeros()).map(|_| BTreeMap::new()).collect() }
    }

    /// Adds the sum of a place, once, in any order of places, and combines what has become complete by it. `add` is given the sum of the
    /// lower places first.
    pub(super) fn close<E>(
        &mut self,
        place: usize,
        sum: Option<T>,
        mut add: impl FnMut(T, T) -> Result<T, E>,
    ) -> Result<(), E> {
        let (mut position, mut sum) = (place, sum);
        let last = self.levels.len() - 1;
        for level in 0..last {
            let Some(neighbour) = self.levels[level].remove(&(position ^ 1)) else {
                self.levels[level].insert(position, sum);
                return Ok(());
            };
            let (lower, upper) = if position % 2 == 0 { (sum, neighbour) } else { (neighbour, sum) };
            sum = match (lower, upper) {
                (Some(lower), Some(upper)) => Some(add(lower, upper)?),
                (one, None) | (None, one) => one,
            };
            position /= 2;
        }
        self.levels[last].insert(position, sum);
        Ok(())
    }

    /// The sum over all places, once each is closed; `None` if all are empty.
    pub(super) fn into_root(mut self) -> Option<T> {
        self.levels.pop().and_then(|mut root| root.remove(&0)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    /// What was added to what, in words.
    fn text(places: &[Option<usize>], order: &[usize]) -> Option<String> {
        let mut tree = Tree::new(places.len());
        for &place in order {
            let sum = places[place].map(|value| value.to_string());
            let Ok(()) = tree.close(place, sum, |a, b| Ok::<_, Infallible>(format!("({a}+{b})")));
        }
        tree.into_root()
    }

    /// The definition: halves of halves.
    fn defined(places: &[Option<usize>]) -> Option<String> {
        if let [place] = places {
            return place.map(|value| value.to_string());
        }
        let (lower, upper) = places.split_at(places.len() / 2);
        match (defined(lower), defined(upper)) {
            (Some(lower), Some(upper)) => Some(format!("({lower}+{upper})")),
            (one, None) | (None, one) => one,
        }
    }

    #[test]
    fn eight_sums_are_combined_in_pairs_of_pairs() {
        let all: Vec<_> = (0..8).map(Some).collect();
        assert_eq!(text(&all, &[0, 1, 2, 3, 4, 5, 6, 7]).unwrap(), "(((0+1)+(2+3))+((4+5)+(6+7)))");
        assert_eq!(text(&[Some(3)], &[0]).unwrap(), "3");
        assert_eq!(text(&[None, None], &[1, 0]), None);
    }

    proptest! {
        #[test]
        fn the_order_of_additions_depends_on_positions_and_not_on_when_each_sum_is_complete(
            height in 0u32..5,
            empty in prop::collection::vec(any::<bool>(), 16),
            order in Just((0usize..16).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let count = 1 << height;
            let places: Vec<_> = (0..count).map(|place| (!empty[place]).then_some(place)).collect();
            let order: Vec<_> = order.into_iter().filter(|&place| place < count).collect();
            prop_assert_eq!(text(&places, &order), defined(&places));
        }

        #[test]
        fn consecutive_halves_can_be_summed_apart_and_combined_as_ranks_would(height in 1u32..5, split in 0u32..4) {
            let (count, ranks) = (1usize << height, 1usize << split.min(height));
            let all: Vec<_> = (0..count).map(Some).collect();
            let parts: Vec<_> = all.chunks(count / ranks).map(|part| defined(part).unwrap()).collect();
            let mut tree = Tree::new(ranks);
            for (rank, part) in parts.into_iter().enumerate().rev() {
                let Ok(()) = tree.close(rank, Some(part), |a, b| Ok::<_, Infallible>(format!("({a}+{b})")));
            }
            prop_assert_eq!(tree.into_root(), defined(&all));
        }
    }
}
