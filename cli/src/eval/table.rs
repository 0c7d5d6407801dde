//! The results as a table.

use evenkeel_charts::percentage;
use evenkeel_run::{EvaluatedBenchmark, MetricsLine, Quantity, at_k};
use evenkeel_run_report::in_words;

use crate::columns::aligned;

/// A row for each benchmark, their average last; accuracies in percent with standard errors over problems.
pub(super) fn table(line: &MetricsLine) -> String {
    const TITLES: [&str; 11] = [
        "benchmark",
        "problems",
        "k",
        "mean@k",
        "with copied",
        "best@k",
        "best@k/mean",
        "maj@k",
        "tokens",
        "cut off",
        "invalid",
    ];
    let mut rows = vec![TITLES.map(str::to_owned).to_vec()];
    let benchmarks = EvaluatedBenchmark::all([line]);
    rows.extend(benchmarks.iter().map(|benchmark| row(line, benchmark).to_vec()));
    let mut text = aligned(&rows);
    for benchmark in benchmarks {
        text += &of_sources(line, benchmark.name, benchmark.samples);
    }
    text
}

/// A row for each data source of a benchmark that has several; empty where it has not.
fn of_sources(line: &MetricsLine, name: &str, k: u32) -> String {
    let sources = line.values.keys().filter_map(|key| at_k::parse_source(name, key));
    let mean = format!("mean@{k}");
    let row = |source: &str| {
        let value = |quantity| Some((quantity, line.get(&at_k::of_source(name, source, quantity, &mean))?));
        let found = value(Quantity::Accuracy).or_else(|| value(Quantity::Reward));
        let error = line.get(&at_k::error_of_source(name, source, &mean));
        let number = |key: String| line.get(&key).map_or_else(|| "–".to_owned(), |value| format!("{value:.0}"));
        vec![
            format!("{name}: {source}"),
            number(at_k::problems_of_source(name, source)),
            found.map_or_else(|| "–".to_owned(), |(quantity, value)| cell(quantity, value, error)),
            number(at_k::length_of_source(name, source)),
        ]
    };
    let mut rows: Vec<Vec<String>> = sources.map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    rows.insert(0, ["data source", "problems", "mean@k", "tokens"].map(str::to_owned).to_vec());
    format!("\n{}", aligned(&rows))
}

/// An accuracy in percent, since headings say nothing else, or a mean reward, which says that it is one.
fn cell(quantity: Quantity, value: f64, error: Option<f64>) -> String {
    match quantity {
        Quantity::Accuracy => percentage(value, error),
        Quantity::Reward => format!("reward {}", in_words(quantity, value, error)),
    }
}

fn row(line: &MetricsLine, benchmark: &EvaluatedBenchmark<'_>) -> [String; 11] {
    let EvaluatedBenchmark { name, samples: k, quantity, .. } = *benchmark;
    let accuracy = |metric: &str| match line.get(&at_k::core(name, quantity, metric)) {
        Some(value) => cell(quantity, value, line.get(&at_k::about(name, quantity, metric, "standard_error"))),
        None => "–".to_owned(),
    };
    let aux = |metric: &str| line.get(&at_k::aux(name, metric));
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.0}"));
    let share = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{:.1} %", 100.0 * value));
    [
        name.to_owned(),
        number(aux("problems")),
        k.to_string(),
        accuracy(&format!("mean@{k}")),
        aux(&format!("acc/mean@{k}/with_copied")).map_or_else(|| "–".to_owned(), |value| percentage(value, None)),
        accuracy(&format!("best@{k}")),
        accuracy(&format!("best@{k}/mean")),
        accuracy(&format!("maj@{k}")),
        number(aux("response_length/mean")),
        share(aux("response_length/clip_ratio")),
        number(aux("invalid_samples")),
    ]
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;

    use super::*;

    #[test]
    fn every_benchmark_has_a_row_and_the_average_is_last() {
        let json = r#"{"kind":"evaluation","step": 0, "policy_version": 0, "val-core/average/acc/mean@8": 0.5, "val-core/math/acc/mean@8": 0.5,
            "val-core/math/acc/best@8": 0.75, "val-aux/math/acc/mean@8/standard_error": 0.021, "val-aux/math/problems": 500,
            "val-aux/math/acc/mean@8/with_copied": 0.5125}"#;
        let line = MetricsLine::from_json(StepKind::Evaluation, json).unwrap();
        let text = table(&line);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["math", "500", "8", "50.0", "±", "2.1", "51.2", "75.0", "–", "–", "–", "–", "–"]);
        assert_eq!(lines[2][..4], ["average", "–", "8", "50.0"]);
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn a_mean_reward_is_no_percentage() {
        let json = r#"{"kind":"evaluation","step": 0, "policy_version": 0, "val-core/words/reward/mean@1": 0.912, "val-core/sums/acc/mean@1": 0.5}"#;
        let text = table(&MetricsLine::from_json(StepKind::Evaluation, json).unwrap());
        assert!(text.contains("reward 0.912") && text.contains("50.0") && !text.contains("91.2"), "{text}");
    }

    #[test]
    fn data_sources_of_a_benchmark_follow_in_a_table_of_their_own() {
        let json = r#"{"kind":"evaluation","step": 0, "policy_version": 0, "val-core/words/acc/mean@1": 0.5, "val-source/words/sum/acc/mean@1": 0.25,
            "val-source/words/sum/problems": 125, "val-source/words/gain/problems": 124}"#;
        let text = table(&MetricsLine::from_json(StepKind::Evaluation, json).unwrap());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "");
        assert!(lines[4].starts_with("words: gain") && lines[5].starts_with("words: sum"), "{text}");
        assert!(lines[5].contains("125") && lines[5].contains("25.0"), "{text}");
    }
}
