//! The benchmarks that a line of an evaluation is about.

use std::collections::BTreeSet;

use super::MetricsLine;
use super::at_k::{AVERAGE, parse_core};

/// A benchmark of an evaluation. Names are in alphabetical order, and the average comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvaluatedBenchmark<'a> {
    /// Whether it is the mean over the benchmarks that count towards it.
    pub is_average: bool,
    /// Name of the benchmark.
    pub name: &'a str,
    /// Samples for each problem.
    pub samples: u32,
}

impl<'a> EvaluatedBenchmark<'a> {
    /// The benchmarks that a line has a mean accuracy of.
    pub fn all(line: &'a MetricsLine) -> BTreeSet<Self> {
        line.values.keys().filter_map(|name| Self::of_mean(name)).collect()
    }

    fn of_mean(name: &'a str) -> Option<Self> {
        let (name, metric) = parse_core(name)?;
        let samples = metric.strip_prefix("mean@")?.parse().ok()?;
        Some(Self { is_average: name == AVERAGE, name, samples })
    }
}
