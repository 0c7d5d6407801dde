//! A comparison as text for a terminal.

use std::fmt::Write;

use evenkeel_statistics::Interval;

use crate::across::AcrossTasks;
use crate::arms::{ArmSummary, BenchmarkSummary, ByChance, MeasureSummary, Peak};
use crate::comparison::Comparison;
use crate::criterion::{ArmCourse, Criterion, PlanePoint, Preference};
use crate::late_loss::LATE_LOSS;
use crate::mean::Mean;
use crate::measure::Measure;
use crate::pairs::{Finding, PairedDifference};
use crate::table::TextTable;
use crate::table_one::HEADING;
use crate::task::TaskComparison;

const NONE: &str = "–";

impl Comparison {
    /// The comparison as text: a table of the arms of each task, the benchmarks where there are several, the pairs in
    /// the primary measure and what is shown in others, what holds over tasks, and the conclusions task by task. No
    /// colours; a `*` marks a difference that is shown. Lines are as long as their content.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for task in &self.tasks {
            let k = task.samples.map(|k| format!(", k = {k}")).unwrap_or_default();
            let _ = writeln!(text, "{}{k}\n\n{}", shown(&task.task), arms(task).text());
            if task.arms.iter().any(|arm| arm.benchmarks.len() > 1) {
                let _ = writeln!(text, "{}", benchmarks(task).text());
            }
            if !task.pairs.is_empty() {
                let _ = write!(text, "{}", pairs(task).text());
                if let Some(left_out) = pairs_left_out(task) {
                    let _ = writeln!(text, "{left_out}");
                }
                text.push('\n');
            }
            if let Some(losses) = losses(task) {
                let _ = writeln!(text, "{LATE_LOSS}\n\n{}", losses.text());
            }
            if let Some(criterion) = &task.criterion {
                let _ = writeln!(text, "{}", places(task, criterion).text());
            }
        }
        if let Some(table) = &self.table_one {
            let _ = writeln!(text, "{HEADING}\n\n{}", table.text_table().text());
            let _ = writeln!(text, "{}", table.other_table().text());
            let _ = writeln!(text, "{}", table.benchmark_table().text());
            table.notes().iter().for_each(|note| text.push_str(&format!("{}\n", shown(note))));
            text.push('\n');
        }
        for across in &self.across_tasks {
            let _ = writeln!(
                text,
                "{} over {} tasks\n\n{}",
                across.measure.name(),
                across.tasks.len(),
                over_tasks(across).text()
            );
        }
        text.push_str("What can and what cannot be concluded\n");
        for (heading, conclusions) in self.conclusions_by_task() {
            if let Some(heading) = heading {
                let _ = writeln!(text, "\n{}", shown(heading));
            }
            text.push('\n');
            for conclusion in conclusions {
                let _ = writeln!(text, "- {}", shown(&conclusion.text));
            }
        }
        if !self.remarks.is_empty() {
            text.push_str("\nAbout the runs that were read\n\n");
            self.remarks.iter().for_each(|said| text.push_str(&format!("- {}\n", shown(said))));
        }
        text
    }
}

pub(crate) fn shown(text: &str) -> String {
    evenkeel_errors::shown::one_line(text, evenkeel_errors::shown::MAX_MESSAGE_CHARS).into_owned()
}

/// An arm in each row. Brackets hold the part of a peak or a drop that is expected by chance.
pub(crate) fn arms(task: &TaskComparison) -> TextTable {
    let has = |measure: &Measure| task.arms.iter().any(|arm| arm.measure(*measure).is_some());
    let measures: Vec<Measure> = Measure::ALL.into_iter().filter(has).collect();
    let header =
        ["arm", "seeds", "failed", "collapsed"].into_iter().chain(measures.iter().map(|measure| measure.name()));
    let mut table = TextTable::new(header);
    for arm in &task.arms {
        let counts = [arm.seeds.len(), arm.failed.len(), arm.collapsed.len()].map(|count| count.to_string());
        let values = measures.iter().map(|measure| arm.measure(*measure).map_or_else(|| NONE.to_owned(), of_measure));
        table.row([arm.label.clone()].into_iter().chain(counts).chain(values));
    }
    table
}

fn of_measure(summary: &MeasureSummary) -> String {
    let mut text = with_error(&summary.mean, summary.measure);
    text.push_str(&by_chance(summary.by_chance.as_ref()));
    match summary.not_reached {
        Some(not_reached) if not_reached > 0 => format!("{text} ({not_reached} never)"),
        _ => text,
    }
}

/// A mean with half the width of its interval.
fn with_error(mean: &Mean, measure: Measure) -> String {
    let half = |Interval { low, high }| format!(" ± {}", measure.shown((high - low) / 2.0));
    measure.shown(mean.value) + &mean.interval.map(half).unwrap_or_default()
}

fn by_chance(by_chance: Option<&ByChance>) -> String {
    let expected = |chance: &ByChance| {
        let most = if chance.is_bound { "≤ " } else { "" };
        format!(" [{most}{:.3}]", chance.expected)
    };
    by_chance.map(expected).unwrap_or_default()
}

/// The loss late in the runs; `None` where no arm has one.
pub(crate) fn losses(task: &TaskComparison) -> Option<TextTable> {
    let mut table = TextTable::new(["arm", "mean", "deviation over steps"]);
    let known: Vec<_> = task.arms.iter().filter_map(|arm| Some((&arm.label, arm.loss?))).collect();
    known.iter().for_each(|(label, loss)| table.row([(*label).clone()].into_iter().chain(loss.cells())));
    (!known.is_empty()).then_some(table)
}

/// The columns of the paper's Table 1, and in the last rows of an arm the average.
pub(crate) fn benchmarks(task: &TaskComparison) -> TextTable {
    let columns = [Measure::PeakAccuracy, Measure::PeakBest, Measure::LastAccuracy, Measure::LastBest];
    let mut table = TextTable::new(["arm", "benchmark", "k"].into_iter().chain(columns.map(Measure::name)));
    let k = |samples: Option<u32>| samples.map_or_else(|| NONE.to_owned(), |samples| samples.to_string());
    for arm in &task.arms {
        for benchmark in &arm.benchmarks {
            let start = [arm.label.clone(), benchmark.name.clone(), k(benchmark.samples)];
            table.row(start.into_iter().chain(of_benchmark(benchmark)));
        }
        table.row([arm.label.clone(), "average".to_owned(), k(task.samples)].into_iter().chain(average(arm, columns)));
    }
    table
}

fn of_benchmark(benchmark: &BenchmarkSummary) -> [String; 4] {
    let last = |mean: &Mean| with_error(mean, Measure::LastAccuracy);
    let peak = |peak: &Peak| last(&peak.mean) + &by_chance(peak.by_chance.as_ref());
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    [
        peak(&benchmark.peak_accuracy),
        or_none(benchmark.peak_best.as_ref().map(peak)),
        last(&benchmark.last_accuracy),
        or_none(benchmark.last_best.as_ref().map(last)),
    ]
}

fn average(arm: &ArmSummary, columns: [Measure; 4]) -> [String; 4] {
    columns.map(|measure| arm.measure(measure).map_or_else(|| NONE.to_owned(), of_measure))
}

/// Whether a difference has a row: in the primary measure each does, in the others those that are shown.
fn has_row(task: &TaskComparison, pair: &PairedDifference) -> bool {
    task.primary.is_none_or(|primary| pair.measure == primary) || pair.finding.is_shown()
}

/// A sentence about the differences without a row.
pub(crate) fn pairs_left_out(task: &TaskComparison) -> Option<String> {
    let left_out = task.pairs.iter().filter(|pair| !has_row(task, pair)).count();
    let differences = if left_out == 1 { "1 difference" } else { &format!("{left_out} differences") };
    (left_out > 0).then(|| format!("Not listed: {differences} in other measures, none of them shown."))
}

/// A pair of arms and a measure in each row: the primary measure, and what is shown in others.
pub(crate) fn pairs(task: &TaskComparison) -> TextTable {
    let mut table =
        TextTable::new(["first − second", "measure", "seeds", "difference", "95 % interval", "exact p", "Holm p", ""]);
    for pair in task.pairs.iter().filter(|pair| has_row(task, pair)) {
        let PairedDifference { measure, difference, .. } = pair;
        let interval = |Interval { low, high }| format!("{} to {}", measure.shown(low), measure.shown(high));
        let mark = match pair.finding {
            Finding::TooFewSeeds { needed } => format!("below {needed} seeds"),
            Finding::NoSpread => "no spread".to_owned(),
            Finding::NotShown => String::new(),
            Finding::FirstHigher | Finding::SecondHigher => "*".to_owned(),
        };
        table.row([
            format!("{} − {}", task.arms[pair.first].label, task.arms[pair.second].label),
            measure.name().to_owned(),
            pair.seeds.len().to_string(),
            measure.shown(difference.value),
            difference.interval.map_or_else(|| NONE.to_owned(), interval),
            format!("{:.4}", pair.sign_flip.p),
            format!("{:.4}", pair.adjusted_p),
            mark,
        ]);
    }
    table
}

/// Where the runs lie in the plane of the paper's criterion.
fn places(task: &TaskComparison, criterion: &Criterion) -> TextTable {
    let header = ["place", "length variation", "gap, tokens", "of an answer", "deviations", "criterion prefers", ""];
    let mut table = TextTable::new(header);
    let verdict = |arm: usize| -> String {
        let of_arm = criterion.claims.iter().filter(|claim| claim.arm == arm);
        let words = of_arm.map(|claim| claim.words(&task.arms[claim.other].label));
        words.collect::<Vec<_>>().join("; ")
    };
    let mut row = |name: String, place: &PlanePoint, preference: Preference, verdict: String| {
        let deviations = place.deviations().map_or_else(|| NONE.to_owned(), |of| format!("{of:.2}"));
        let [gap, share] = place.shown_gap();
        let numbers = [format!("{:.3}", place.variation), gap, share, deviations];
        table.row([name].into_iter().chain(numbers).chain([preference.name().to_owned(), verdict]));
    };
    row("first steps, all arms".to_owned(), &criterion.start, criterion.preference, String::new());
    for ArmCourse { arm, end, preference, .. } in &criterion.arms {
        row(format!("last steps, {}", task.arms[*arm].label), end, *preference, verdict(*arm));
    }
    table
}

pub(crate) fn over_tasks(across: &AcrossTasks) -> TextTable {
    let interval = |Interval { low, high }| format!("{low:.3} to {high:.3}");
    let mut table = TextTable::new(["", "interquartile mean", "95 % interval"]);
    for arm in &across.arms {
        let own = arm.interval.map_or_else(|| NONE.to_owned(), interval);
        table.row([arm.label.clone(), format!("{:.3}", arm.interquartile_mean), own]);
    }
    for pair in &across.pairs {
        let names = format!("P({} > {})", across.arms[pair.first].label, across.arms[pair.second].label);
        table.row([names, format!("{:.3}", pair.probability), interval(pair.interval)]);
    }
    table
}
