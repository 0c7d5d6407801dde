//! Tables of text.

use evenkeel_charts::{percent, percentage};
use evenkeel_run::{BenchmarkSummary, EvaluatedBenchmark, MetricsLine, at_k};

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

/// The accuracy of an evaluation in a few words: that of the average, or of the only benchmark.
pub(crate) fn accuracy(line: &MetricsLine) -> Option<String> {
    let EvaluatedBenchmark { name, samples, .. } = EvaluatedBenchmark::all(line).pop_last()?;
    let metric = format!("mean@{samples}");
    let value = line.get(&at_k::core(name, &metric))?;
    let error = line.get(&at_k::standard_error(name, &metric));
    Some(format!("{name} {metric} {}", percent(value, error)))
}

/// Peak and last accuracies of each benchmark, in percent.
pub(crate) fn benchmarks(all: &[BenchmarkSummary]) -> String {
    let mut rows = vec![["", "peak mean@k", "peak best@k", "last mean@k", "last best@k"].map(str::to_owned).to_vec()];
    for benchmark in all {
        let BenchmarkSummary { name, samples, peak_mean, peak_best, last_mean, last_best } = benchmark;
        let values = [peak_mean, peak_best, last_mean, last_best].map(|value| match value {
            Some(value) => percentage(value.value, value.standard_error),
            None => "–".to_owned(),
        });
        rows.push(std::iter::once(format!("{name}, k = {samples}")).chain(values).collect());
    }
    aligned(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "12.5 ± 1.0".to_owned()], vec!["long".to_owned(), "–".to_owned()]];
        assert_eq!(aligned(&rows), "a     12.5 ± 1.0\nlong           –\n");
    }
}
