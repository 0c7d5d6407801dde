//! Finds the final answer of a completion.
//!
//! Every search runs from the end and visits each byte a bounded number of times, so that ten megabytes of hostile text
//! cost as much as ten megabytes of prose.

mod announcement;
mod another;
mod aside;
mod base;
mod before;
mod beside;
mod boxes;
mod ending;
mod follow;
mod foreign;
mod foreign_answer;
mod hashes;
mod introduced;
mod joined;
mod label;
mod line;
mod number;
mod place;
mod rest;
mod restated;
mod sentence;
mod side;
mod span;
mod speaker;
mod spelled;
mod tag;
mod touching;
mod turn;
mod unmarked;

use std::ops::Range;

use crate::slicing::SafeSlice;
use crate::words::Known;
use crate::{Marker, Reason, Rules, Thinking};
pub(crate) use place::{name_before, statement_after};

/// The final answer that was found in a completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extracted<'a> {
    /// A single answer, as it was written.
    One(&'a str),
    /// Adjacent boxes; at least two.
    Several {
        /// The contents of the boxes, in order.
        answers: Vec<&'a str>,
        /// Whether one of them is meant: "or" stands between two.
        alternatives: bool,
    },
}

impl Extracted<'_> {
    /// Length of all answers in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::One(answer) => answer.len(),
            Self::Several { answers, .. } => answers.iter().map(|answer| answer.len()).sum(),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The text is empty.
    #[error("the completion is empty")]
    EmptyCompletion,
    /// The completion has `<think>` without `</think>`.
    #[error("the thinking never ended")]
    UnclosedThinking,
    /// None of the rules' markers occurs.
    #[error("nothing is marked as the answer")]
    NothingMarked,
    /// The sentence that announces the answer says more than that: "twice the answer is 14".
    #[error("the sentence that announces the answer is not understood")]
    NotUnderstood,
    /// What follows the answer takes it back, or gives another one.
    #[error("what follows the answer takes it back")]
    TakenBack,
    /// The last box is empty.
    #[error("the last box is empty")]
    EmptyBox,
    /// More adjacent boxes than a list may have.
    #[error("more than {} neighbouring boxes", boxes::MAX_ADJACENT)]
    TooManyBoxes,
}

impl NoAnswer {
    /// The reason of the verdict.
    pub fn reason(self) -> Reason {
        match self {
            Self::EmptyCompletion => Reason::EmptyCompletion,
            Self::UnclosedThinking => Reason::UnclosedThinking,
            Self::NothingMarked => Reason::NothingMarked,
            Self::NotUnderstood => Reason::NotUnderstood,
            Self::TakenBack => Reason::TakenBack,
            Self::EmptyBox => Reason::EmptyBox,
            Self::TooManyBoxes => Reason::TooManyBoxes,
        }
    }
}

/// What a problem and its gold answer leave harmless beside a box.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed<'k> {
    /// A percent sign after it, or the word.
    pub(crate) in_percent: bool,
    /// The base of the gold answer's digits.
    pub(crate) base: Option<u32>,
    /// The words of the problem and the gold answer.
    pub(crate) known: &'k Known,
}

impl Allowed<'_> {
    /// Whether the box may hold digits in a base: that of the gold answer, or one that the problem speaks of.
    fn has_base(&self, base: u32) -> bool {
        self.base.map_or_else(|| base == 10 || base::is_known(self.known), |own| own == base)
    }
}

/// The final answer of a completion, by the first of the rules' markers that occurs.
pub fn extract<'a>(completion: &'a str, rules: &Rules) -> Result<Extracted<'a>, NoAnswer> {
    extract_for(completion, rules, &Allowed { in_percent: false, base: None, known: &Known::default() })
}

/// As [`extract`], for a problem and a gold answer that leave more of it harmless.
pub(crate) fn extract_for<'a>(
    completion: &'a str,
    rules: &Rules,
    allowed: &Allowed<'_>,
) -> Result<Extracted<'a>, NoAnswer> {
    if completion.trim_start().is_empty() {
        return Err(NoAnswer::EmptyCompletion);
    }
    let own = turn::own(completion);
    let answer = match rules.thinking {
        Thinking::Tail => evenkeel_thinking::answer(own).ok_or(NoAnswer::UnclosedThinking)?,
        Thinking::Ignore => own,
    };
    let text = turn::before_end_token(answer);
    let mut unclear = NoAnswer::NothingMarked;
    for marker in &rules.markers {
        let found = match marker {
            Marker::Boxed => boxes::asserted(text, allowed)?,
            Marker::Hashes => hashes::after_hashes(text).map(Extracted::One),
            Marker::AnswerLine => match announcement::last(text) {
                Ok(found) => found.map(|answer| Extracted::One(announced(answer, rules))),
                // A box may say more clearly what the answer is.
                Err(error) => {
                    unclear = error;
                    None
                }
            },
            Marker::Unmarked if unclear == NoAnswer::NotUnderstood => None,
            Marker::Unmarked => {
                unmarked::last(text).filter(|answer| !unmarked::is_condition(answer, text)).map(Extracted::One)
            }
        };
        let Some(found) = found else { continue };
        let at = found.place(text);
        // What is in a quotation, a plan or a tool's output is no answer.
        if *marker != Marker::Unmarked && rules.thinking == Thinking::Tail && tag::encloses(text, at.start) {
            unclear = NoAnswer::NotUnderstood;
            continue;
        }
        if place::is_about(text, &at) || another::precedes(&found, text, *marker) {
            return Err(NoAnswer::NotUnderstood);
        }
        if let Some(whole) = marked(&found, text, *marker)
            && (beside::is_followed(text, whole.clone()) || before::is_other(text, whole, &found, allowed))
        {
            return Err(NoAnswer::NotUnderstood);
        }
        // A number at the end of a text has nothing after it.
        if *marker != Marker::Unmarked && follow::takes_back(&found, text) {
            return Err(NoAnswer::TakenBack);
        }
        // The last announcement has none after it, but a box or a tag may.
        if matches!(marker, Marker::Boxed | Marker::AnswerLine) && another::announces(&found, text) {
            return Err(NoAnswer::TakenBack);
        }
        return Ok(found);
    }
    // The final channel of gpt-oss is a mark, too.
    if unclear == NoAnswer::NothingMarked && rules.thinking == Thinking::Tail && place::is_final_channel(own, text) {
        return line::alone(text).map(Extracted::One).ok_or(unclear);
    }
    Err(unclear)
}

/// A tag or hashes with the answer that they mark. `None` for other markers.
fn marked(found: &Extracted<'_>, text: &str, marker: Marker) -> Option<Range<usize>> {
    let Extracted::One(answer) = found else { return None };
    // The answer is a part of the text.
    let at = (answer.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    let start = match marker {
        Marker::Hashes => text.prefix_to(at.min(text.len())).rfind("####"),
        Marker::AnswerLine => announcement::tag_before(text, at),
        Marker::Boxed | Marker::Unmarked => None,
    }?;
    let end = at + answer.len();
    Some(start..end + closing_tag(text.suffix_from(end)))
}

/// Length of the closing tag that a text begins with, and of what closes a formula before it.
fn closing_tag(text: &str) -> usize {
    let rest = text.trim_start_matches(['$', ' ', '\n']);
    let rest = rest.strip_prefix("\\)").or_else(|| rest.strip_prefix("\\]")).unwrap_or(rest).trim_start();
    let end = rest.strip_prefix("</").and_then(|tag| tag.split_once('>'));
    end.map_or(0, |(_, after)| text.len() - after.len())
}

/// The answer announced by a line. If unmarked answers count, also the last expression of its sentence.
fn announced<'a>(answer: &'a str, rules: &Rules) -> &'a str {
    if rules.markers.contains(&Marker::Unmarked) && line::is_sentence(answer) {
        return unmarked::last(answer).unwrap_or(answer);
    }
    answer
}

/// The last box of a published solution, or the boxes adjacent to it, whatever surrounds it. `None` where it has none.
pub fn last_box(solution: &str) -> Option<Extracted<'_>> {
    boxes::last(solution).ok()?
}

/// The content of the last box of an answer given by itself, closed or not. `None` if there is no box.
pub(crate) fn boxed(answer: &str) -> Result<Option<Extracted<'_>>, NoAnswer> {
    Ok(match boxes::last(answer)? {
        Some(found) => Some(found),
        None => boxes::unclosed(answer).map(Extracted::One),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    fn one(text: &str) -> Result<Extracted<'_>, NoAnswer> {
        extract(text, &Rules::default())
    }

    #[test]
    fn the_first_marker_that_is_found_wins() {
        let text = "#### 1\nAnswer: B\nOr rather:\n\\boxed{C}\nThere are 4";
        let extracted_by = |markers: &[Marker]| extract(text, &Rules { markers: markers.to_vec(), ..Rules::default() });
        assert_eq!(extracted_by(&[Marker::Boxed, Marker::Hashes]), Ok(Extracted::One("C")));
        assert_eq!(extracted_by(&[Marker::Hashes, Marker::Boxed]), Ok(Extracted::One("1")));
        assert_eq!(extracted_by(&[Marker::AnswerLine]), Ok(Extracted::One("B")));
        assert_eq!(extracted_by(&[Marker::Unmarked]), Ok(Extracted::One("4")));
    }

    #[test]
    fn an_unmarked_number_is_no_answer_unless_it_is_asked_for() {
        let text = "Adding both gives 12.";
        assert_eq!(one(text), Err(NoAnswer::NothingMarked));
        assert_eq!(extract(text, &Profile::Unmarked.rules()), Ok(Extracted::One("12")));
    }

    #[test]
    fn nothing_is_not_an_answer() {
        assert_eq!(one(""), Err(NoAnswer::EmptyCompletion));
        assert_eq!(one(" \n\t "), Err(NoAnswer::EmptyCompletion));
    }
}
