//! Words behind a box in scripts without spaces between words: a counter, a part of the problem, a copula.

use crate::slicing::SafeSlice;
use crate::words::{self, Known};

/// What may follow a counter in such a script.
const AFTER_COUNTERS: [&str; 17] = [
    "です",
    "である",
    "だ",
    "입니다",
    "이다",
    "이에요",
    "예요",
    "不同的",
    "方法",
    "方案",
    "可能",
    "情况",
    "的",
    "。",
    "了",
    "해",
    "整数",
];

/// Whether a word of a script without spaces is a counter or a part of the problem, with a copula or not.
pub(super) fn is_harmless(word: &str, known: &Known) -> bool {
    let mut rest = word;
    while !rest.is_empty() {
        let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
        let is_listed = |part: &str| words::is_counter(part) || AFTER_COUNTERS.contains(&part);
        let end = ends.rev().find(|end| is_listed(rest.prefix_to(*end)));
        let Some(end) = end else {
            return !words::is_changing(rest) && rest.len() < word.len() && known.has_part(rest);
        };
        rest = rest.suffix_from(end);
    }
    true
}
