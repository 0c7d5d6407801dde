//! Messages that a person can see, so that they can be read in one go: texts of the sources that read as prose.

use std::fmt::Write;

use super::super::{pages, root};
use super::hold;

const TITLE: &str = "# Messages

Errors, notes, log lines and labels of the program, by source file, as the code has them: `{}` and `{name}` stand for \
values. Metrics, Prometheus series and reason codes have pages of their own. What to do about common errors is under \
[troubleshooting](../troubleshooting.md).";

/// Folders of the sources.
const SOURCES: [&str; 4] = ["cli", "crates", "python", "services"];

/// Files of tests, and sources whose texts nobody sees.
const FILES_LEFT_OUT: &[&str] = &[
    "/tests/",
    "/benches/",
    "/examples/",
    "/fuzz/",
    "/tests.rs",
    "_tests.rs",
    "/laws_of_holds.rs",
    "/test_",
    "/build.rs",
    "cli/src/book/",
    "crates/charts/src/",
    "crates/kernel-checks/",
    "crates/kernels/",
    "crates/math/src/",
    "crates/run/src/metric/table/",
    "crates/testkit/",
    "/series.rs",
];

/// Modules, macros, types and functions whose texts are for tests, for defects, or for other programs.
const CALLS_LEFT_OUT: &[&str] = &[
    "tests",
    "assert!",
    "assert_eq!",
    "assert_ne!",
    "debug_assert!",
    "panic!",
    "unreachable!",
    "asm!",
    "global_asm!",
    "concat!",
    "debug!",
    "expect",
    "contains",
    "ends_with",
    "replace",
    "split_once",
    "starts_with",
    "strip_prefix",
    "strip_suffix",
    "Series",
];

/// A piece of a source file.
enum Token<'a> {
    Text(&'a str),
    Word(&'a str),
    Open,
    Close,
    /// Space or a comment.
    Gap,
    Sign(char),
}

/// The first token of a source that is not empty, and its length in bytes.
fn token(source: &str) -> (Token<'_>, usize) {
    let first = source.chars().next().unwrap();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let raw = source.strip_prefix('r').map(|rest| rest.len() - rest.trim_start_matches('#').len());
    let end = |from: usize, mark: &str| source[from..].find(mark).map_or(source.len(), |found| from + found);
    match first {
        'r' if raw.is_some_and(|marks| source[1 + marks..].starts_with('"')) => {
            let begin = 2 + raw.unwrap();
            let mark = format!("\"{}", "#".repeat(raw.unwrap()));
            let end = end(begin, &mark);
            (Token::Text(&source[begin..end]), end + mark.len())
        }
        '"' => {
            let mut is_escaped = false;
            let closes = |c: char| {
                let found = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                found
            };
            let length = source[1..].find(closes).unwrap();
            (Token::Text(&source[1..=length]), length + 2)
        }
        '\'' if source[1..].starts_with('\\') => (Token::Sign(first), end(3, "'") + 1),
        '\'' if source.chars().nth(2) == Some('\'') => {
            (Token::Sign(first), source.chars().take(3).map(char::len_utf8).sum())
        }
        _ if source.starts_with("//") => (Token::Gap, end(0, "\n")),
        _ if is_word(first) => {
            let length = source.find(|c| !is_word(c)).unwrap_or(source.len());
            (Token::Word(&source[..length]), length)
        }
        '(' | '[' | '{' => (Token::Open, 1),
        ')' | ']' | '}' => (Token::Close, 1),
        _ if first.is_whitespace() => (Token::Gap, first.len_utf8()),
        _ => (Token::Sign(first), first.len_utf8()),
    }
}

/// The texts of a source file that read as prose, without those of tests.
fn messages(mut source: &str) -> Vec<String> {
    let mut found = Vec::new();
    // The path, macro or keyword before each open bracket, and the one read last.
    let mut open: Vec<String> = Vec::new();
    let mut last = String::new();
    while !source.is_empty() {
        let (token, length) = token(source);
        source = &source[length..];
        match token {
            Token::Text(text) => {
                if is_prose(text) && is_seen(&open) {
                    found.push(joined(text));
                }
                last.clear();
            }
            Token::Word(word) => {
                if !last.ends_with([':', '.']) {
                    last.clear();
                }
                last += word;
            }
            Token::Open => open.push(std::mem::take(&mut last)),
            Token::Close => {
                open.pop();
                last.clear();
            }
            Token::Gap => {}
            Token::Sign(sign @ ('!' | ':' | '.')) => last.push(sign),
            Token::Sign('#') => last = "#".to_owned(),
            Token::Sign(_) => last.clear(),
        }
    }
    found
}

/// Whether a text within these brackets is one that a person can see. Only the attribute `error` has such texts.
fn is_seen(open: &[String]) -> bool {
    let is_left_out = |name: &String| name.split([':', '.']).any(|part| CALLS_LEFT_OUT.contains(&part));
    let has = |wanted: &str| open.iter().any(|name| name == wanted);
    !open.iter().any(is_left_out) && (has("error") || !has("#"))
}

/// Whether two words stand side by side, and not in an element of HTML.
fn is_prose(text: &str) -> bool {
    if text.starts_with('<') {
        return false;
    }
    let words: Vec<&str> = text.split(' ').collect();
    words.windows(2).any(|pair| {
        let before = pair[0].trim_end_matches(',').bytes().rev().take(2);
        let after = pair[1].bytes().take(2);
        before.chain(after).filter(u8::is_ascii_alphabetic).count() == 4
    })
}

/// A literal on one line, without the line breaks that its source escapes.
fn joined(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let whole = lines.fold(first, |whole, line| whole + line.trim_start());
    whole.replace("\\\"", "\"").replace('\n', "\\n")
}

fn page() -> String {
    let mut text = String::new();
    let mut part = String::new();
    for path in SOURCES.iter().flat_map(|folder| pages::files(&root().join(folder), ".rs")) {
        let name = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
        if FILES_LEFT_OUT.iter().any(|left_out| name.contains(left_out)) {
            continue;
        }
        let messages = messages(&std::fs::read_to_string(&path).unwrap());
        if messages.is_empty() {
            continue;
        }
        let (folder, file) = name.split_once("/src/").unwrap();
        if folder != part {
            write!(text, "\n## {folder}\n").unwrap();
            part = folder.to_owned();
        }
        write!(text, "\n{file}\n\n```text\n{}\n```\n", messages.join("\n")).unwrap();
    }
    text
}

#[test]
fn the_page_of_messages_is_what_the_code_says() {
    hold("messages.md", TITLE, &page());
}

#[test]
fn a_planted_message_is_found_and_what_nobody_sees_is_not() {
    let source = r##"
        // "a comment with words"
        #[error("cannot read {path}: \"{0}\"")]
        #[expect(dead_code, reason = "not a message at all")]
        fn f<'a>(c: &'a str) {
            let quote = ['"', '\'', 'a'];
            bail!("the second \
                   line is joined");
            note(&format!(r#"a "raw" text has quotes"#));
            assert!(c.contains("words of a test"), "and its failure");
            value(key.name, "single", "{a}: {b}", "at least 1");
        }
        #[cfg(test)]
        mod tests { fn g() { note("within a test"); } }
        const LAST: &str = "said after tests";
    "##;
    let found = messages(source);
    let wanted = [
        "cannot read {path}: \"{0}\"",
        "the second line is joined",
        "a \"raw\" text has quotes",
        "at least 1",
        "said after tests",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn every_part_of_the_program_has_messages_on_the_page() {
    let page = page();
    for part in ["cli", "crates/config", "crates/recipe", "services/orchestrator", "services/reward"] {
        assert!(page.contains(&format!("\n## {part}\n")), "{part}");
    }
}
