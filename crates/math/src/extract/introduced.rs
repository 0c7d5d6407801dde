//! The sentence that leads to a marked answer, over the end of a line where it goes on: `Bob says:` before a formula on a
//! line of its own.

use crate::slicing::SafeSlice;
use crate::words::{self, Role};

/// Most bytes before an answer that are read.
pub(super) const MAX_BYTES: usize = 200;

/// Longest name of a source, `According to my old friend`, in bytes.
const MAX_SOURCE: usize = 40;

/// The sentence before the answer at `start`, without the markup between them.
pub(super) fn sentence_before(text: &str, start: usize) -> &str {
    let before = text.prefix_to(start);
    let near = before.suffix_from(before.ceil_char_boundary(before.len().saturating_sub(MAX_BYTES)));
    let sentence = without_markup(near);
    let is_on_its_line = !near.suffix_from(sentence.len()).contains('\n');
    if sentence.ends_with(['.', '!', '?', ';']) || !is_on_its_line && !goes_on(sentence) {
        return "";
    }
    let ends = ["\n", ". ", "! ", "? ", "; "].iter().filter_map(|end| Some(sentence.rfind(end)? + end.len()));
    sentence.suffix_from(ends.max().unwrap_or(0))
}

/// A text without spaces, emphasis, quotation marks and the opening of a formula at its end.
pub(super) fn without_markup(mut text: &str) -> &str {
    loop {
        let rest = text.trim_end_matches(|c: char| c.is_whitespace() || "$*_`\"“”".contains(c));
        match rest.strip_suffix("\\[").or_else(|| rest.strip_suffix("\\(")) {
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
    let last = line.rsplit(|c: char| !c.is_alphabetic() && c != '\'').next().unwrap_or_default();
    !last.is_empty()
        && (matches!(last, "that" | "than" | "of" | "with" | "to" | "write" | "put" | "answer")
            || ROLES.iter().any(|role| words::is_in_any_case(*role, last)))
        || line.suffix_from(line.floor_char_boundary(line.len().saturating_sub(MAX_SOURCE))).contains("ccording to ")
}
