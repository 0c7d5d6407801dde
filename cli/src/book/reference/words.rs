//! The words that may stand beside a mathematical answer.

use std::fmt::Write;

use super::hold;

const TITLE: &str = "# Words beside an answer

The whole table by which words are accounted for in [mathematical answers](../math.md#words). A word that is not here, and \
in neither the problem nor the gold answer, leaves a verdict undecided. Units of measurement have a table of their own.";

/// What each kind means, from the head of the table.
fn meanings() -> Vec<(&'static str, &'static str)> {
    let lines = evenkeel_math::ALLOW_LIST.lines().filter_map(|line| line.strip_prefix("# "));
    lines.filter_map(|line| line.split_once("  ")).map(|(kind, meaning)| (kind.trim(), meaning.trim())).collect()
}

#[test]
fn the_page_of_words_is_the_table() {
    let mut text = String::new();
    let rows: Vec<Vec<&str>> = evenkeel_math::ALLOW_LIST
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
        .collect();
    for (kind, meaning) in meanings() {
        write!(text, "\n## {kind}\n\n{}{}.\n\n", meaning[..1].to_uppercase(), &meaning[1..]).unwrap();
        writeln!(text, "| language | |\n|---|---|").unwrap();
        let mut languages: Vec<&str> = rows.iter().filter(|row| row[0] == kind).map(|row| row[1]).collect();
        languages.dedup();
        assert!(!languages.is_empty(), "{kind}");
        for language in languages {
            let of: Vec<&str> =
                rows.iter().filter(|row| row[0] == kind && row[1] == language).map(|row| row[2]).collect();
            writeln!(text, "| {language} | {} |", of.join(", ")).unwrap();
        }
    }
    hold("words.md", TITLE, &text);
}
