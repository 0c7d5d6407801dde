//! Whether a response is its answer and nothing besides.

/// What may stand around the answer, in lower case: before it and after it.
const MARKS: [(&str, &str); 7] = [
    ("\\boxed{", "}"),
    ("\\fbox{", "}"),
    ("<answer>", "</answer>"),
    ("####", ""),
    ("the answer is", ""),
    ("final answer:", ""),
    ("answer:", ""),
];

/// Whether `text` is `extracted`, the answer that a verifier found in it, with at most the marks by which an answer is
/// found.
pub(super) fn is_bare(text: &str, extracted: Option<&str>) -> bool {
    let Some(answer) = extracted.map(plain).filter(|answer| !answer.is_empty()) else { return false };
    let mut rest = plain(text).to_lowercase();
    let answer = answer.to_lowercase();
    // Each mark once, from the outside in: `The answer is \boxed{5}.`
    for _ in MARKS {
        if rest == answer {
            return true;
        }
        let inner = MARKS.iter().find_map(|(before, after)| rest.strip_prefix(before)?.strip_suffix(after));
        match inner {
            Some(inner) => rest = plain(inner).to_owned(),
            None => return false,
        }
    }
    false
}

/// Whether a text has any of the marks by which an answer is found.
pub(super) fn is_marked(text: &str) -> bool {
    let text = text.to_lowercase();
    MARKS.iter().any(|(before, _)| text.contains(before))
}

/// Without white space, delimiters of formulas and a full stop at the ends.
fn plain(text: &str) -> &str {
    text.trim_matches(|character: char| character.is_whitespace() || matches!(character, '$' | '.' | '*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_marked_wherever_the_mark_stands() {
        assert!(["so \\boxed{42}.", "#### 42", "Thus the Answer is 42"].into_iter().all(is_marked));
        assert!(!["42", "boxed 42", ""].into_iter().any(is_marked));
    }

    #[test]
    fn an_answer_with_its_mark_is_bare_and_one_with_a_word_besides_is_not() {
        for text in [
            "\\boxed{42}",
            " $\\boxed{42}$.\n",
            "#### 42",
            "The answer is 42.",
            "The answer is \\boxed{42}.",
            "42",
            "**Answer: 42**",
        ] {
            assert!(is_bare(text, Some("42")), "{text}");
        }
        for text in [
            "40 + 2 = \\boxed{42}",
            "\\boxed{42} apples",
            "\\boxed{41}",
            "So the answer is 42",
            "\\boxed{42} \\boxed{42}",
            "",
        ] {
            assert!(!is_bare(text, Some("42")), "{text}");
        }
        assert!(!is_bare("\\boxed{42}", None) && !is_bare("\\boxed{}", Some("")) && !is_bare("$$", Some("$")));
    }
}
