//! `compare.html`: a comparison as one self-contained page.

use evenkeel_comparison::{
    ArmSummary, Collapse, Comparison, Conclusion, ConclusionKind, Finding, Mean, Measure, MeasureSummary,
    PairedDifference, Quantity, TaskComparison,
};
use evenkeel_report::{Chart, Figure, Html, Page, Point, Section, Series, Style, Table, figures};

use super::plane;

const NONE: &str = "–";
/// The columns of the paper's Table 1.
const TABLE_1: [Measure; 4] = [Measure::PeakAccuracy, Measure::PeakBest, Measure::LastAccuracy, Measure::LastBest];

/// The page of a comparison.
pub(super) fn page(comparison: &Comparison, title: &str) -> Page {
    let tasks = comparison.tasks.iter().map(|task| of_task(task, comparison.tasks.len() > 1)).collect();
    Page {
        title: title.to_owned(),
        kicker: Html::text("Evenkeel · comparison over seeds"),
        sections: vec![
            Section::new("conclusions", "What can and what cannot be concluded", conclusions(comparison)),
            Section::new("tasks", "", tasks),
            Section::new("across", "Over tasks", across(comparison)),
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

fn of_task(task: &TaskComparison, is_named: bool) -> Html {
    let mut html = Html::new();
    let k = task.samples.map_or_else(String::new, |k| format!(", k = {k}"));
    if is_named || !k.is_empty() {
        html.push(Html::element("h2", &[], format!("{}{k}", task.task).as_str()));
    }
    html.push(figures(curves(task)));
    html.push(plane::of_task(task));
    html.push(Html::element("h3", &[], "Arms")).push(arms(task));
    if task.arms.iter().any(|arm| arm.benchmarks.len() > 1) {
        html.push(Html::element("h3", &[], "Benchmarks")).push(benchmarks(task));
    }
    if !task.pairs.is_empty() {
        html.push(Html::element("h3", &[], "Differences, paired by seed")).push(differences(task));
    }
    html.with(lost(task))
}

/// Mean and interval over seeds by step, an arm in each colour.
fn curves(task: &TaskComparison) -> Vec<Figure> {
    let of = |quantity: &Quantity, title: &str, caption: &str| {
        let series = task.bands.iter().filter(|band| band.quantity == *quantity).map(|band| {
            let points = band.points.iter().map(|point| Point {
                x: point.step as f64,
                y: point.mean,
                interval: point.interval.map(|interval| (interval.low, interval.high)),
            });
            Series::new(task.arms[band.arm].label.clone(), Style::Band, points).coloured(band.arm + 1)
        });
        Figure::from(series.fold(Chart::new(title, caption), Chart::with))
    };
    let mut all = vec![
        of(&Quantity::Reward, "Reward", "Mean raw reward of a step over seeds, with its interval"),
        of(&Quantity::Accuracy, "Accuracy", "acc@k over seeds, with its interval"),
        of(&Quantity::Best, "best@k", "Any of k samples right, over seeds"),
    ];
    let mut named: Vec<&Quantity> = Vec::new();
    for band in &task.bands {
        if let Quantity::BenchmarkAccuracy { benchmark } = &band.quantity
            && !named.contains(&&band.quantity)
        {
            named.push(&band.quantity);
            all.push(of(&band.quantity, benchmark, "acc@k over seeds, with its interval"));
        }
    }
    all
}

/// An arm in each row, with what chance makes of peaks and drops in brackets.
fn arms(task: &TaskComparison) -> Html {
    let measures: Vec<Measure> = Measure::ALL
        .into_iter()
        .filter(|&measure| task.arms.iter().any(|arm| arm.measure(measure).is_some()))
        .collect();
    let mut table = Table::new(["arm", "seeds"].into_iter().chain(measures.iter().map(|measure| measure.name())));
    for arm in &task.arms {
        let start = [arm.label.clone(), arm.seeds.len().to_string()].map(Html::text);
        table.row(start.into_iter().chain(measures.iter().map(|measure| of_arm(arm, *measure))));
    }
    table.to_html().with(Html::paragraph(
        "± half the width of the interval over seeds. In brackets: the part of a peak or a drop that chance alone is expected to make, \
         since a peak is the highest of several noisy evaluations.",
    ))
}

fn of_measure(summary: &MeasureSummary) -> Html {
    let mut below = Vec::new();
    if let Some(chance) = summary.by_chance {
        below.push(format!("[{}{:.3}]", if chance.is_bound { "≤ " } else { "" }, chance.expected));
    }
    if let Some(seeds @ 1..) = summary.not_reached {
        below.push(format!("({seeds} never)"));
    }
    let html = Html::text(with_interval(&summary.mean, summary.measure));
    if below.is_empty() { html } else { html.with(Html::element("small", &[], below.join(" "))) }
}

/// What a measure of an arm is, where it has it.
fn of_arm(arm: &ArmSummary, measure: Measure) -> Html {
    arm.measure(measure).map_or_else(|| Html::text(NONE), of_measure)
}

fn with_interval(mean: &Mean, measure: Measure) -> String {
    let half = mean.interval.map(|interval| format!(" ± {}", measure.shown((interval.high - interval.low) / 2.0)));
    measure.shown(mean.value) + &half.unwrap_or_default()
}

fn benchmarks(task: &TaskComparison) -> Html {
    let mut table = Table::new(["arm", "benchmark"].into_iter().chain(TABLE_1.map(Measure::name)));
    for arm in &task.arms {
        for benchmark in &arm.benchmarks {
            let shown = |mean: Option<&Mean>, measure| {
                mean.map_or_else(|| NONE.to_owned(), |mean| with_interval(mean, measure))
            };
            let means = [
                Some(&benchmark.peak_accuracy.mean),
                benchmark.peak_best.as_ref().map(|peak| &peak.mean),
                Some(&benchmark.last_accuracy),
                benchmark.last_best.as_ref(),
            ];
            let cells = means.into_iter().zip(TABLE_1).map(|(mean, measure)| Html::text(shown(mean, measure)));
            table.row([&arm.label, &benchmark.name].map(Html::text).into_iter().chain(cells));
        }
        let average = TABLE_1.map(|measure| of_arm(arm, measure));
        table.row([arm.label.as_str(), "average"].map(Html::text).into_iter().chain(average));
    }
    table.to_html()
}

/// The primary measure, and the others behind a summary.
fn differences(task: &TaskComparison) -> Html {
    let is_primary = |pair: &&PairedDifference| task.primary.is_none_or(|primary| pair.measure == primary);
    let bold =
        "Bold: the interval excludes zero and the exact test stands after Holm's correction over the pairs of arms.";
    let html = pairs(task, task.pairs.iter().filter(is_primary)).with(Html::paragraph(bold));
    let others = || task.pairs.iter().filter(|pair| !is_primary(pair));
    if others().next().is_none() {
        return html;
    }
    let shown = others().filter(|pair| pair.finding.is_shown()).count();
    let summary = Html::text("In other measures").with(Html::element(
        "i",
        &[],
        format!(": {shown} of {} shown", others().count()),
    ));
    html.with(Html::element("details", &[], Html::element("summary", &[], summary).with(pairs(task, others()))))
}

fn pairs<'a>(task: &TaskComparison, pairs: impl Iterator<Item = &'a PairedDifference>) -> Html {
    let mut table =
        Table::new(["first − second", "measure", "seeds", "difference", "95 % interval", "exact p", "Holm p", ""]);
    for pair in pairs {
        let PairedDifference { measure, difference, .. } = pair;
        let said = match pair.finding {
            Finding::TooFewSeeds { needed } => format!("below {needed} seeds"),
            Finding::NoSpread => "no spread".to_owned(),
            Finding::NotShown => "not shown".to_owned(),
            Finding::FirstHigher | Finding::SecondHigher => "shown".to_owned(),
        };
        let interval = difference.interval;
        let interval = interval.map(|ends| format!("{} to {}", measure.shown(ends.low), measure.shown(ends.high)));
        let cells = [
            format!("{} − {}", task.arms[pair.first].label, task.arms[pair.second].label),
            measure.name().to_owned(),
            pair.seeds.len().to_string(),
            measure.shown(difference.value),
            interval.unwrap_or_else(|| NONE.to_owned()),
            format!("{:.4}", pair.sign_flip.p),
            format!("{:.4}", pair.adjusted_p),
            said,
        ];
        let cell = |text: String| match pair.finding.is_shown() {
            true => Html::element("b", &[], text.as_str()),
            false => Html::text(text),
        };
        table.row(cells.map(cell));
    }
    table.to_html()
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
        let mut table = Table::new(["arm", "interquartile mean", "95 % interval"]);
        for arm in &across.arms {
            let interval = arm.interval.map(|ends| format!("{:.3} to {:.3}", ends.low, ends.high));
            let mean = format!("{:.3}", arm.interquartile_mean);
            table.row([arm.label.clone(), mean, interval.unwrap_or_else(|| NONE.to_owned())]);
        }
        let mut pairs =
            Table::new(["a run of the first is higher than one of the second", "probability", "95 % interval"]);
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

    use evenkeel_comparison::{Arm, Evaluation, Lengths, Options, Run, RunState, Score, Scores};

    use super::*;

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
            benchmarks: BTreeMap::from([(
                "<b>sums".to_owned(),
                Scores { samples: 8, mean: score(step), best: Some(score(step + 1)) },
            )]),
        };
        let lengths =
            |step| Lengths { step, variation: 0.3 + 0.1 * noise(step, salt), gap: 9.0 + noise(step, salt), mean: 20.0 };
        Run {
            name: format!("{rule}-{seed}"),
            task: "sums".to_owned(),
            arm: Arm(BTreeMap::from([("learner.objective.aggregation".to_owned(), rule.to_owned())])),
            seed,
            identity: BTreeMap::new(),
            evaluations: (0..=steps).step_by(20).map(evaluation).collect(),
            rewards: (0..steps).map(|step| (step, noise(step, salt))).collect(),
            rule: Some(rule.to_owned()),
            lengths: (0..steps).map(lengths).collect(),
            state: RunState::Finished,
        }
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
