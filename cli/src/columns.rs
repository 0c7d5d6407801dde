//! Tables of text.

use evenkeel_charts::percentage;
use evenkeel_run::{BenchmarkSummary, BenchmarkValue, EvaluatedBenchmark, MetricsLine, Quantity};
use evenkeel_run_report::in_words;

/// Rows with their columns one below the other: the first to the left, the others to the right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// The accuracy of an evaluation in a few words, or its mean reward: that of the average, or of the first benchmark.
pub(crate) fn evaluated(line: &MetricsLine) -> Option<String> {
    let benchmark = EvaluatedBenchmark::headline(line)?;
    let (value, error) = benchmark.value(line, "mean")?;
    let what = format!("{} mean@{}", benchmark.name, benchmark.samples);
    Some(match benchmark.quantity {
        Quantity::Accuracy => format!("{what} {}", in_words(benchmark.quantity, value, error)),
        Quantity::Reward => {
            format!("{what} {} {}", benchmark.quantity.words(), in_words(benchmark.quantity, value, error))
        }
    })
}

/// Peak and last accuracies of each benchmark, in percent, or its mean rewards; best@k where one has several samples for
/// a problem.
pub(crate) fn benchmarks(all: &[BenchmarkSummary]) -> String {
    let has_best = all.iter().any(|benchmark| benchmark.samples > 1);
    let shown = |[name, peak_mean, peak_best, last_mean, last_best]: [String; 5]| {
        if has_best { vec![name, peak_mean, peak_best, last_mean, last_best] } else { vec![name, peak_mean, last_mean] }
    };
    let titles = ["", "peak mean@k", "peak best@k", "last mean@k", "last best@k"];
    let mut rows = vec![shown(titles.map(str::to_owned))];
    for benchmark in all {
        let BenchmarkSummary { name, samples, quantity, peak_mean, peak_best, last_mean, last_best } = benchmark;
        let value = |value: &Option<BenchmarkValue>| match (value, quantity) {
            (Some(value), Quantity::Accuracy) => percentage(value.value, value.standard_error),
            (Some(value), Quantity::Reward) => in_words(*quantity, value.value, value.standard_error),
            (None, _) => "–".to_owned(),
        };
        let what = if *quantity == Quantity::Reward { ", mean reward" } else { "" };
        let name = format!("{name}, k = {samples}{what}");
        rows.push(shown([name, value(peak_mean), value(peak_best), value(last_mean), value(last_best)]));
    }
    aligned(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_has_a_column_where_there_are_several_samples() {
        let value = Some(BenchmarkValue { step: 1, value: 0.5, standard_error: None });
        let benchmark = |samples, quantity| BenchmarkSummary {
            name: "a".to_owned(),
            samples,
            quantity,
            peak_mean: value,
            peak_best: value.filter(|_| samples > 1),
            last_mean: value,
            last_best: value.filter(|_| samples > 1),
        };
        let one = benchmarks(&[benchmark(1, Quantity::Reward)]);
        assert!(!one.contains("best") && one.contains("a, k = 1, mean reward          0.5          0.5"), "{one}");
        let several = benchmarks(&[benchmark(4, Quantity::Accuracy)]);
        assert!(several.contains("peak best@k") && several.contains("50.0"), "{several}");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "12.5 ± 1.0".to_owned()], vec!["long".to_owned(), "–".to_owned()]];
        assert_eq!(aligned(&rows), "a     12.5 ± 1.0\nlong           –\n");
    }
}
