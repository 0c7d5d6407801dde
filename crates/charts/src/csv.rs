//! The data of a figure as CSV, within the page.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::html::escape;
use crate::series::Series;

/// Rows by x with a column for each series, and two more for its intervals where it has some.
pub(crate) fn of_series(x_label: &str, series: &[Series]) -> String {
    let mut text = csv_cell(x_label);
    let mut rows: BTreeMap<OrderedX, Vec<Option<f64>>> = BTreeMap::new();
    let has_intervals = |series: &Series| series.points.iter().any(|point| point.interval.is_some());
    let columns: usize = series.iter().map(|series| if has_intervals(series) { 3 } else { 1 }).sum();
    let mut column = 0;
    for series in series {
        let with_interval = has_intervals(series);
        let _ = write!(text, ",{}", csv_cell(&series.label));
        if with_interval {
            let low = format!("{} low", series.label);
            let high = format!("{} high", series.label);
            let _ = write!(text, ",{},{}", csv_cell(&low), csv_cell(&high));
        }
        for point in &series.points {
            let row = rows.entry(OrderedX(point.x)).or_insert_with(|| vec![None; columns]);
            row[column] = Some(point.y);
            if let Some((low, high)) = point.interval.filter(|_| with_interval) {
                (row[column + 1], row[column + 2]) = (Some(low), Some(high));
            }
        }
        column += if with_interval { 3 } else { 1 };
    }
    text.push('\n');
    for (x, values) in rows {
        let _ = write!(text, "{}", x.0);
        for value in values {
            match value {
                Some(value) => {
                    let _ = write!(text, ",{value}");
                }
                None => text.push(','),
            }
        }
        text.push('\n');
    }
    text
}

pub(crate) fn of_rows<'a>(rows: impl IntoIterator<Item = Vec<&'a str>>) -> String {
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.into_iter().map(csv_cell).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

/// A link that saves the text as a file named after the figure.
pub(crate) fn link(title: &str, csv: &str) -> String {
    let mut name = String::new();
    for character in title.chars() {
        match character.is_ascii_alphanumeric() {
            true => name.push(character.to_ascii_lowercase()),
            false if name.ends_with('-') || name.is_empty() => {}
            false => name.push('-'),
        }
    }
    let name = name.trim_end_matches('-');
    format!(
        "<a class=\"data\" download=\"{name}.csv\" href=\"data:text/csv;charset=utf-8,{}\" title=\"the values as \
        CSV\">CSV</a>",
        escape(&encoded(csv))
    )
}

/// Percent-encoded but for what a data URL may have as it is.
fn encoded(text: &str) -> String {
    let mut url = String::with_capacity(text.len() + text.len() / 8);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b',' | b'/' | b':' | b'@' => {
                url.push(byte.into())
            }
            _ => {
                let _ = write!(url, "%{byte:02X}");
            }
        }
    }
    url
}

/// A cell as RFC 4180 has it: in quotes where it could be taken for more than one.
pub fn csv_cell(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

/// A finite x, in order.
#[derive(Debug, Clone, Copy, PartialEq)]
struct OrderedX(f64);

impl Eq for OrderedX {}

impl PartialOrd for OrderedX {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedX {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::{Point, Style};

    #[test]
    fn rows_are_united_by_x_and_intervals_have_columns() {
        let a = Series::new("a, b", Style::Line, [Point::new(1.0, 0.5), Point::new(2.0, 0.25)]);
        let b = Series::new("c", Style::ErrorBars, [Point::with_error(2.0, 1.0, Some(0.5)), Point::new(4.0, 2.0)]);
        assert_eq!(of_series("step", &[a, b]), "step,\"a, b\",c,c low,c high\n1,0.5,,,\n2,0.25,1,0.5,1.5\n4,,2,,\n");
    }

    #[test]
    fn a_link_can_be_decoded_and_has_no_markup() {
        let link = link("Accuracy (mean@k)", "step,\"<a>\"\n1,0.5\n");
        assert!(link.contains("download=\"accuracy-mean-k.csv\""), "{link}");
        assert!(link.contains(",step,%22%3Ca%3E%22%0A1,0.5%0A\""), "{link}");
    }
}
