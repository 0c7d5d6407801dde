//! Table 1 as text, as Markdown and as part of a page.

use std::collections::BTreeSet;

use evenkeel_charts::{Bar, Bars, Html, HtmlTable, csv_cell};

use super::{COLUMNS, Columns, Published, TableOne};
use crate::arms::OtherReadings;
use crate::mean::Mean;
use crate::measure::Measure;
use crate::table::TextTable;

const NONE: &str = "–";
/// What the first cell of a mean over tasks says.
const MEAN: &str = "mean over tasks";
pub(crate) const HEADING: &str = "Peak and last accuracy, as in the paper's Table 1";
const OTHERS: &str = "These columns by other definitions";
/// Columns of the other definitions.
const OTHER_COLUMNS: [&str; 4] =
    ["peak mean@k, mean of peaks", "peak best@k, mean of peaks", "peak best@k/mean", "last best@k/mean"];

/// Task, arm, seeds, values and the paper's.
type Line = (String, String, String, [Option<Mean>; 4], Option<Published>);

impl TableOne {
    fn lines(&self) -> Vec<Line> {
        let row = |row: &super::TableOneRow| {
            let seeds = row.seeds.to_string();
            (row.task.clone(), row.arm.clone(), seeds, row.columns.values(), row.published)
        };
        let mean = |over: &super::OverTasks| {
            (MEAN.to_owned(), over.arm.clone(), String::new(), over.columns.values(), over.published)
        };
        self.rows.iter().map(row).chain(self.over_tasks.iter().map(mean)).collect()
    }

    fn has_published(&self) -> bool {
        self.rows.iter().any(|row| row.published.is_some())
    }

    /// An arm of a task in each row; where the paper has numbers of it, each behind its own.
    pub(crate) fn text_table(&self) -> TextTable {
        let header = ["task", "arm", "seeds"].into_iter().map(str::to_owned);
        let column = |measure: &Measure| {
            let name = measure.name().to_owned();
            if self.has_published() { vec![name, "paper".to_owned()] } else { vec![name] }
        };
        let mut table = TextTable::new(header.chain(COLUMNS.iter().flat_map(column)));
        for (task, arm, seeds, values, published) in self.lines() {
            let cell = |column: usize| {
                let own = shown(values[column].as_ref());
                if self.has_published() { vec![own, of_paper(published, column)] } else { vec![own] }
            };
            table.row([task, arm, seeds].into_iter().chain((0..4).flat_map(cell)));
        }
        table
    }

    /// The columns by other definitions.
    pub(crate) fn other_table(&self) -> TextTable {
        let mut table = TextTable::new(["task", "arm"].into_iter().chain(OTHER_COLUMNS));
        for row in &self.rows {
            let values = others(&row.other_readings).map(|mean| shown(mean.as_ref()));
            table.row([row.task.clone(), row.arm.clone()].into_iter().chain(values));
        }
        table
    }

    /// mean@k of each benchmark at the peak and at the last step.
    pub(crate) fn benchmark_table(&self) -> TextTable {
        let mut table = TextTable::new(["benchmark", "arm", "tasks", "peak mean@k", "last mean@k"]);
        for found in &self.benchmarks {
            let values = [shown(Some(&found.peak)), shown(Some(&found.last))];
            let start = [found.benchmark.clone(), found.arm.clone(), found.tasks.to_string()];
            table.row(start.into_iter().chain(values));
        }
        table
    }

    /// What must be known to read the tables.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "Peaks are those of the curve averaged over benchmarks; best@k is any of the k samples. The paper defines \
             neither: the second table has the mean of the benchmarks' own peaks, and verl's best@k by k draws with \
             replacement."
                .to_owned(),
        ];
        if self.has_published() {
            notes.push(
                "The paper's numbers are of one run each, judged by another verifier, and means over six benchmarks: \
                 a row that lacks one of them (see what was left out) is another mean. Sampling alone moves a mean over \
                 six by about half a point."
                    .to_owned(),
            );
        }
        if !self.over_tasks.is_empty() {
            notes.push(format!("Means over tasks are of {}.", self.averaged.join(", ")));
        }
        notes.extend(self.left_out.iter().map(|said| format!("Left out: {said}.")));
        notes
    }

    /// The section of a page.
    pub(crate) fn to_html(&self) -> Html {
        let mut table =
            HtmlTable::new(["task", "arm", "seeds"].into_iter().chain(COLUMNS.iter().map(|column| column.name())));
        for (task, arm, seeds, values, published) in self.lines() {
            let cell = |column: usize| {
                let own = Html::text(shown(values[column].as_ref()));
                match published {
                    None => own,
                    Some(_) => own.with(Html::element("small", &[], format!("paper {}", of_paper(published, column)))),
                }
            };
            table.row([task, arm, seeds].map(Html::text).into_iter().chain((0..4).map(cell)));
        }
        let mut other = HtmlTable::new(["task", "arm"].into_iter().chain(OTHER_COLUMNS));
        for row in &self.rows {
            let values = others(&row.other_readings).map(|mean| shown(mean.as_ref()));
            other.row([row.task.clone(), row.arm.clone()].into_iter().chain(values));
        }
        let notes = self.notes().into_iter().map(|note| Html::element("li", &[], note)).collect::<Html>();
        let summary = Html::element("summary", &[], OTHERS);
        table.to_html().with(Html::element("ul", &[("class", "said")], notes)).with(Html::element(
            "details",
            &[],
            summary.with(other.to_html()),
        ))
    }

    /// The paper's figure: mean@k of each benchmark at the peak and at the last step, an arm in each colour.
    pub(crate) fn figure(&self) -> Bars {
        let mut bars = Vec::new();
        let mut heading: Option<&str> = None;
        // As in the curves of each task, whose arms are in the order of their settings.
        let arms: BTreeSet<&str> = self.benchmarks.iter().map(|found| found.arm.as_str()).collect();
        for found in &self.benchmarks {
            let colour = arms.iter().position(|arm| *arm == found.arm.as_str()).unwrap_or(0) + 1;
            for (what, mean) in [("peak", &found.peak), ("last", &found.last)] {
                let mut bar = Bar::new(format!("{}, {what}", found.arm), mean.value).coloured(colour);
                if let Some(interval) = mean.interval {
                    // An interval of Student's may leave the range that accuracies have.
                    bar = bar.between(interval.low.max(0.0), interval.high.min(1.0));
                }
                bar = bar.written(format!("{:.3}", mean.value));
                if heading != Some(found.benchmark.as_str()) {
                    heading = Some(&found.benchmark);
                    let tasks = if found.tasks == 1 { "1 task".to_owned() } else { format!("{} tasks", found.tasks) };
                    bar = bar.headed(format!("{} ({tasks})", found.benchmark));
                }
                bars.push(bar);
            }
        }
        let caption = "mean@k of each benchmark at its peak and at the last step, averaged over the tasks in which every \
                       arm has it";
        Bars::new("Peak against last accuracy", caption, bars)
    }

    /// Every value with its definition, its interval and the paper's number, in a row of its own.
    pub(crate) fn to_csv(&self) -> String {
        let mut text = "task,arm,seeds,column,value,low,high,paper\n".to_owned();
        let mut line = |head: &str, column: &str, mean: Option<&Mean>, paper: Option<f64>| {
            let Some(mean) = mean else { return };
            let (low, high) =
                mean.interval.map_or_else(Default::default, |ends| (ends.low.to_string(), ends.high.to_string()));
            let paper = paper.map(|paper| paper.to_string()).unwrap_or_default();
            text.push_str(&format!("{head},{column},{},{low},{high},{paper}\n", mean.value));
        };
        for (task, arm, seeds, values, published) in self.lines() {
            let head = format!("{},{},{seeds}", csv_cell(&task), csv_cell(&arm));
            for (column, (measure, mean)) in COLUMNS.iter().zip(&values).enumerate() {
                let paper = published.map(|paper: Columns<f64>| paper.values()[column]);
                line(&head, measure.name(), mean.as_ref(), paper);
            }
        }
        for row in &self.rows {
            let head = format!("{},{},{}", csv_cell(&row.task), csv_cell(&row.arm), row.seeds);
            for (name, mean) in OTHER_COLUMNS.iter().zip(others(&row.other_readings)) {
                line(&head, &csv_cell(name), mean.as_ref(), None);
            }
        }
        text
    }
}

fn others(readings: &OtherReadings) -> [Option<Mean>; 4] {
    [readings.mean_of_peaks, readings.mean_of_best_peaks, readings.peak_drawn, readings.last_drawn]
}

/// A mean with half the width of its interval, where it has one.
fn shown(mean: Option<&Mean>) -> String {
    let cell = |mean: &Mean| {
        let half = mean.interval.map(|ends| format!(" ± {:.4}", (ends.high - ends.low) / 2.0));
        format!("{:.4}{}", mean.value, half.unwrap_or_default())
    };
    mean.map_or_else(|| NONE.to_owned(), cell)
}

fn of_paper(published: Option<Published>, column: usize) -> String {
    published.map_or_else(|| NONE.to_owned(), |paper| format!("{:.4}", paper.values()[column]))
}
