//! `compare.html`: a comparison as one self-contained page.

use evenkeel_charts::{Chart, Figure, Html, HtmlTable, Page, Point, Section, Series, Style, figures};

use crate::arms::ArmSummary;
use crate::bands::{Band, Quantity};
use crate::collapse::Collapse;
use crate::comparison::Comparison;
use crate::conclusions::{Conclusion, ConclusionKind};
use crate::task::TaskComparison;

use super::plane;
use super::tables::{NONE, arms, benchmarks, differences, losses};
use crate::table_one::HEADING as TABLE_ONE;
use crate::training::Training;

/// Seeds from which on an interval is drawn: with two, Student's is 12.7 standard errors wide, and hides the curves.
const LEAST_SEEDS: usize = 3;
/// The bounds of a quantity that has none.
const UNBOUNDED: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

/// The page of a comparison.
pub(super) fn page(comparison: &Comparison, title: &str) -> Page {
    let tasks = comparison.tasks.iter().map(|task| of_task(task, comparison.tasks.len() > 1)).collect();
    Page {
        title: title.to_owned(),
        kicker: Html::text("Evenkeel · comparison over seeds"),
        sections: vec![
            Section::new("conclusions", "What can and what cannot be concluded", conclusions(comparison)),
            Section::new("table-1", TABLE_ONE, table_one(comparison)),
            Section::new("tasks", "", tasks),
            Section::new("across", "Over tasks", across(comparison)),
            Section::new("remarks", "About the runs that were read", remarks(comparison)),
        ],
        footer: Html::text("Intervals are of 95 %. docs/statistics.md says how each number is computed."),
    }
}

fn conclusions(comparison: &Comparison) -> Html {
    let item = |conclusion: &Conclusion| {
        let text = Html::text(&conclusion.text);
        let text = match conclusion.kind {
            ConclusionKind::Shown => Html::element("b", &[], text),
            ConclusionKind::NotShown | ConclusionKind::Inconclusive | ConclusionKind::Caution => text,
        };
        Html::element("li", &[], text)
    };
    let group = |(heading, conclusions): (Option<&str>, &[Conclusion])| {
        let heading = heading.map_or_else(Html::new, |heading| Html::element("h3", &[], heading));
        heading.with(Html::element("ul", &[], conclusions.iter().map(item).collect::<Html>()))
    };
    comparison.conclusions_by_task().into_iter().map(group).collect()
}

fn table_one(comparison: &Comparison) -> Html {
    let Some(table) = &comparison.table_one else { return Html::new() };
    table.to_html().with(figures([Figure::from(table.figure())]))
}

fn remarks(comparison: &Comparison) -> Html {
    if comparison.remarks.is_empty() {
        return Html::new();
    }
    let items = comparison.remarks.iter().map(|said| Html::element("li", &[], said.as_str())).collect::<Html>();
    Html::element("ul", &[], items)
}

fn of_task(task: &TaskComparison, is_named: bool) -> Html {
    let mut html = Html::new();
    let k = task.samples.map_or_else(String::new, |k| format!(", k = {k}"));
    if is_named || !k.is_empty() {
        html.push(Html::element("h2", &[], format!("{}{k}", task.task).as_str()));
    }
    let plane = task.criterion.as_ref().map(|criterion| Figure::from(plane::figure(task, criterion)));
    html.push(figures(curves(task).into_iter().chain(plane)));
    let pooled = Training::ALL.into_iter().filter(|quantity| quantity.is_pooled()).map(|of| training(task, of));
    let pooled = figures(pooled.filter(|chart| !chart.is_empty()).map(Figure::from));
    if !pooled.is_empty() {
        let summary = Html::element("summary", &[], "Lengths pooled over a step");
        html.push(Html::element("details", &[], summary.with(pooled)));
    }
    html.push(plane::of_task(task));
    html.push(Html::element("h3", &[], "Arms")).push(arms(task));
    html.push(losses(task));
    if task.arms.iter().any(|arm| arm.benchmarks.len() > 1) {
        html.push(Html::element("h3", &[], "Benchmarks")).push(benchmarks(task));
    }
    if !task.pairs.is_empty() {
        html.push(Html::element("h3", &[], "Differences, paired by seed")).push(differences(task));
    }
    html.with(lost(task))
}

/// What the paper plots, by step and arm.
fn training(task: &TaskComparison, of: Training) -> Chart {
    let bands = task.bands.iter().filter(|band| band.quantity == Quantity::Training(of));
    let series = bands.map(|band| series(task, band, UNBOUNDED));
    series.fold(Chart::new(of.title(), of.caption()).measured_in(of.unit()), Chart::with)
}

/// The mean of an arm by step, with its interval, of which what is within these bounds is drawn.
fn series(task: &TaskComparison, band: &Band, (least, most): (f64, f64)) -> Series {
    let points = band.points.iter().map(|point| Point {
        x: point.step as f64,
        y: point.mean,
        interval: point
            .interval
            .filter(|_| point.seeds >= LEAST_SEEDS)
            .map(|interval| (interval.low.max(least), interval.high.min(most))),
    });
    Series::new(task.arms[band.arm].label.clone(), Style::Band, points).coloured(band.arm + 1)
}

/// Mean and interval over seeds by step, an arm in each colour.
fn curves(task: &TaskComparison) -> Vec<Figure> {
    let chart = |quantity: &Quantity, title: &str, caption: &str| {
        let series = task.bands.iter().filter(|band| band.quantity == *quantity).map(|band| {
            // An interval of Student's may leave the range that accuracies have.
            series(task, band, if *quantity == Quantity::Reward { UNBOUNDED } else { (0.0, 1.0) })
        });
        let axis = if *quantity == Quantity::Reward { "raw reward" } else { "share of problems, 0 to 1" };
        Figure::from(series.fold(Chart::new(title, caption).measured_in(axis), Chart::with))
    };
    let mut all = vec![
        chart(
            &Quantity::Reward,
            "Reward",
            "Mean raw reward of a step over seeds, with its interval from three seeds on",
        ),
        chart(&Quantity::Accuracy, "Accuracy", "mean@k over seeds, with its interval from three seeds on"),
        chart(&Quantity::Best, "best@k", "Any of k samples correct, over seeds"),
    ];
    all.extend(Training::ALL.into_iter().filter(|of| !of.is_pooled()).map(|of| Figure::from(training(task, of))));
    let mut named: Vec<&Quantity> = Vec::new();
    for band in &task.bands {
        if let Quantity::BenchmarkAccuracy { benchmark } = &band.quantity
            && !named.contains(&&band.quantity)
        {
            named.push(&band.quantity);
            all.push(chart(&band.quantity, benchmark, "mean@k over seeds, with its interval from three seeds on"));
        }
    }
    all
}

/// Seeds that failed or collapsed, each with how.
fn lost(task: &TaskComparison) -> Html {
    let mut items = Vec::new();
    for ArmSummary { label, failed, collapsed, .. } in &task.arms {
        items.extend(failed.iter().map(|seed| format!("{label}, seed {}: failed: {}", seed.seed, seed.reason)));
        items.extend(collapsed.iter().map(|seed| format!("{label}, seed {}: {}", seed.seed, words(&seed.collapse))));
    }
    if items.is_empty() {
        return Html::new();
    }
    let items = items.iter().map(|item| Html::element("li", &[], item.as_str())).collect::<Html>();
    Html::element("h3", &[], "Seeds that failed or collapsed").with(Html::element("ul", &[], items))
}

fn words(collapse: &Collapse) -> String {
    match collapse {
        Collapse::NotFinite { step } => format!("the reward of step {step} is not finite; it counts"),
        Collapse::WorseThanBefore { first, last } => {
            format!("the reward fell from {first:.3} to {last:.3}, below where it began; it counts")
        }
    }
}

fn across(comparison: &Comparison) -> Html {
    let mut html = Html::new();
    for across in &comparison.across_tasks {
        let mut table = HtmlTable::new(["arm", "interquartile mean", "95 % interval"]);
        for arm in &across.arms {
            let interval = arm.interval.map(|ends| format!("{:.3} to {:.3}", ends.low, ends.high));
            let mean = format!("{:.3}", arm.interquartile_mean);
            table.row([arm.label.clone(), mean, interval.unwrap_or_else(|| NONE.to_owned())]);
        }
        let mut pairs =
            HtmlTable::new(["a run of the first is higher than one of the second", "probability", "95 % interval"]);
        for pair in &across.pairs {
            let cells = [
                format!("{}, {}", across.arms[pair.first].label, across.arms[pair.second].label),
                format!("{:.2}", pair.probability),
                format!("{:.2} to {:.2}", pair.interval.low, pair.interval.high),
            ];
            pairs.row(cells);
        }
        html.push(Html::element("h3", &[], across.measure.name())).push(table.to_html()).push(pairs.to_html());
    }
    html.with(plane::of_tasks(&comparison.criterion))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::options::Options;
    use crate::run::{Arm, Evaluation, Lengths, Run, RunEnd, Score, Scores};

    const RULES: [&str; 3] = ["token", "sequence", "balanced"];

    /// A number that compresses as badly as a measured one.
    fn noise(step: u64, salt: u64) -> f64 {
        ((step * 7919 + salt * 104_729) % 100_003) as f64 / 100_003.0
    }

    fn run(rule: &str, seed: u64, steps: u64) -> Run {
        let salt = seed * 31 + rule.len() as u64;
        let score = |step| Score { value: noise(step, salt), sampling_error: Some(0.01), standard_error: Some(0.02) };
        let evaluation = |step| Evaluation {
            step,
            verified: Some(true),
            benchmarks: BTreeMap::from([(
                "<b>sums".to_owned(),
                Scores { samples: 8, mean: score(step), best: Some(score(step + 1)), drawn: Some(noise(step, salt)) },
            )]),
        };
        let lengths =
            |step| Lengths { step, variation: 0.3 + 0.1 * noise(step, salt), gap: 9.0 + noise(step, salt), mean: 20.0 };
        Run {
            name: format!("{rule}-{seed}"),
            task: "sums".to_owned(),
            setting: None,
            arm: Arm(BTreeMap::from([("learner.objective.aggregation".to_owned(), rule.to_owned())])),
            seed,
            identity: BTreeMap::new(),
            evaluations: (0..=steps).step_by(20).map(evaluation).collect(),
            rewards: (0..steps).map(|step| (step, noise(step, salt))).collect(),
            training: Training::ALL
                .into_iter()
                .map(|of| (of, (0..steps).map(|step| (step, noise(step, salt + 7))).collect()))
                .collect(),
            rule: Some(rule.to_owned()),
            lengths: (0..steps).map(lengths).collect(),
            state: RunEnd::Finished,
        }
    }

    #[test]
    fn two_seeds_draw_no_interval_and_three_do() {
        let html = |seeds: u64| {
            let runs: Vec<Run> = RULES.iter().flat_map(|rule| (0..seeds).map(move |seed| run(rule, seed, 4))).collect();
            page(&Comparison::of(&runs, &Options { resamples: 199, ..Options::default() }).unwrap(), "a").to_document()
        };
        assert!(!html(2).contains("class=\"band") && html(3).contains("class=\"band"));
    }

    #[test]
    fn five_hundred_steps_of_twelve_runs_weigh_less_than_five_megabytes() {
        let runs: Vec<Run> = RULES.iter().flat_map(|rule| (0..4).map(move |seed| run(rule, seed, 500))).collect();
        let comparison = Comparison::of(&runs, &Options { resamples: 199, ..Options::default() }).unwrap();
        let html = page(&comparison, "a<i>").to_document();
        assert!(html.len() < 5_000_000, "{} bytes", html.len());
        assert!(!html.contains("<script") && !html.contains("<b>sums") && !html.contains("a<i>"));
        assert!(
            html.contains("Where the runs lie") && html.contains("the paper&#39;s criterion prefers sequence to token"),
            "{html}"
        );
    }
}
