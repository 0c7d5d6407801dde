//! The words that may stand beside a mathematical answer.

use std::fmt::Write;

use super::hold;

const TITLE: &str = "# Words allowed around an answer

All words and phrases that may stand beside a [mathematical answer](../math.md#words), and those that change it. Two sorts \
of lists serve two places:

- *Allowed* words may stand inside a box or a tag and in the sentence that announces an answer. Any other word there leaves \
the verdict undecided, unless the problem or the gold answer has it as a noun.
- *Denied* words are looked for where prose is free: around a box and after an answer, and among the nouns of a problem. \
Such lists are never complete. A retraction, a bound or another speaker in words that are missing here is not seen, and the \
answer counts as it stands. A few denied phrases with a grammar of their own are in the code, `crates/math/src/extract`, with \
the TeX commands that may stand beside a box.
";

/// The groups of the table, with their meanings.
const GROUPS: [&str; 2] = ["Allowed", "Denied"];

fn section(text: &mut String, kind: &str, meaning: &str) {
    write!(text, "\n### {kind}\n\n{}{}.\n\n", meaning[..1].to_uppercase(), &meaning[1..]).unwrap();
    writeln!(text, "| language | |\n|---|---|").unwrap();
}

#[test]
fn the_page_of_words_is_the_table() {
    let mut text = String::new();
    let rows: Vec<Vec<&str>> = evenkeel_math::ALLOW_LIST
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
        .collect();
    // The head of the table says what each group and each kind mean.
    for line in evenkeel_math::ALLOW_LIST.lines().filter_map(|line| line.strip_prefix("# ")) {
        if let Some((group, meaning)) = line.split_once(": ").filter(|(group, _)| GROUPS.contains(group)) {
            if group == "Denied" {
                section(&mut text, "unit", "a unit of measurement, behind a number");
                let units: Vec<String> = evenkeel_math::Unit::names().map(|names| names.join(", ")).collect();
                writeln!(text, "| en | {} |", units.join("; ")).unwrap();
            }
            write!(text, "\n## {group}\n\n{}{}\n", meaning[..1].to_uppercase(), &meaning[1..]).unwrap();
        }
        let Some((kind, meaning)) = line.split_once("  ") else { continue };
        let (kind, meaning) = (kind.trim(), meaning.trim());
        section(&mut text, kind, meaning);
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
