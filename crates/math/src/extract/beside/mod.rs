//! The formula around a box: an operator, a relation, a factor or a command that takes the box as its argument makes it
//! a part of a value.
//!
//! Only what is directly beside the box counts, and an equation before it leaves it the value: `x = \boxed{7}`.

mod around;
mod left;
mod listed;
mod right;
mod signs;

pub(super) use left::formula as formula_before;
pub(super) use listed::name_before;

use std::ops::Range;

use crate::slicing::SafeSlice;

/// Most bytes on each side that are read.
const MAX_BYTES: usize = 4096;
/// Blanks of a formula.
const BLANKS: [&str; 6] = ["\\,", "\\;", "\\!", "\\ ", "\\quad", "~"];

/// Whether another value follows a tag with an answer as an item of its list: `<answer>3</answer>, 4`.
pub(super) fn is_followed(text: &str, whole: Range<usize>) -> bool {
    let after = text.suffix_from(whole.end);
    let line = after.split_once('\n').map_or(after, |(line, _)| line);
    listed::follows(None, text.slice(whole), line)
}

/// Whether what follows a text stands in a formula that the text opens.
pub(super) fn is_in_formula(before: &str) -> bool {
    let near = before.suffix_from(before.ceil_char_boundary(before.len().saturating_sub(MAX_BYTES)));
    left::formula(near.rsplit_once('\n').map_or(near, |(_, line)| line)).is_some()
}

/// Whether a sentence before an answer ends with another value and a separator: `The answer is 3 or`.
pub(super) fn precedes(sentence: &str) -> bool {
    listed::precedes(sentence, false)
}

/// Whether a box, or boxes beside each other, are a part of a larger formula. `whole` goes from the command of the first
/// to the end of the last, without delimiters around them. A percent sign after them counts unless the answer is meant in
/// percent.
pub(super) fn is_part(text: &str, whole: Range<usize>, in_percent: bool) -> bool {
    let before = text.prefix_to(whole.start);
    let near = before.suffix_from(before.ceil_char_boundary(before.len().saturating_sub(MAX_BYTES)));
    let before = line_before(near);
    let after = text.suffix_from(whole.end);
    let after = after.prefix_to(after.floor_char_boundary(after.len().min(MAX_BYTES)));
    let after = after.split_once('\n').map_or(after, |(line, _)| line);
    let in_formula = left::formula(before).is_some();
    let is_decimal = text.slice(whole.clone()).contains('.');
    around::is_argument(before, after)
        || around::is_struck_out(before, after)
        || around::is_item(near, before, after)
        || around::is_bracketed_part(before, after, in_formula)
        || left::is_part_after(before)
        || right::continues(after, in_formula, is_decimal)
        || listed::has_another(before, text.slice(whole), after, in_formula)
        || !in_percent && right::is_percent(after)
}

/// The line that a text ends with, with those before it where it has nothing of the formula that they open.
fn line_before(near: &str) -> &str {
    let line = near.rsplit_once('\n').map_or(near, |(_, line)| line);
    if !line.trim_matches(|c: char| c.is_whitespace() || c == '&').is_empty() {
        return line;
    }
    // As far as the paragraph goes.
    let paragraph = near.trim_end().rfind("\n\n").map_or(near, |at| near.suffix_from(at + 2));
    let starts = paragraph.match_indices('\n').map(|(at, _)| paragraph.suffix_from(at + 1));
    starts.chain([paragraph]).find(|text| text.len() > line.len() && left::formula(text).is_some()).unwrap_or(line)
}

#[cfg(test)]
mod tests;
