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
use std::ops::Range;

/// A sum over 2^level places that lie beside each other: those from `position` times 2^level on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeNode {
    /// 0 for a single place.
    pub level: usize,
    /// Among those of its level.
    pub position: usize,
}

/// The largest nodes that a range of places is made of, in the order of places.
pub fn nodes_of(places: Range<usize>) -> Vec<TreeNode> {
    let mut nodes = Vec::new();
    let mut first = places.start;
    while first < places.end {
        let aligned = if first == 0 { usize::BITS - 1 } else { first.trailing_zeros() };
        let level = aligned.min((places.end - first).ilog2()) as usize;
        nodes.push(TreeNode { level, position: first >> level });
        first += 1 << level;
    }
    nodes
}

/// The sum of all places of a tree, element by element, from the sums of nodes that make it up, as one process adds
/// them; `None` for what is empty.
pub fn sum_of_nodes(places: usize, nodes: impl IntoIterator<Item = (TreeNode, Option<Vec<f32>>)>) -> Option<Vec<f32>> {
    let mut tree = Tree::new(places);
    for (node, sum) in nodes {
        let Ok(()) = tree.close_node(node, sum, |mut lower: Vec<f32>, upper: Vec<f32>| {
            lower.iter_mut().zip(&upper).for_each(|(into, from)| *into += from);
            Ok::<_, std::convert::Infallible>(lower)
        });
    }
    tree.into_root()
}

/// The sums that wait for their neighbours.
pub(super) struct Tree<T> {
    /// Sums that are complete and not combined yet, by level from the leaves to the root and by position in the level.
    levels: Vec<BTreeMap<usize, Option<T>>>,
}

impl<T> Tree<T> {
    /// A tree over a power of two of places.
    pub(super) fn new(places: usize) -> Self {
        debug_assert!(places.is_power_of_two(), "{places} places");
        Self { levels: (0..=places.trailing_zeros()).map(|_| BTreeMap::new()).collect() }
    }

    /// Adds the sum of a place, once, in any order of places, and combines what has become complete by it. `add` is
    /// given the sum of the lower places first.
    pub(super) fn close<E>(
        &mut self,
        place: usize,
        sum: Option<T>,
        add: impl FnMut(T, T) -> Result<T, E>,
    ) -> Result<(), E> {
        self.close_node(TreeNode { level: 0, position: place }, sum, add)
    }

    /// Adds the sum of a node, none of whose places was closed.
    fn close_node<E>(
        &mut self,
        node: TreeNode,
        sum: Option<T>,
        mut add: impl FnMut(T, T) -> Result<T, E>,
    ) -> Result<(), E> {
        let mut position = node.position;
        let mut sum = sum;
        let last = self.levels.len() - 1;
        for level in node.level..last {
            let Some(neighbour) = self.levels[level].remove(&(position ^ 1)) else {
                self.levels[level].insert(position, sum);
                return Ok(());
            };
            let (lower, upper) = if position.is_multiple_of(2) { (sum, neighbour) } else { (neighbour, sum) };
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

    /// The sums of the nodes that a range of places is made of, all of which are closed and no other.
    pub(super) fn into_nodes(mut self, places: Range<usize>) -> Vec<(TreeNode, Option<T>)> {
        let mut take = |node: TreeNode| self.levels.get_mut(node.level)?.remove(&node.position).flatten();
        nodes_of(places).into_iter().map(|node| (node, take(node))).collect()
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
        fn any_ranges_of_places_can_be_summed_apart_and_are_added_as_in_one_tree(
            height in 0u32..6,
            empty in prop::collection::vec(any::<bool>(), 32),
            mut ends in prop::collection::vec(0usize..=32, 0..5),
        ) {
            let count = 1usize << height;
            let places: Vec<_> = (0..count).map(|place| (!empty[place]).then_some(place)).collect();
            ends.iter_mut().for_each(|end| *end = (*end).min(count));
            ends.sort_unstable();
            let mut all = Tree::new(count);
            let mut first = 0;
            for end in ends.into_iter().chain([count]) {
                let mut part = Tree::new(count);
                for (place, value) in places.iter().enumerate().take(end).skip(first) {
                    let sum = value.map(|value| value.to_string());
                    let Ok(()) = part.close(place, sum, |a, b| Ok::<_, Infallible>(format!("({a}+{b})")));
                }
                for (node, sum) in part.into_nodes(first..end) {
                    let Ok(()) = all.close_node(node, sum, |a, b| Ok::<_, Infallible>(format!("({a}+{b})")));
                }
                first = end;
            }
            prop_assert_eq!(all.into_root(), defined(&places));
        }

        #[test]
        fn consecutive_halves_can_be_summed_apart_and_combined_as_ranks_would(height in 1u32..5, split in 0u32..4) {
            let count = 1usize << height;
            let ranks = 1usize << split.min(height);
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
