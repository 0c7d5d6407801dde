//! The data order: which problem stands at which place, from the first step to the last, over any number of epochs.

use evenkeel_tasks::random::{Random, stream};

/// Places 0, 1, 2, ... of an endless sequence over a finite list.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    seed: u64,
    shuffle: bool,
    length: usize,
    /// The order of the epoch that was asked for last.
    epoch: Option<(u64, Vec<usize>)>,
}

impl Order {
    /// Over `length` problems, at least one.
    pub(crate) fn new(length: usize, seed: u64, shuffle: bool) -> Self {
        Self { seed, shuffle, length: length.max(1), epoch: None }
    }

    /// The epoch of a place.
    pub(crate) fn epoch_of(&self, place: u64) -> u64 {
        place / self.length as u64
    }

    /// The index of the problem at a place.
    pub(crate) fn at(&mut self, place: u64) -> usize {
        let (epoch, within) = (self.epoch_of(place), (place % self.length as u64) as usize);
        if !self.shuffle {
            return within;
        }
        let (_, order) = match self.epoch.take() {
            Some(known) if known.0 == epoch => self.epoch.insert(known),
            _ => {
                let mut order: Vec<usize> = (0..self.length).collect();
                Random::new(&[self.seed, stream::ORDER, epoch]).shuffle(&mut order);
                self.epoch.insert((epoch, order))
            }
        };
        order[within]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_has_every_problem_once_in_an_order_of_its_own() {
        let mut order = Order::new(50, 3, true);
        let epochs: Vec<Vec<usize>> = (0..3).map(|e| (e * 50..(e + 1) * 50).map(|p| order.at(p)).collect()).collect();
        for epoch in &epochs {
            let mut sorted = epoch.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..50).collect::<Vec<_>>());
        }
        assert_ne!(epochs[0], epochs[1]);
        assert_eq!(order.at(7), epochs[0][7], "a place never changes, whatever was asked before");
        assert_eq!((order.epoch_of(49), order.epoch_of(50)), (0, 1));
    }

    #[test]
    fn without_shuffle_the_order_is_the_files() {
        let mut order = Order::new(3, 3, false);
        assert_eq!([0, 1, 2, 3, 4].map(|place| order.at(place)), [0, 1, 2, 0, 1]);
    }
}
