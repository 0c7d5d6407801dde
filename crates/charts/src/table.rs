//! Tables whose cells are HTML.

use crate::html::Html;

/// Rows under a header. The first column is to the left, the others are numbers to the right.
#[derive(Debug, Clone, Default)]
pub struct HtmlTable {
    header: Vec<Html>,
    /// Cells, and whether they say that there is nothing.
    rows: Vec<(Vec<Html>, bool)>,
}

impl HtmlTable {
    /// A table with these columns.
    pub fn new<T: Into<Html>>(header: impl IntoIterator<Item = T>) -> Self {
        Self { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row; a cell is text, or HTML such as a link.
    pub fn row<T: Into<Html>>(&mut self, cells: impl IntoIterator<Item = T>) -> &mut Self {
        self.rows.push((cells.into_iter().map(Into::into).collect(), false));
        self
    }

    /// A row that says that there is nothing of something, and stands back.
    pub fn faint_row<T: Into<Html>>(&mut self, cells: impl IntoIterator<Item = T>) -> &mut Self {
        self.rows.push((cells.into_iter().map(Into::into).collect(), true));
        self
    }

    /// Whether the table has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table; it scrolls where it is wider than the page. Nothing without a row.
    pub fn to_html(&self) -> Html {
        if self.is_empty() {
            return Html::new();
        }
        let line = |tag: &'static str, cells: &[Html], is_faint: bool| {
            let class: &[_] = if is_faint { &[("class", "zeros")] } else { &[] };
            let cells = cells.iter().map(|cell| Html::element(tag, &[], cell.clone())).collect::<Html>();
            Html::element("tr", class, cells)
        };
        let head = Html::element("thead", &[], line("th", &self.header, false));
        let body = Html::element(
            "tbody",
            &[],
            self.rows.iter().map(|(row, is_faint)| line("td", row, *is_faint)).collect::<Html>(),
        );
        Html::element("div", &[("class", "scroll")], Html::element("table", &[], head.with(body)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped_and_an_empty_table_is_nothing() {
        let mut table = HtmlTable::new(["a<b", "c"]);
        assert!(table.to_html().is_empty());
        table.row(["<i>", "2"]);
        let html = table.to_html().into_string();
        assert!(html.contains("<tr><th>a&lt;b</th><th>c</th></tr>") && html.contains("<td>&lt;i&gt;</td>"), "{html}");
    }
}
