//! Sentences that conclude another value than the answer before them: `But we need the double, which is 37`.

use super::super::restated::{self, Answered};
use super::super::sentence::words_of;

/// Verbs between what a sentence speaks of and its value.
const VERBS: [&str; 11] = ["is", "are", "was", "be", "gives", "gave", "yields", "equals", "get", "becomes", "obtain"];

/// Whether a sentence that contrasts with the answer ends with another value.
pub(super) fn concludes_another(sentence: &str, answered: &Answered<'_>) -> bool {
    if sentence.contains('=') {
        return false;
    }
    let sentence = sentence.trim_end_matches(['.', ' ', '*', '!']);
    let instead = sentence.strip_suffix("instead").map(|rest| rest.trim_end_matches([' ', ',']));
    let sentence = instead.unwrap_or(sentence);
    if !sentence.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '}' | '$' | ')' | ']')) {
        return false;
    }
    let words = words_of(sentence);
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != ",").collect();
    let contrasts = match words.as_slice() {
        [.., "should" | "must", "be", "#"] => true,
        [rest @ .., verb, "#"] if VERBS.contains(verb) => instead.is_some() || is_contrast(rest),
        _ => false,
    };
    contrasts && restated::ends_with_another(sentence, answered)
}

/// Whether words contrast with what precedes them, and deny nothing.
fn is_contrast(words: &[&str]) -> bool {
    let is_denial =
        |word: &&str| matches!(*word, "not" | "cannot" | "never" | "no" | "if" | "when") || word.ends_with("n't");
    words.iter().any(|word| matches!(*word, "but" | "however")) && !words.iter().any(is_denial)
}

/// Whether a line that says only "or" stands between the answer and another value.
pub(super) fn offers_on_next_line(rest: &str, answered: &Answered<'_>) -> bool {
    let Some((before, other)) = rest.split_once("\nor\n") else { return false };
    let line = other.split_once('\n').map_or(other, |(line, _)| line);
    !before.contains(char::is_alphanumeric)
        && restated::is_another_value(line.trim_matches(['.', '$', ' ', '*']), answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contrast_that_ends_with_another_value_concludes_it() {
        let concludes = |sentence: &str| concludes_another(sentence, &Answered::new("\\boxed{", "36"));
        for sentence in [
            "But the question asks for the double, which is 37.",
            "The real answer, however, is 37",
            "Upon verification, the value should be $37$.",
            "Verification gives 37 instead.",
        ] {
            assert!(concludes(sentence), "{sentence}");
        }
        for sentence in [
            "But the question asks for the area, which is 36.",
            "However, it cannot be 37.",
            "However, 37 is prime.",
            "The check gives 37.",
            "But $x = 37$",
        ] {
            assert!(!concludes(sentence), "{sentence}");
        }
    }
}
