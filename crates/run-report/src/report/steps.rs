//! The table of steps.

use evenkeel_report::{Html, Table, number};
use evenkeel_run_files::Curves;

/// Rows of the table.
const ROWS: u64 = 12;

const COLUMNS: [(&str, &str); 8] = [
    ("reward", "critic/score/mean"),
    ("length", "response_length/mean"),
    ("length gap", "aggregation/length_gap"),
    ("entropy", "actor/entropy"),
    ("gradient norm", "actor/grad_norm"),
    ("clipped", "actor/pg_clipfrac"),
    ("seconds", "timing_s/step"),
    ("tokens/s", "perf/throughput"),
];

/// Evenly spaced steps, including the first and the last.
pub(super) fn table(steps: &Curves) -> Html {
    let mut table = Table::new(std::iter::once("step").chain(COLUMNS.map(|(title, _)| title)));
    let Some(last) = steps.last_step() else { return Html::new() };
    let rows = steps.count().min(ROWS);
    for row in 0..rows {
        let step = row * last / (rows - 1).max(1);
        let value = |name: &str| steps.at(name, step).map_or_else(|| "–".to_owned(), number);
        table.row(std::iter::once((step + 1).to_string()).chain(COLUMNS.map(|(_, name)| value(name))));
    }
    table.to_html()
}
