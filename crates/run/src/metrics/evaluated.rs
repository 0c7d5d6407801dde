//! The benchmarks that lines of evaluations are about.

use std::collections::BTreeSet;

use super::MetricsLine;
use super::at_k::{self, AVERAGE};
use super::quantity::Quantity;

/// A benchmark of an evaluation. Names are in alphabetical order, and the average comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvaluatedBenchmark<'a> {
    /// Whether this is the average over benchmarks instead of a single one.
    pub is_average: bool,
    /// Name of the benchmark.
    pub name: &'a str,
    /// Samples for each problem.
    pub samples: u32,
    pub quantity: Quantity,
}

impl<'a> EvaluatedBenchmark<'a> {
    /// The benchmarks that lines have a mean of.
    pub fn all(lines: impl IntoIterator<Item = &'a MetricsLine>) -> BTreeSet<Self> {
        lines.into_iter().flat_map(|line| line.values.keys()).filter_map(|name| Self::of_mean(name)).collect()
    }

    /// The one that speaks for an evaluation: the average, or else the first by name; one with an accuracy before
    /// others.
    pub fn headline(line: &'a MetricsLine) -> Option<Self> {
        Self::all([line]).into_iter().min_by_key(|benchmark| (benchmark.quantity, !benchmark.is_average))
    }

    fn of_mean(name: &'a str) -> Option<Self> {
        let (name, quantity, metric) = at_k::parse_core(name)?;
        let samples = metric.strip_prefix("mean@")?.parse().ok()?;
        Some(Self { is_average: name == AVERAGE, name, samples, quantity })
    }

    /// The name of one of its metrics in lines, such as `mean` of all samples.
    pub fn metric(&self, of: &str) -> String {
        at_k::core(self.name, self.quantity, &format!("{of}@{}", self.samples))
    }

    /// The name of what else is known of such a metric: `standard_error` over problems, `sampling_error`.
    pub fn about(&self, of: &str, what: &str) -> String {
        at_k::about(self.name, self.quantity, &format!("{of}@{}", self.samples), what)
    }

    /// The value of such a metric with its standard error over problems.
    pub fn value(&self, line: &MetricsLine, of: &str) -> Option<(f64, Option<f64>)> {
        Some((line.get(&self.metric(of))?, line.get(&self.about(of, "standard_error"))))
    }
}

/// The quantity and the mean that speak for an evaluation.
pub fn headline(line: &MetricsLine) -> Option<(Quantity, f64)> {
    let benchmark = EvaluatedBenchmark::headline(line)?;
    Some((benchmark.quantity, line.get(&benchmark.metric("mean"))?))
}

/// The accuracy that speaks for an evaluation; `None` where nobody says which answers are correct.
pub fn accuracy(line: &MetricsLine) -> Option<f64> {
    headline(line).filter(|(quantity, _)| *quantity == Quantity::Accuracy).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;

    use super::*;

    fn line(values: &[(&str, f64)]) -> MetricsLine {
        let mut line = MetricsLine::new(StepKind::Evaluation, 0, 0);
        values.iter().for_each(|(name, value)| line.set_named(*name, *value));
        line
    }

    #[test]
    fn an_evaluation_is_spoken_for_by_the_average_and_by_an_accuracy_before_a_reward() {
        let both = line(&[("val-core/b/acc/mean@4", 0.25), ("val-core/a/reward/mean@4", 0.9)]);
        assert_eq!(headline(&both), Some((Quantity::Accuracy, 0.25)));
        let rewards = line(&[("val-core/a/reward/mean@4", 0.9), ("val-aux/a/reward/mean@8", 0.1)]);
        assert_eq!((headline(&rewards), accuracy(&rewards)), (Some((Quantity::Reward, 0.9)), None));
        let average = line(&[("val-core/average/acc/mean@4", 0.5), ("val-core/a/acc/mean@4", 0.25)]);
        assert_eq!((accuracy(&average), accuracy(&line(&[]))), (Some(0.5), None));
    }
}
