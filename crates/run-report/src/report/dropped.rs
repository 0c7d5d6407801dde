//! What a run did not train on or could not judge, and why.

use std::collections::BTreeMap;

use evenkeel_charts::{Html, HtmlTable, percent, thousands};
use evenkeel_data::DataReport;
use evenkeel_run::at_k::AVERAGE;
use evenkeel_run::{Curves, LeftOut, MetricsLine};

/// Counts of samples: what it is, and its metric.
const SAMPLES: [(&str, &str); 6] = [
    ("samples left out, since they have no verdict", "rollout/invalid_samples"),
    ("… of them: could not be generated", "rollout/failed_samples"),
    ("… of them: too late", "rollout/late_samples"),
    ("samples whose answer is copied from the prompt: judged wrong", "rollout/copied_samples"),
    ("samples generated again after a failure", "rollout/begun_again"),
    ("samples verified again after a failure", "rollout/verified_again"),
];
const GROUPS: [(&str, &str); 5] = [
    ("groups with equal rewards, dropped by dynamic sampling", "training/filter_groups/dropped_groups"),
    ("groups with equal rewards, kept to fill a step up", "training/filter_groups/filled_up_groups"),
    ("groups trained on whose answers are all correct", "rollout/groups_all_correct"),
    ("groups trained on of whose answers none is correct", "rollout/groups_all_incorrect"),
    ("groups trained on that gave no gradient", "actor/groups_without_signal"),
];

pub(super) fn section(steps: &Curves, evaluations: &[MetricsLine], data: Option<&DataReport>) -> Html {
    let mut table = HtmlTable::new(["what", "count", "share"]);
    let mut add = |what: String, count: f64, of: Option<f64>| {
        let share = of.filter(|of| *of > 0.0).map_or_else(|| "–".to_owned(), |of| percent(count / of, None));
        let cells = [what, thousands(count as u64), share];
        if count > 0.0 {
            table.row(cells)
        } else {
            table.faint_row(cells)
        };
    };
    if !steps.is_empty() {
        let samples = steps.sum("rollout/samples");
        for (what, name) in SAMPLES {
            add(what.to_owned(), steps.sum(name), Some(samples));
        }
        let tried = steps.sum("training/prompts_tried");
        for (what, name) in GROUPS {
            if !steps.column(name).is_empty() {
                add(what.to_owned(), steps.sum(name), Some(tried));
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
    table.to_html().with(LeftOut::of(steps).map_or_else(Html::new, |answers| compared(&answers)))
}

/// The answers of training that were left out beside those that were judged, with a sentence.
fn compared(answers: &LeftOut) -> Html {
    let LeftOut { left_out, judged } = answers;
    let mut table =
        HtmlTable::new(["answers without a verdict", "left out", "share", "judged in the same steps", "share"]);
    let share = |count: u64, of: u64| if of > 0 { percent(count as f64 / of as f64, None) } else { "–".to_owned() };
    for ((what, count), (_, other)) in left_out.properties().into_iter().zip(judged.properties()) {
        let shares = [share(count, left_out.answers), share(other, judged.answers)];
        let [first, second] = shares;
        table.row([what.to_owned(), thousands(count), first, thousands(other), second]);
    }
    let heading = Html::element("h3", &[], "Answers left out");
    heading.with(Html::paragraph(answers.sentence())).with(table.to_html())
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
    fn answers_left_out_stand_beside_those_that_were_judged() {
        let steps = Curves::of(&lines(2, |line| {
            for (name, value) in [("left_out/answers", 4.0), ("left_out/length_q4", 4.0), ("judged/answers", 60.0)] {
                line.set_named(format!("rollout/{name}"), value);
            }
            line.set_named("rollout/judged/length_q1", 57.0);
            line.set_named("rollout/judged/length_q4", 3.0);
            line.set_named("rollout/left_out/marked", 4.0);
            line.set_named("rollout/judged/marked", 60.0);
        }));
        let html = section(&steps, &[], None).into_string();
        let sentence =
            "100 % of the 8 answers left out are of the longest quarter, beside 5 % of those judged in the same steps.";
        assert!(html.contains(sentence), "{html}");
        let row = "<td>are of the longest quarter</td><td>8</td><td>100.0 %</td><td>6</td><td>5.0 %</td>";
        assert!(html.contains(row), "{html}");
        assert!(!section(&Curves::of(&lines(2, |_| ())), &[], None).into_string().contains("Answers left out"));
    }

    #[test]
    fn what_was_lost_has_a_row_and_what_was_not_a_faint_one() {
        let steps = Curves::of(&lines(2, |line| {
            line.set_named("rollout/samples", 100.0);
            line.set_named("rollout/invalid_samples", 3.0);
            line.set_named("rollout/failed_samples", 0.0);
            line.set_named("training/prompts_tried", 10.0);
            line.set_named("rollout/groups_all_correct", 5.0);
        }));
        let data = DataReport::of("sums", 7);
        let html = section(&steps, &[], Some(&data)).into_string();
        assert!(
            html.contains("<td>samples left out, since they have no verdict</td><td>6</td><td>3.0 %</td>"),
            "{html}"
        );
        assert!(html.contains("whose answers are all correct</td><td>10</td><td>50.0 %</td>"), "{html}");
        assert!(html.contains("<tr class=\"zeros\"><td>… of them: could not be generated</td><td>0</td>"), "{html}");
        assert!(html.contains("<td>rows of the data merged"));
        assert!(section(&Curves::default(), &[], None).is_empty());
    }
}
