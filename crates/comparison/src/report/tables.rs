//! Tables of a task for `compare.html`: arms, benchmarks, differences.

use evenkeel_charts::{Html, HtmlTable};

use crate::arms::{ArmSummary, MeasureSummary};
use crate::late_loss::LATE_LOSS;
use crate::mean::Mean;
use crate::measure::Measure;
use crate::pairs::{Finding, PairedDifference};
use crate::task::TaskComparison;

/// What stands where there is no value.
pub(super) const NONE: &str = "–";
/// The columns of the paper's Table 1.
const TABLE_1: [Measure; 4] = [Measure::PeakAccuracy, Measure::PeakBest, Measure::LastAccuracy, Measure::LastBest];

/// An arm in each row, with the part of peaks and drops that chance explains in brackets.
pub(super) fn arms(task: &TaskComparison) -> Html {
    let measures: Vec<Measure> = Measure::ALL
        .into_iter()
        .filter(|&measure| task.arms.iter().any(|arm| arm.measure(measure).is_some()))
        .collect();
    let mut table = HtmlTable::new(["arm", "seeds"].into_iter().chain(measures.iter().map(|measure| measure.name())));
    for arm in &task.arms {
        let start = [arm.label.clone(), arm.seeds.len().to_string()].map(Html::text);
        table.row(start.into_iter().chain(measures.iter().map(|measure| of_arm(arm, *measure))));
    }
    table.to_html().with(Html::paragraph(
        "± half the width of the interval over seeds. In brackets: the part of a peak or a drop that chance alone is \
         expected to make, since a peak is the highest of several noisy evaluations.",
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

/// The loss late in the runs. Empty where no arm has one.
pub(super) fn losses(task: &TaskComparison) -> Html {
    let mut table = HtmlTable::new(["arm", "mean", "deviation over steps"]);
    for arm in &task.arms {
        if let Some(loss) = &arm.loss {
            table.row([arm.label.clone()].into_iter().chain(loss.cells()));
        }
    }
    if table.is_empty() {
        return Html::new();
    }
    Html::element("h3", &[], LATE_LOSS).with(table.to_html())
}

pub(super) fn benchmarks(task: &TaskComparison) -> Html {
    let mut table = HtmlTable::new(["arm", "benchmark"].into_iter().chain(TABLE_1.map(Measure::name)));
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

/// The primary measure, and the others below a summary.
pub(super) fn differences(task: &TaskComparison) -> Html {
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
        HtmlTable::new(["first − second", "measure", "seeds", "difference", "95 % interval", "exact p", "Holm p", ""]);
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
        let cell = |text: String| {
            if pair.finding.is_shown() { Html::element("b", &[], text.as_str()) } else { Html::text(text) }
        };
        table.row(cells.map(cell));
    }
    table.to_html()
}
