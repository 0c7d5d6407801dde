//! The order of the prompts: which problem stands at which position, from the first step to the last, over any number
//! of epochs.

use evenkeel_seeds::{Stream, rng};
use rand::seq::SliceRandom;

use super::prompts::Prompts;
use crate::settings::LoopSettings;

/// Positions 0, 1, 2, ... of an endless sequence over the problems of one or several sources. What stands at a position
/// follows from the seed, the sources and the position alone, whatever was asked before: a resumed run goes on where it
/// was.
#[derive(Debug, Clone)]
pub(crate) struct PromptSampler {
    length: usize,
    sources: Vec<SourceOrder>,
    /// How many of the positions before `next_position` are of each source.
    counts: Vec<u64>,
    next_position: u64,
}

/// The problems of one source, in an order of their own.
#[derive(Debug, Clone)]
struct SourceOrder {
    /// Relative to the sum of all.
    share: f64,
    /// Problems of the source, by their indices in the whole list.
    indices: Vec<usize>,
    order: EpochOrder,
}

/// An endless sequence over a finite list: each epoch has every element once.
#[derive(Debug, Clone)]
struct EpochOrder {
    seed: u64,
    shuffle: bool,
    length: usize,
    /// Index among several sources; `None` for the only one.
    source: Option<u64>,
    /// The order of the epoch that was requested last.
    epoch: Option<(u64, Vec<usize>)>,
}

impl PromptSampler {
    /// The order in which a run takes these prompts.
    pub(crate) fn of(prompts: &Prompts, settings: &LoopSettings) -> Self {
        let weights: Vec<f64> = prompts.sources.iter().map(|source| source.weight).collect();
        Self::new(prompts.sources_of_train(), &weights, settings.run.seed, settings.data.shuffle)
    }

    /// Over problems by their sources: for each problem the index of its source among `weights`. Sources without a
    /// problem are left out.
    pub(crate) fn new(problems: impl IntoIterator<Item = usize>, weights: &[f64], seed: u64, shuffle: bool) -> Self {
        let mut indices = vec![Vec::new(); weights.len().max(1)];
        let mut length = 0;
        for (index, source) in problems.into_iter().enumerate() {
            indices[source].push(index);
            length += 1;
        }
        let is_only = indices.iter().filter(|indices| !indices.is_empty()).count() <= 1;
        let sources =
            indices.into_iter().zip(0..).filter(|(indices, _)| !indices.is_empty()).map(|(indices, number)| {
                let source = (!is_only).then_some(number);
                let order = EpochOrder { seed, shuffle, length: indices.len(), source, epoch: None };
                (number, indices, order)
            });
        let sources: Vec<_> = sources.collect();
        let weight = |number: u64| weights.get(number as usize).copied().unwrap_or(1.0);
        let total: f64 = sources.iter().map(|(number, ..)| weight(*number)).sum();
        let sources: Vec<_> = sources
            .into_iter()
            .map(|(number, indices, order)| SourceOrder { share: weight(number) / total, indices, order })
            .collect();
        Self { length, counts: vec![0; sources.len()], next_position: 0, sources }
    }

    /// The epoch of a position: the number of full passes over the problems before it.
    pub(crate) fn epoch_of(&self, position: u64) -> u64 {
        position / (self.length as u64).max(1)
    }

    /// The index of the problem at a position.
    pub(crate) fn at(&mut self, position: u64) -> usize {
        if let [only] = &mut self.sources[..] {
            return only.indices[only.order.at(position)];
        }
        if position < self.next_position {
            self.counts.fill(0);
            self.next_position = 0;
        }
        loop {
            let source = self.source_at_next();
            let within = self.counts[source];
            self.counts[source] += 1;
            self.next_position += 1;
            if self.next_position > position {
                let source = &mut self.sources[source];
                return source.indices[source.order.at(within)];
            }
        }
    }

    /// The source that is furthest behind its share: no step has more or less than its share of it by more than one
    /// prompt.
    fn source_at_next(&self) -> usize {
        let positions = (self.next_position + 1) as f64;
        let behind = |source: usize| self.sources[source].share * positions - self.counts[source] as f64;
        let later_if_more = |best: usize, source: usize| if behind(source) > behind(best) { source } else { best };
        (1..self.sources.len()).fold(0, later_if_more)
    }
}

impl EpochOrder {
    fn at(&mut self, position: u64) -> usize {
        let length = self.length as u64;
        let epoch = position / length;
        let within = (position % length) as usize;
        if !self.shuffle {
            return within;
        }
        let (_, order) = match self.epoch.take() {
            Some(known) if known.0 == epoch => self.epoch.insert(known),
            _ => {
                let stream = match self.source {
                    None => Stream::PromptOrder { epoch },
                    Some(source) => Stream::SourceOrder { source, epoch },
                };
                let mut order: Vec<usize> = (0..self.length).collect();
                order.shuffle(&mut rng(self.seed, stream));
                self.epoch.insert((epoch, order))
            }
        };
        order[within]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(length: usize, shuffle: bool) -> PromptSampler {
        PromptSampler::new(vec![0; length], &[2.5], 3, shuffle)
    }

    #[test]
    fn every_epoch_has_every_problem_once_in_an_order_of_its_own() {
        let mut sampler = one(50, true);
        let epochs: Vec<Vec<usize>> = (0..3).map(|e| (e * 50..(e + 1) * 50).map(|p| sampler.at(p)).collect()).collect();
        for epoch in &epochs {
            let mut sorted = epoch.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..50).collect::<Vec<_>>());
        }
        assert_ne!(epochs[0], epochs[1]);
        assert_eq!(sampler.at(7), epochs[0][7], "a position never changes, whatever was asked before");
        assert_eq!((sampler.epoch_of(49), sampler.epoch_of(50)), (0, 1));
    }

    #[test]
    fn the_order_of_one_source_is_the_one_of_its_stream() {
        let mut order: Vec<usize> = (0..50).collect();
        order.shuffle(&mut rng(3, Stream::PromptOrder { epoch: 0 }));
        let mut sampler = one(50, true);
        assert_eq!((0..50).map(|position| sampler.at(position)).collect::<Vec<_>>(), order);
        // A second source without a problem changes nothing.
        let mut sampler = PromptSampler::new(vec![0; 50], &[1.0, 9.0], 3, true);
        assert_eq!((0..50).map(|position| sampler.at(position)).collect::<Vec<_>>(), order);
    }

    #[test]
    fn without_shuffle_the_order_is_the_files() {
        let mut sampler = one(3, false);
        assert_eq!([0, 1, 2, 3, 4].map(|position| sampler.at(position)), [0, 1, 2, 0, 1]);
    }

    #[test]
    fn sources_have_their_shares_of_every_stretch_and_each_its_own_epochs() {
        // 10 problems of weight 3, 40 of weight 1.
        let problems = std::iter::repeat_n(0, 10).chain(std::iter::repeat_n(1, 40));
        let mut sampler = PromptSampler::new(problems, &[3.0, 1.0], 7, true);
        let drawn: Vec<usize> = (0..160).map(|position| sampler.at(position)).collect();
        for step in drawn.chunks(8) {
            let first = step.iter().filter(|index| **index < 10).count();
            assert!((5..=7).contains(&first), "{step:?}");
        }
        let of_first: Vec<usize> = drawn.iter().copied().filter(|index| *index < 10).collect();
        assert_eq!(of_first.len(), 120);
        for epoch in of_first.chunks(10) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        }
        let mut of_second: Vec<usize> = drawn.iter().copied().filter(|index| *index >= 10).collect();
        of_second.sort_unstable();
        assert_eq!(of_second, (10..50).collect::<Vec<_>>());
    }

    #[test]
    fn a_resumed_run_draws_the_same_prompts_from_several_sources() {
        let sampler = || PromptSampler::new([0, 0, 1, 1, 1, 2], &[1.0, 0.3, 0.11], 9, true);
        let mut whole = sampler();
        let drawn: Vec<usize> = (0..500).map(|position| whole.at(position)).collect();
        let mut resumed = sampler();
        assert_eq!((123..500).map(|position| resumed.at(position)).collect::<Vec<_>>(), drawn[123..]);
        assert_eq!(resumed.at(4), drawn[4]);
    }
}
