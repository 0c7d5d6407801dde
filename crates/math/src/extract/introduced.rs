//! The sentence that leads to a marked answer, over the end of a line where it goes on: `Bob says:` before a formula on a
//! line of its own.

use crate::slicing::SafeSlice;
use crate::words::{self, Role};

/// Most bytes before an answer that are read.
pub(super) const MAX_BYTES: usize = 200;

/// Longest name of a source, `According to my old friend`, in bytes.
const MAX_SOURCE: usize = 40;

/// Longest name of a value before a box, `f(3)`, in bytes.
const MAX_NAME: usize = 8;

/// The sentence before the answer at `start`, without the markup and the name between them, and whether there is a name:
/// `The answer is not $x =`.
pub(super) fn sentence_before(text: &str, start: usize) -> (&str, bool) {
    let before = text.prefix_to(start);
    let near = before.suffix_from(before.ceil_char_boundary(before.len().saturating_sub(MAX_BYTES)));
    let bare = without_opening(near);
    let sentence = without_names(bare);
    // `so she had 3 left over` before a line of `####` is whole, and `the answer is over` is not.
    let is_bound = |word: &str| words::in_lower_case(word, |word| words::is(Role::Bound, word));
    let ends_whole = || sentence.rsplit(' ').next().is_some_and(is_bound) && !sentence.contains("answer");
    let last = last_sentence(near, sentence);
    let is_whole = text.suffix_from(start).starts_with("####") && last.contains(' ') && ends_whole();
    (if is_whole { "" } else { last }, sentence.len() < bare.len())
}

/// The last sentence of a text that `near` begins with. None where it ends before the rest.
fn last_sentence<'t>(near: &'t str, sentence: &'t str) -> &'t str {
    let is_on_its_line = !near.suffix_from(sentence.len()).contains('\n');
    let is_ended = sentence.ends_with(['.', '!', '?', ';']) && !sentence.ends_with("e.g.");
    if is_ended || !is_on_its_line && !goes_on(sentence) {
        return "";
    }
    // `\n`, `. `
    let is_end = |pair: &[u8]| matches!(pair, [b'\n', _] | [b'.' | b'!' | b'?' | b';', b' ']);
    let end = sentence.as_bytes().windows(2).rposition(is_end);
    sentence.suffix_from(end.map_or(0, |at| at + 1)).trim_ascii_start()
}

/// A text without `x =` and `f(3) = y =` at its end.
fn without_names(mut text: &str) -> &str {
    while let Some(equation) = text.strip_suffix('=') {
        let equation = equation.trim_end();
        let rest = equation.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || "_'(){}".contains(c));
        // `\(x`
        let name = equation.suffix_from(rest.len()).trim_start_matches(['(', '{']);
        let rest = equation.prefix_to(equation.len() - name.len());
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && !name.suffix_from(1).starts_with(|c: char| c.is_ascii_alphabetic())
            && name.len() <= MAX_NAME
            && (rest.is_empty() || rest.ends_with([' ', '$', '(', '[', '\n', '=']));
        if !is_name {
            break;
        }
        text = without_opening(rest);
    }
    text
}

/// What opens a formula, and what stands in it before a conclusion.
const MARKUP: [&str; 6] = ["\\[", "\\(", "\\therefore", "\\implies", "\\Rightarrow", "\\displaystyle"];

/// A text without spaces, emphasis, quotation marks and the opening of a formula at its end.
pub(super) fn without_opening(mut text: &str) -> &str {
    loop {
        let rest = text.trim_end_matches(|c: char| c.is_whitespace() || "$*_`\"“”".contains(c));
        match MARKUP.iter().find_map(|mark| rest.strip_suffix(mark)) {
            Some(before) => text = before,
            None => return rest,
        }
    }
}

/// Whether a line is no whole sentence: it ends with a mark or a word that something follows.
fn goes_on(line: &str) -> bool {
    const ROLES: [Role; 6] = [Role::Speech, Role::Report, Role::Negation, Role::Copula, Role::Bound, Role::Connective];
    if line.ends_with([':', '：', ',', '-', '—', '–', '→', '>']) {
        return true;
    }
    // `[Bob]`
    let in_brackets = line.strip_suffix(']').and_then(|line| line.rsplit_once('['));
    if in_brackets.is_some_and(|(_, inner)| inner.starts_with(char::is_uppercase)) {
        return true;
    }
    let last = line.rsplit(|c: char| !c.is_alphabetic() && c != '\'').next().unwrap_or_default();
    !last.is_empty()
        && (matches!(
            last,
            "that" | "than" | "of" | "with" | "to" | "from" | "by" | "but" | "least" | "most" | "longer"
        ) || matches!(last, "write" | "put" | "answer" | "were" | "and" | "or" | "also" | "divides")
            || last.ends_with("n't")
            || words::in_lower_case(last, |last| words::is_any(&ROLES, last)))
        || line.suffix_from(line.floor_char_boundary(line.len().saturating_sub(MAX_SOURCE))).contains("ccording to ")
}
