//! The pages of docs/reference that are written from the code.

mod commands;
mod messages;
mod other_names;
mod protocol;
mod reasons;
mod settings;
mod words;

/// Holds a page against its text; with `EVENKEEL_GENERATE` writes it.
fn hold(page: &str, what: &str, text: &str) {
    let path = super::root().join("docs/reference").join(page);
    let text = format!(
        "{}\n\n<!-- Written by a test: EVENKEEL_GENERATE=1 cargo test --release --workspace --bin evenkeel \
        book::reference -->\n\n{text}",
        what.trim_end(),
        text = text.trim_start()
    );
    if std::env::var_os("EVENKEEL_GENERATE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let line = found.lines().zip(text.lines()).find(|(found, wanted)| found != wanted);
    assert!(
        found == text,
        "docs/reference/{page} is not what the code says: {line:?}; EVENKEEL_GENERATE=1 with this test writes it"
    );
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', "<br>")
}

#[test]
fn a_table_has_no_cell_that_ends_early() {
    assert_eq!(cell("a | b\nc"), "a \\| b<br>c");
}
