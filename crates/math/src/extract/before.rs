//! Words right before a box that deny what it holds, or say that it is a part or a multiple of the answer.
//!
//! A box is an answer by itself, and prose before it is no part of it. Only words that stand next to it count.

mod bound;

use std::borrow::Cow;
use std::ops::Range;

use super::introduced::sentence_before;
use super::sentence::{without, words_of};
use super::{Allowed, Extracted, base, beside, foreign, joined, label, rest, side, speaker, touching};
use crate::slicing::SafeSlice;
use crate::words::{self, Known, Role};

/// Whether the sentence that a box stands in makes it another answer, or none. `whole` goes from its command to its end.
pub(super) fn is_other_box(text: &str, whole: Range<usize>, content: &Extracted<'_>, allowed: &Allowed<'_>) -> bool {
    let (before, after) = (text.prefix_to(whole.start), text.suffix_from(whole.end));
    let (sentence, is_named) = sentence_before(text, whole.start);
    let sentence = &*without_text(sentence);
    let answer = match content {
        Extracted::One(answer) => *answer,
        Extracted::Several { answers, .. } => answers.last().copied().unwrap_or_default(),
    };
    !rest::is_accounted(before, after, answer, allowed.known)
        || foreign::denies(sentence)
        || !is_named && touching::is_unknown(sentence, allowed.known)
        || side::is_other(before, answer, allowed.known)
        || joined::is_enumerated(before, answer)
        || joined::is_asked(sentence)
        || bound::is_in_scale(sentence, allowed.known)
        || joined::is_joined(before)
        || joined::is_listed_after(before, answer)
        || is_other(text, whole, content, allowed)
}

/// Whether the words beside a marked answer make it another one, or none: they deny it, give it to somebody else, or name a
/// base of its digits. `whole` goes from its mark to its end.
pub(super) fn is_other(text: &str, whole: Range<usize>, content: &Extracted<'_>, allowed: &Allowed<'_>) -> bool {
    let after = text.suffix_from(whole.end);
    let (sentence, is_named) = sentence_before(text, whole.start);
    let sentence = &*without_text(sentence);
    denies(sentence, is_named, after, allowed.known)
        || JOINING.iter().any(|end| sentence.ends_with(end)) && beside::precedes(sentence)
        || speaker::is_attributed(after, allowed.known)
        || match content {
            Extracted::One(digits) => {
                base::named(text, whole, sentence, digits).is_some_and(|base| !allowed.has_base(base))
            }
            Extracted::Several { .. } => false,
        }
}

/// Ends of a sentence that another value may stand before: `3 or`.
const JOINING: [&str; 3] = ["or", "and", "also"];

/// A text with the words of `\\text{}` in their place.
fn without_text(text: &str) -> Cow<'_, str> {
    const COMMANDS: [&str; 4] = ["\\text{", "\\textbf{", "\\mathrm{", "\\textit{"];
    if !text.contains('\\') || !COMMANDS.iter().any(|command| text.contains(command)) {
        return Cow::Borrowed(text);
    }
    let delimiters = ["\\(", "\\["];
    let marks = COMMANDS.iter().chain(&delimiters);
    let words = marks.fold(text.to_owned(), |text, mark| text.replace(mark, " "));
    Cow::Owned(words.replace('}', "").trim_end().to_owned())
}

/// Whether the sentence before an answer denies it, or makes it what somebody else says. `is_named` says that a name stands
/// between them, `after` is what follows the answer.
fn denies(sentence: &str, is_named: bool, after: &str, known: &Known) -> bool {
    if sentence.is_empty() || is_correction(sentence) {
        return false;
    }
    if label::is_of_another(sentence, known) {
        return true;
    }
    // Nearly all texts have no such word.
    let mut words =
        sentence.split(|c: char| !c.is_alphabetic() && !matches!(c, '\'' | '’')).filter(|word| !word.is_empty());
    let is_beside = words.clone().next_back().is_some_and(bound::is_end_of_bound);
    if !is_beside && !words.any(may_deny) {
        return false;
    }
    let words = words_of(sentence);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if speaker::is_quoted(&words, after, known) {
        return true;
    }
    let words = words_of(sentence.rsplit_once(", ").map_or(sentence, |(_, clause)| clause));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // `50% of`
    let is_share = sentence.strip_suffix("of").is_some_and(|rest| rest.trim_end().ends_with(['%', '½', '⅓', '¼', '¾']));
    // `half of $x = 36$` says what x is half of.
    is_share || is_denial(&words) || is_told_wrong(&words) || is_beside && !is_named && bound::is_bound(&words)
}

/// Whether a sentence says only that the answer before it was wrong: `First 5. No: 4`.
fn is_correction(sentence: &str) -> bool {
    let word = sentence.trim_end_matches([':', ' ']).trim_start_matches(['*', ' ', '-', '—']);
    ["no", "wait", "no wait", "no, wait"].iter().any(|correction| word.eq_ignore_ascii_case(correction))
}

/// Whether a clause says that what follows is wrong: `it is false that x =`, `an incorrect approach gives`.
fn is_told_wrong(clause: &[&str]) -> bool {
    const WRONG: [&str; 9] =
        ["wrong", "false", "incorrect", "untrue", "doubt", "deny", "mistaken", "impossible", "mistake"];
    let is_claimed = clause.windows(2).any(|pair| matches!(pair, [wrong, "that" | "to"] if WRONG.contains(wrong)))
        || clause
            .windows(3)
            .any(|words| matches!(words, [no, "true" | "correct" | "right", "that"] if is_negation(no)));
    let is_adverb = |word: &&str| {
        matches!(*word, "wrongly" | "incorrectly" | "mistakenly" | "erroneously" | "falsely")
            || speaker::is_hearsay(word)
    };
    // `a common mistake gives`, `the wrong approach yields`
    let yields = |word: &str| matches!(word, "gives" | "yields" | "produces" | "gave" | "give" | "yield");
    let is_yielded = matches!(clause, [.., "mistake" | "error", verb] if yields(verb))
        || matches!(clause, [.., wrong, _, verb] if yields(verb) && words::is(Role::Denial, wrong));
    // `do not answer`, `never write`
    let verbs = ["answer", "write", "say", "put", "give", "choose", "submit"];
    let is_forbidden =
        matches!(clause, [.., no, verb] if is_negation(no) && verbs.contains(verb)) || clause == ["not", ":"];
    // `If the answer were`
    let is_supposed = matches!(clause, ["if" | "suppose" | "supposing" | "assume" | "assuming" | "say", ..])
        && matches!(clause, [.., "answer" | "it", "is" | "was" | "were" | "be"]);
    is_claimed || clause.iter().any(is_adverb) || is_yielded || is_forbidden || is_supposed
}

/// Whether a word, in any case, occurs in a denial.
fn may_deny(word: &str) -> bool {
    const ROLES: [Role; 5] = [Role::Negation, Role::Denial, Role::Multiple, Role::Speech, Role::Report];
    let is_listed = |word: &str| {
        words::is_any(&ROLES, word)
            || matches!(
                word,
                "answer" | "guess" | "attempt" | "example" | "instance" | "his" | "her" | "their" | "your"
            )
            || matches!(word, "half" | "third" | "quarter" | "square" | "cube" | "root" | "logarithm" | "according")
            || matches!(
                word,
                "reciprocal" | "negative" | "opposite" | "inverse" | "mistake" | "error" | "doubt" | "deny"
            )
            || matches!(word, "wrongly" | "incorrectly" | "mistakenly" | "erroneously" | "falsely" | "untrue")
            || matches!(word, "impossible" | "suppose" | "supposing" | "assume" | "assuming" | "if")
            || speaker::is_hearsay(word)
    };
    words::in_lower_case(word, is_listed)
        || ["n't", "n’t", "N'T", "'s", "’s", "s'", "s’"].iter().any(|end| word.ends_with(end))
}

fn is_denial(clause: &[&str]) -> bool {
    let rest = without(clause, is_filler);
    let Some((last, words)) = rest.split_last() else { return false };
    let is_copula = |word: &&str| *word == ":" || words::is(Role::Copula, word);
    let is_told = clause.iter().skip(rest.len()).any(is_copula);
    if (is_negation(last) && !is_told && words.last() != Some(&"or"))
        || (words::is(Role::Denial, last) && words.is_empty())
    {
        return true;
    }
    if *last == "mistake" {
        return words.ends_with(&["common"]);
    }
    if !words::is(Role::Claim, last) {
        return false;
    }
    let words = without(words, is_filler);
    if *last == "answer" && words.last().is_some_and(|word| words::is(Role::Denial, word)) {
        return true;
    }
    let believed = without(words, |word| words::is(Role::Belief, word));
    let is_disbelieved = believed.len() < words.len() && believed.last().is_some_and(|word| is_negation(word));
    let is_part = words.ends_with(&["half", "of"])
        || matches!(words, [.., part, "of"] if words::is(Role::Bound, &format!("{part} of")))
        || words.last().is_some_and(|word| words::is(Role::Multiple, word));
    is_disbelieved || (*last == "answer" && is_part)
}

/// Whether a word may stand between a denial and a box: `is not equal to the`.
fn is_filler(word: &str) -> bool {
    matches!(word, "#" | ":") || words::is(Role::Filler, word)
}

fn is_negation(word: &str) -> bool {
    words::is(Role::Negation, word) || word.ends_with("n't")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_denied(before: &str) -> bool {
        let (sentence, is_named) = sentence_before(before, before.len());
        denies(sentence, is_named, "", &Known::default())
    }

    #[test]
    fn words_that_deny_a_box_are_seen() {
        for before in [
            "The answer is not ",
            "The answer isn't $",
            "It is not equal to \\(",
            "I don't think the answer is ",
            "I do not believe that the answer is ",
            "An incorrect answer is ",
            "The wrong answer would be ",
            "Wrong: ",
            "A common mistake is ",
            "Half of the answer is ",
            "Twice the answer is **",
        ] {
            assert!(is_denied(before), "{before}");
        }
    }

    #[test]
    fn words_that_say_what_a_box_holds_deny_nothing() {
        for before in [
            "",
            "The answer is ",
            "No: ",
            "First 5. Wait: ",
            "I think the answer is ",
            "This is not 8, so the answer is ",
            "The answer is not 8 but ",
            "Since x is not zero, x = ",
            "The number of integers that are not divisible by 3 is ",
            "The number that is not a solution is ",
            "The probability that the result is incorrect is ",
            "The relative error is ",
            "Twice the number is ",
            "The sum of the digits that are not 0 is ",
            "The smallest integer that is not $7$ is $",
            "The number of students who do not is ",
            "The series converges or not: ",
            "The incorrect option is ",
            "Half of the total value is ",
            "The third answer is wrong. The answer is ",
        ] {
            assert!(!is_denied(before), "{before}");
        }
    }
}
