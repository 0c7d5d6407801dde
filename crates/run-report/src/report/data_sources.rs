//! Held-out problems by data source: what each was before the run and after it.

use std::collections::BTreeSet;

use evenkeel_charts::{Html, HtmlTable};
use evenkeel_run::{EvaluatedBenchmark, MetricsLine, Quantity, at_k};

use crate::quantity::in_words;

/// A row for each data source of a benchmark that has several, from the first evaluation to the last.
pub(super) fn table(evaluations: &[MetricsLine]) -> Html {
    let (Some(first), Some(last)) = (evaluations.first(), evaluations.last()) else { return Html::new() };
    let mut html = Html::new();
    for EvaluatedBenchmark { name: benchmark, samples: k, .. } in EvaluatedBenchmark::all(evaluations) {
        let names: BTreeSet<&str> = last.values.keys().filter_map(|name| at_k::parse_source(benchmark, name)).collect();
        if names.is_empty() {
            continue;
        }
        let metric = format!("mean@{k}");
        let mut table = HtmlTable::new([
            "data source".to_owned(),
            "problems".to_owned(),
            format!("{metric} at {}", first.step),
            format!("{metric} at {}", last.step),
            format!("tokens at {}", first.step),
            format!("tokens at {}", last.step),
        ]);
        for source in names {
            // A source has a reward where nobody says which of its answers are correct.
            let mean = |line: &MetricsLine| {
                let error = line.get(&at_k::error_of_source(benchmark, source, &metric));
                let value =
                    |quantity| Some((quantity, line.get(&at_k::of_source(benchmark, source, quantity, &metric))?));
                let found = value(Quantity::Accuracy).or_else(|| value(Quantity::Reward));
                found.map_or_else(|| "–".to_owned(), |(quantity, value)| in_words(quantity, value, error))
            };
            let number = |line: &MetricsLine, name: String, digits: usize| {
                line.get(&name).map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
            };
            let length = |line| number(line, at_k::length_of_source(benchmark, source), 1);
            table.row([
                source.to_owned(),
                number(last, at_k::problems_of_source(benchmark, source), 0),
                mean(first),
                mean(last),
                length(first),
                length(last),
            ]);
        }
        html.push(Html::element("h3", &[], format!("Data sources of {benchmark}")).with(table.to_html()));
    }
    html
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;

    use super::*;

    #[test]
    fn each_data_source_has_its_before_and_after() {
        let line = |step: u64, sum: f64, gain: f64| {
            let mut line = MetricsLine::new(StepKind::Evaluation, step, step);
            line.set_named(at_k::core("words", Quantity::Accuracy, "mean@1"), 0.5 * (sum + gain));
            for (source, value) in [("sum", sum), ("gain", gain)] {
                line.set_named(at_k::of_source("words", source, Quantity::Accuracy, "mean@1"), value);
                line.set_named(at_k::error_of_source("words", source, "mean@1"), 0.01);
                line.set_named(at_k::problems_of_source("words", source), 125.0);
                line.set_named(at_k::length_of_source("words", source), 12.5);
            }
            line
        };
        let html = table(&[line(0, 0.1, 0.2), line(30, 0.3, 0.5), line(60, 0.6, 0.75)]).into_string();
        assert!(html.contains("Data sources of words") && html.contains("mean@1 at 60"), "{html}");
        assert!(
            html.contains("<td>sum</td><td>125</td><td>10.0 ± 1.0 %</td><td>60.0 ± 1.0 %</td><td>12.5</td>"),
            "{html}"
        );
        assert!(!html.contains("30.0"), "the first and the last");
    }

    #[test]
    fn a_benchmark_of_one_data_source_has_no_table() {
        let mut line = MetricsLine::new(StepKind::Evaluation, 0, 0);
        line.set_named(at_k::core("words", Quantity::Accuracy, "mean@1"), 0.5);
        assert!(table(&[line]).into_string().is_empty());
        assert!(table(&[]).into_string().is_empty());
    }
}
