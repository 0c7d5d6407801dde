//! What a run did not train on or could not judge, and why.

use std::collections::BTreeMap;

use evenkeel_report::{Html, Table, percent, thousands};
use evenkeel_run_files::at_k::AVERAGE;
use evenkeel_run_files::{Curves, MetricsLine};
use evenkeel_tasks::DataReport;

/// Counts of samples: what it is, and its metric.
const SAMPLES: [(&str, &str); 6] = [
    ("left out: no verdict", "rollout/invalid_samples"),
    ("of these not generated", "rollout/failed_samples"),
    ("of these too late", "rollout/late_samples"),
    ("with an answer copied from the prompt, which is no right one", "rollout/copied_samples"),
    ("generated again", "rollout/begun_again"),
    ("verified again", "rollout/verified_again"),
];
/// Counts of groups.
const GROUPS: [(&str, &str); 5] = [
    ("all answers correct", "rollout/groups_all_correct"),
    ("all answers incorrect", "rollout/groups_all_incorrect"),
    ("without a signal for the learner", "actor/groups_without_signal"),
    ("dropped by dynamic sampling", "training/filter_groups/dropped_groups"),
    ("dropped and taken after all", "training/filter_groups/filled_up_groups"),
];

pub(super) fn section(steps: &Curves, evaluations: &[MetricsLine], data: Option<&DataReport>) -> Html {
    let mut table = Table::new(["what", "count", "share"]);
    let mut none = Vec::new();
    let mut add = |what: String, count: f64, of: Option<f64>| match count > 0.0 {
        false => none.push(what),
        true => {
            let share = of.filter(|of| *of > 0.0).map_or_else(|| "–".to_owned(), |of| percent(count / of, None));
            table.row([what, thousands(count as u64), share]);
        }
    };
    if !steps.is_empty() {
        let samples = steps.sum("rollout/samples");
        for (what, name) in SAMPLES {
            add(format!("samples {what}"), steps.sum(name), Some(samples));
        }
        let tried = steps.sum("training/prompts_tried");
        for (what, name) in GROUPS {
            if !steps.column(name).is_empty() {
                add(format!("groups {what}"), steps.sum(name), Some(tried));
            }
        }
        add("updates skipped by the learner".to_owned(), steps.sum("actor/skipped"), Some(steps.count() as f64));
    }
    if !evaluations.is_empty() {
        add("samples of evaluations without a verdict".to_owned(), invalid(evaluations), None);
    }
    for (what, count, of) in rows(data) {
        add(what, count, Some(of));
    }
    let mut html = table.to_html();
    if !none.is_empty() {
        html.push(Html::element("p", &[("class", "soft")], format!("None: {}.", none.join("; "))));
    }
    html
}

/// Samples without a verdict in all evaluations.
fn invalid(evaluations: &[MetricsLine]) -> f64 {
    let average = format!("val-aux/{AVERAGE}/");
    let is_count = |name: &str| {
        name.starts_with("val-aux/") && name.ends_with("/invalid_samples") && !name.starts_with(average.as_str())
    };
    let counts = evaluations.iter().flat_map(|line| &line.values).filter(|(name, _)| is_count(name));
    counts.map(|(_, count)| count).sum()
}

/// Rows of the data that gave no prompt, by reason, and those that were merged or cut.
fn rows(data: Option<&DataReport>) -> Vec<(String, f64, f64)> {
    let Some(data) = data else { return Vec::new() };
    let files = || data.files.iter();
    let all = files().map(|file| file.rows).sum::<u64>() as f64;
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, count) in files().flat_map(|file| &file.dropped) {
        *reasons.entry(reason.name()).or_default() += count;
    }
    let dropped = reasons.into_iter().map(|(reason, count)| (format!("rows of the data dropped: {reason}"), count));
    let merged = ("rows of the data merged with an equal one".to_owned(), files().map(|file| file.duplicates).sum());
    let cut = ("prompts cut to make room for a response".to_owned(), files().map(|file| file.cut).sum());
    dropped.chain([merged, cut]).map(|(what, count)| (what, count as f64, all)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;
    use super::*;

    #[test]
    fn what_was_lost_has_a_row_and_what_was_not_is_named() {
        let steps = Curves::of(&lines(2, |line| {
            line.set_named("rollout/samples", 100.0);
            line.set_named("rollout/invalid_samples", 3.0);
            line.set_named("rollout/failed_samples", 0.0);
            line.set_named("training/prompts_tried", 10.0);
            line.set_named("rollout/groups_all_correct", 5.0);
        }));
        let data = DataReport::of("sums", 7);
        let html = section(&steps, &[], Some(&data)).into_string();
        assert!(html.contains("<td>samples left out: no verdict</td><td>6</td><td>3.0 %</td>"), "{html}");
        assert!(html.contains("<td>groups all answers correct</td><td>10</td><td>50.0 %</td>"), "{html}");
        assert!(html.contains("None: samples of these not generated;") && html.contains("rows of the data merged"));
        assert!(section(&Curves::default(), &[], None).is_empty());
    }
}
