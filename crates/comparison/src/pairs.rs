//! Pairs of arms: the difference seed by seed, and whether it is shown.

use evenkeel_errors::FieldError;
use evenkeel_statistics::{Confidence, Interval, Resampling, Sample, SignFlip, holm, smallest_p};
use serde::{Deserialize, Serialize};

use crate::mean::Mean;
use crate::measure::Measure;
use crate::outcome::RunValues;

/// The fewest pairs of seeds from which something is concluded.
pub const FEWEST_SEEDS: usize = 8;
/// The probability of any false finding among the pairs of arms, for one measure of one task.
pub(crate) const LEVEL: f64 = 0.05;

/// The difference of two arms in a measure, over the seeds that both have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairedDifference {
    /// The first arm, by position among the task's arms.
    pub first: usize,
    /// The second, after the first.
    pub second: usize,
    pub measure: Measure,
    /// The seeds that both arms have, ascending.
    pub seeds: Vec<u64>,
    /// First minus second, mean over seeds, with the interval of the paired t test.
    pub difference: Mean,
    /// The p-value of the paired t test.
    pub t_test: Option<f64>,
    /// The interval of the studentised bootstrap, from 5 seeds on: what Student's may miss where differences are
    /// skewed.
    pub studentised: Option<Interval>,
    pub sign_flip: SignFlip,
    /// The p-value after Holm's correction over the pairs of arms, for this measure and task.
    pub adjusted_p: f64,
    /// What can be said.
    pub finding: Finding,
}

/// Whether a difference is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Nothing can be concluded: fewer seeds than one takes.
    TooFewSeeds {
        /// How many it takes: 8, or as many as the exact test needs for this number of pairs.
        needed: usize,
    },
    /// Nothing can be concluded: every seed has the same difference (as equal arms have), so that nothing tells how far
    /// another seed would be off.
    NoSpread,
    /// The interval includes zero, or the adjusted p-value is above 0.05.
    NotShown,
    /// The first arm is higher: the interval excludes zero and the adjusted p-value is at most 0.05.
    FirstHigher,
    /// The second arm is higher, likewise.
    SecondHigher,
}

impl Finding {
    /// Whether a difference is shown.
    pub fn is_shown(self) -> bool {
        matches!(self, Self::FirstHigher | Self::SecondHigher)
    }
}

/// The seeds that a finding over this many pairs of arms takes: with fewer, the smallest p-value of the exact test
/// times the number of pairs is above 0.05.
pub(crate) fn seeds_needed(pairs: usize) -> usize {
    (FEWEST_SEEDS..).find(|seeds| smallest_p(*seeds) * pairs as f64 <= LEVEL).expect("p-values halve with every seed")
}

/// All pairs of arms in all measures that they have. Arms with the outcomes of their seeds, ascending.
pub(crate) fn paired_differences(
    arms: &[Vec<RunValues>],
    resampling: Resampling,
    seed: u64,
) -> Result<Vec<PairedDifference>, FieldError> {
    let mut all = Vec::new();
    for measure in Measure::ALL {
        let mut family = Vec::new();
        for first in 0..arms.len() {
            for second in first + 1..arms.len() {
                let values = shared(&arms[first], &arms[second], measure);
                if !values.is_empty() {
                    let mut pair = difference(measure, &values, resampling, seed)?;
                    (pair.first, pair.second) = (first, second);
                    family.push(pair);
                }
            }
        }
        let p: Vec<f64> = family.iter().map(|pair| pair.sign_flip.p).collect();
        let needed = seeds_needed(family.len());
        for (pair, adjusted) in family.iter_mut().zip(holm(&p)?) {
            pair.adjusted_p = adjusted;
            pair.finding = finding(pair, needed);
        }
        all.extend(family);
    }
    Ok(all)
}

/// Seeds that both arms have, with both values.
fn shared(first: &[RunValues], second: &[RunValues], measure: Measure) -> Vec<(u64, f64, f64)> {
    let other = |seed: u64| second.iter().find(|outcome| outcome.seed == seed)?.value(measure);
    first.iter().filter_map(|outcome| Some((outcome.seed, outcome.value(measure)?, other(outcome.seed)?))).collect()
}

fn difference(
    measure: Measure,
    values: &[(u64, f64, f64)],
    resampling: Resampling,
    seed: u64,
) -> Result<PairedDifference, FieldError> {
    let first: Vec<f64> = values.iter().map(|(_, first, _)| *first).collect();
    let second: Vec<f64> = values.iter().map(|(_, _, second)| *second).collect();
    let sample = Sample::differences(&first, &second)?;
    let sign_flip = sample.sign_flip(seed);
    Ok(PairedDifference {
        first: 0,
        second: 0,
        measure,
        seeds: values.iter().map(|(seed, ..)| *seed).collect(),
        difference: Mean::of(&sample),
        t_test: sample.t_test(),
        // Refused for fewer than 5 seeds.
        studentised: sample.studentised_interval(Confidence::P95, resampling).ok().flatten(),
        sign_flip,
        adjusted_p: sign_flip.p,
        finding: Finding::NotShown,
    })
}

fn finding(pair: &PairedDifference, needed: usize) -> Finding {
    if pair.seeds.len() < needed {
        return Finding::TooFewSeeds { needed };
    }
    let Some(interval) = pair.difference.interval else { return Finding::NoSpread };
    if !interval.excludes(0.0) || pair.adjusted_p > LEVEL {
        Finding::NotShown
    } else if interval.low > 0.0 {
        Finding::FirstHigher
    } else {
        Finding::SecondHigher
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pairs_need_more_seeds() {
        // 2 / 2^8 is 0.0078: six pairs of four arms can reach 0.047, ten of five arms 0.078.
        assert_eq!([0, 1, 3, 6, 7, 10, 15].map(seeds_needed), [8, 8, 8, 8, 9, 9, 10]);
    }
}
