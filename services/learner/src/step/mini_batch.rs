//! How the groups of a step are divided into the mini-batches of its updates.

use evenkeel_seeds::{Stream, rng};
use rand::seq::SliceRandom;

use crate::settings::TrainingSettings;

/// The mini-batches of a step. They depend on the settings, (seed, step, epoch) and the number of groups only, so the
/// groups of the first update are usually known before any of them has arrived.
pub(super) struct MiniBatches {
    /// Groups in a mini-batch; the last one of an epoch may be smaller. 0 is all.
    size: usize,
    epochs: usize,
    shuffle: bool,
    seed: u64,
    step: u64,
    /// The number of groups, once it is known.
    groups: Option<usize>,
    /// For each group whether the first update takes it; absent if that cannot be known before the last group.
    shuffled_first: Option<Vec<bool>>,
}

impl MiniBatches {
    /// For step `step`, whose number of groups may not be known yet.
    pub(super) fn of(settings: &TrainingSettings, step: u64, groups: Option<usize>) -> Self {
        let TrainingSettings { mini_batch_groups: size, epochs, shuffle, seed, .. } = *settings;
        let mut mini_batches = Self { size, epochs, shuffle, seed, step, groups: None, shuffled_first: None };
        if let Some(groups) = groups {
            mini_batches.set_groups(groups);
        }
        mini_batches
    }

    /// Sets the number of groups of the step.
    pub(super) fn set_groups(&mut self, groups: usize) {
        self.groups = Some(groups);
        if self.shuffle && self.size > 0 {
            let mut first = vec![false; groups];
            self.order(groups, 0).into_iter().take(self.size).for_each(|group| first[group] = true);
            self.shuffled_first = Some(first);
        }
    }

    /// Whether the first update takes this group; `None` if that is known only after the last group.
    pub(super) fn is_first(&self, group: usize) -> Option<bool> {
        match (self.size, self.shuffle, &self.shuffled_first) {
            (0, ..) => Some(true),
            (size, false, _) => Some(group < size),
            (_, true, first) => first.as_ref().map(|first| first.get(group).copied().unwrap_or(false)),
        }
    }

    /// Whether the first `received` groups are known to include all groups of the first update.
    pub(super) fn has_first(&self, received: usize) -> bool {
        match (&self.shuffled_first, self.size, self.shuffle) {
            (Some(first), ..) => !first.iter().skip(received).any(|first| *first),
            (None, 1.., false) => received >= self.size,
            (None, ..) => false,
        }
    }

    /// How many groups the first update takes, if that is known after `received` of them.
    pub(super) fn first_groups(&self, received: usize) -> Option<usize> {
        let first_size = |groups: usize| if self.size == 0 { groups } else { self.size.min(groups) };
        self.groups.map(first_size).or_else(|| (self.size > 0 && received >= self.size).then_some(self.size))
    }

    /// The position of a group of the first update among the groups of that update, in data order.
    pub(super) fn position_in_first(&self, group: usize) -> usize {
        match &self.shuffled_first {
            Some(first) => first[..group].iter().filter(|first| **first).count(),
            None => group,
        }
    }

    /// Whether the first update's groups take part in later ones.
    pub(super) fn repeats(&self) -> bool {
        self.epochs > 1
    }

    /// Whether the update of this number is one of the first epoch.
    pub(super) fn is_in_first_epoch(&self, update: usize, groups: usize) -> bool {
        let size = if self.size == 0 { groups.max(1) } else { self.size };
        update < groups.div_ceil(size)
    }

    /// The mini-batches of all epochs over `groups` groups, in the order of their updates, each with its groups in data
    /// order.
    pub(super) fn all(&self, groups: usize) -> Vec<Vec<usize>> {
        let size = if self.size == 0 { groups.max(1) } else { self.size };
        let mut all = Vec::new();
        for epoch in 0..self.epochs {
            for mini_batch in self.order(groups, epoch).chunks(size) {
                let mut mini_batch = mini_batch.to_vec();
                mini_batch.sort_unstable();
                all.push(mini_batch);
            }
        }
        all
    }

    /// Indices of the groups in the order of an epoch.
    fn order(&self, groups: usize, epoch: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..groups).collect();
        if self.shuffle {
            order.shuffle(&mut rng(self.seed, Stream::GroupOrder { step: self.step, epoch: epoch as u64 }));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(size: usize, shuffle: bool, expected: Option<usize>) -> MiniBatches {
        let settings = TrainingSettings { mini_batch_groups: size, shuffle, epochs: 2, ..TrainingSettings::default() };
        MiniBatches::of(&settings, 3, expected)
    }

    #[test]
    fn each_epoch_takes_every_group_once() {
        for (size, shuffle) in [(0, false), (2, false), (2, true), (5, true), (9, true)] {
            let mini_batches = of(size, shuffle, Some(7)).all(7);
            let (first, second) = mini_batches.split_at(mini_batches.len() / 2);
            let in_first = |update| of(size, shuffle, Some(7)).is_in_first_epoch(update, 7);
            assert!((0..2 * first.len()).all(|update| in_first(update) == (update < first.len())), "{size}");
            for epoch in [first, second] {
                let mut groups = epoch.concat();
                groups.sort_unstable();
                assert_eq!(groups, (0..7).collect::<Vec<_>>(), "{size} {shuffle}");
            }
        }
    }

    #[test]
    fn the_groups_of_the_first_update_are_known_before_they_arrive_unless_shuffling_waits_for_their_number() {
        for (size, shuffle, expected) in [(0, true, None), (3, false, None), (3, true, Some(8)), (9, true, Some(8))] {
            let mini_batches = of(size, shuffle, expected);
            let first = &mini_batches.all(8)[0];
            for group in 0..8 {
                assert_eq!(mini_batches.is_first(group), Some(first.contains(&group)), "{size} {shuffle} {group}");
            }
            for (position, &group) in first.iter().enumerate() {
                assert_eq!(mini_batches.position_in_first(group), position, "{size} {shuffle}");
            }
            assert_eq!(
                mini_batches.first_groups(8),
                if size == 0 { None } else { Some(first.len()) },
                "{size} {shuffle}"
            );
            let last = *first.iter().max().unwrap();
            assert!(!mini_batches.has_first(last), "{size} {shuffle}");
            assert_eq!(mini_batches.has_first(last + 1), size > 0, "{size} {shuffle}");
        }
        assert_eq!(of(3, true, None).is_first(0), None);
        assert_eq!((of(3, false, None).first_groups(2), of(3, false, None).first_groups(3)), (None, Some(3)));
        assert_eq!([0, 3, 9].map(|size| of(size, false, Some(8)).first_groups(0)), [Some(8), Some(3), Some(8)]);
    }
}
