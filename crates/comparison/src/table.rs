//! Tables of text whose columns stay in line, whatever the script.

use unicode_width::UnicodeWidthStr;

/// Rows of cells under a header. The first column is aligned to the left, the others to the right.
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(crate) fn new(header: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { rows: vec![header.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row; a missing cell at its end is empty.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell.into())).collect());
    }

    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                let padding = " ".repeat(width - cell.width());
                line.push_str(&if column == 0 { format!("{cell}{padding}") } else { format!("  {padding}{cell}") });
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// The table in Markdown.
    pub(crate) fn markdown(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let cell = |column| row.get(column).map_or("", String::as_str).replace('|', "\\|");
            let cells: Vec<String> = (0..columns).map(cell).collect();
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
            if index == 0 {
                text.push_str(&format!("|---|{}\n", "---:|".repeat(columns.saturating_sub(1))));
            }
        }
        text
    }
}

/// What a terminal would obey or break a line at is escaped.
fn one_line(cell: &str) -> String {
    evenkeel_errors::shown::one_line(cell, 200).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stay_in_line_in_any_script() {
        let mut table = TextTable::new(["arm", "last"]);
        table.row(["均衡", "0.5"]);
        table.row(["größer", "0.123"]);
        table.row(["e\u{301}"]);
        assert_eq!(table.text(), "arm      last\n均衡      0.5\ngrößer  0.123\ne\u{301}\n");
    }

    #[test]
    fn a_table_in_markdown_has_as_many_cells_in_every_row() {
        let mut table = TextTable::new(["arm", "last"]);
        table.row(["a|b", "0.5"]);
        table.row(["c"]);
        assert_eq!(table.markdown(), "| arm | last |\n|---|---:|\n| a\\|b | 0.5 |\n| c |  |\n");
    }

    #[test]
    fn a_cell_is_one_line_without_control_sequences() {
        let mut table = TextTable::new(["arm"]);
        table.row(["a\u{1b}[31m\nb"]);
        assert_eq!(table.text(), "arm\na\\u{1b}[31m\\nb\n");
    }
}
