//! Where an answer stands in its text, and what is right beside it.

use std::ops::Range;

use super::{Extracted, beside, line};
use crate::slicing::SafeSlice;

impl Extracted<'_> {
    /// The first and the last answer.
    fn ends(&self) -> (&str, &str) {
        match self {
            Self::One(answer) => (answer, answer),
            Self::Several { answers, .. } => {
                (answers.first().copied().unwrap_or_default(), answers.last().copied().unwrap_or_default())
            }
        }
    }

    /// Where they stand in the text that they were found in.
    pub(super) fn place(&self, text: &str) -> Range<usize> {
        let (first, last) = self.ends();
        let offset_of = |part: &str| (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize).min(text.len());
        offset_of(first)..(offset_of(last) + last.len()).min(text.len())
    }
}

/// Whether a sign before an answer in plain text makes it a rough value: `#### ~36`. In a formula it is a blank.
pub(super) fn is_about(text: &str, place: &Range<usize>) -> bool {
    let answer = text.slice(place.clone());
    let before = text.prefix_to(place.start);
    answer.trim_start().starts_with('~')
        && !answer.trim_start().starts_with("~~")
        && !before.trim_end().ends_with(['{', '$', '(', '['])
}

/// Whether a text is the final channel of gpt-oss.
pub(super) fn is_final_channel(completion: &str, text: &str) -> bool {
    let at = (text.as_ptr() as usize).wrapping_sub(completion.as_ptr() as usize);
    completion.prefix_to(at.min(completion.len())).ends_with("<|channel|>final<|message|>")
}

/// The sentence on the same line behind an answer that a full stop ends.
pub(crate) fn statement_after<'t>(text: &'t str, answer: &str) -> Option<&'t str> {
    let end = Extracted::One(answer).place(text).end;
    text.suffix_from(end).strip_prefix(". ").map(line::first_line)
}

/// The name before an answer: of `$x = \boxed{36}$` the x.
pub(crate) fn name_before<'t>(text: &'t str, answer: &str) -> Option<&'t str> {
    let before = text.prefix_to(Extracted::One(answer).place(text).start).strip_suffix('{')?;
    let (before, _) = before.rsplit_once('\\')?;
    beside::name_before(before).map(|(_, name)| name)
}
