//! The results as a table.

use evenkeel_report::percentage;
use evenkeel_run_files::{MetricsLine, at_k};

use crate::columns::{aligned, evaluated};

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
    rows.extend(evaluated(line).into_iter().map(|(_, name, k)| row(line, name, k).to_vec()));
    aligned(&rows)
}

fn row(line: &MetricsLine, name: &str, k: u32) -> [String; 11] {
    let accuracy = |metric: &str| {
        let Some(value) = line.get(&at_k::core(name, metric)) else { return "–".to_owned() };
        percentage(value, line.get(&at_k::standard_error(name, metric)))
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
}
