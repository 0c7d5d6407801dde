//! The table of steps.

use evenkeel_report::{Html, Table, number};
use evenkeel_run_files::Curves;
use evenkeel_run_metrics::{MetricName, table as metric};

/// Rows of the table.
const ROWS: u64 = 12;

/// The columns, each with the name of its values.
fn columns() -> [(&'static str, MetricName); 8] {
    [
        (metric::SCORE.title, metric::SCORE.choosing("mean")),
        (metric::RESPONSE_LENGTH.title, metric::RESPONSE_LENGTH.choosing("mean")),
        (metric::LENGTH_GAP.title, metric::LENGTH_GAP.into()),
        (metric::ENTROPY.title, metric::ENTROPY.into()),
        (metric::GRADIENT_NORM.title, metric::GRADIENT_NORM.into()),
        (metric::CLIPPED.title, metric::CLIPPED.into()),
        (metric::STEP_TIME.title, metric::STEP_TIME.into()),
        (metric::THROUGHPUT.title, metric::THROUGHPUT.into()),
    ]
}

/// Evenly spaced steps, including the first and the last.
pub(super) fn table(steps: &Curves) -> Html {
    let columns = columns();
    let mut table = Table::new(std::iter::once("step").chain(columns.iter().map(|(title, _)| *title)));
    let Some(last) = steps.last_step().filter(|last| *last > 0) else { return Html::new() };
    let rows = steps.count().min(ROWS);
    for row in 0..rows {
        let step = 1 + row * (last - 1) / (rows - 1).max(1);
        let value = |name: &MetricName| steps.at(name.as_str(), step).map_or_else(|| "–".to_owned(), number);
        table.row(std::iter::once(step.to_string()).chain(columns.iter().map(|(_, name)| value(name))));
    }
    table.to_html()
}
