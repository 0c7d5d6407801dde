//! The table of steps.

use evenkeel_charts::{Html, HtmlTable, number};
use evenkeel_run::Curves;
use evenkeel_run::metric::{Metric, MetricName, Unit, table as metric};

/// Rows of the table.
const ROWS: u64 = 12;

/// The columns, each with the name of its values.
fn columns() -> [(Metric, MetricName); 8] {
    [
        (metric::SCORE, metric::SCORE.choosing("mean")),
        (metric::RESPONSE_LENGTH, metric::RESPONSE_LENGTH.choosing("mean")),
        (metric::LENGTH_GAP, metric::LENGTH_GAP.into()),
        (metric::ENTROPY, metric::ENTROPY.into()),
        (metric::GRADIENT_NORM, metric::GRADIENT_NORM.into()),
        (metric::CLIPPED, metric::CLIPPED.into()),
        (metric::STEP_TIME, metric::STEP_TIME.into()),
        (metric::THROUGHPUT, metric::THROUGHPUT.into()),
    ]
}

/// Evenly spaced steps, including the first and the last.
pub(super) fn table(steps: &Curves) -> Html {
    let columns = columns();
    let heading = |(metric, _): &(Metric, MetricName)| match metric.unit {
        Unit::None | Unit::Share => metric.title.to_owned(),
        unit => format!("{}, {}", metric.title, unit.label()),
    };
    let mut table = HtmlTable::new(std::iter::once("step".to_owned()).chain(columns.iter().map(heading)));
    let Some(last) = steps.last_step().filter(|last| *last > 0) else { return Html::new() };
    let rows = steps.count().min(ROWS);
    let mut shown = Vec::new();
    for row in 0..rows {
        let step = 1 + row * (last - 1) / (rows - 1).max(1);
        shown.push(step);
    }
    let digits: Vec<usize> = columns
        .iter()
        .map(|(_, name)| {
            shown.iter().filter_map(|step| steps.at(name.as_str(), *step)).map(decimals).max().unwrap_or(0)
        })
        .collect();
    for step in shown {
        let value = |(name, digits): (&MetricName, usize)| match steps.at(name.as_str(), step) {
            None => "–".to_owned(),
            Some(value) if digits == 0 => number(value),
            Some(value) => format!("{value:.digits$}"),
        };
        let cells = columns.iter().map(|(_, name)| name).zip(digits.iter().copied()).map(value);
        table.row(std::iter::once(step.to_string()).chain(cells));
    }
    table.to_html()
}

/// Decimals with which a number is shown where it stands alone; none where it has a power of ten.
fn decimals(value: f64) -> usize {
    let text = number(value);
    if text.contains('e') { 0 } else { text.split_once('.').map_or(0, |(_, decimals)| decimals.len()) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;
    use super::*;

    #[test]
    fn numbers_of_a_column_have_as_many_decimals() {
        let steps = Curves::of(&lines(2, |line| {
            line.set_named("critic/score/mean", [0.04, 0.042][line.step as usize - 1]);
            line.set_named("response_length/mean", [120.0, 7.5][line.step as usize - 1]);
        }));
        let html = table(&steps).into_string();
        assert!(html.contains("<td>0.040</td><td>120.0</td>") && html.contains("<td>0.042</td><td>7.5</td>"), "{html}");
    }
}
