//! Whether the words of a sentence announce an answer: each must be known to be harmless where it stands.

use crate::slicing::SafeSlice;
use crate::words::{self, Known, MAX_PHRASE_WORDS, Role};

/// Most words before "answer" that are read; a longer clause is not understood.
const MAX_WORDS: usize = 40;

/// The words of a text in lower case; formulas and numbers are `#`, commas and colons stay.
pub(super) fn words_of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        match c {
            c if c.is_alphabetic() || c.is_ascii_digit() || "\\^_+=<>≤≥≠()[]{}|/'".contains(c) => word.push(c),
            '’' => word.push('\''),
            '-' | '.' if !word.is_empty() => word.push(c),
            c => {
                if !word.is_empty() {
                    found.push(normal(&std::mem::take(&mut word)));
                }
                if matches!(c, ',' | ':' | ';') {
                    found.push(c.to_string());
                }
            }
        }
    }
    found
}

/// A word in lower case, or `#` for anything that is a part of a formula.
fn normal(word: &str) -> String {
    let bare = word.trim_matches(['.', '-', '(', ')']);
    let is_word = !bare.is_empty() && bare.chars().all(|c| c.is_alphabetic() || matches!(c, '\'' | '-'));
    match () {
        () if is_word => bare.to_lowercase(),
        () => "#".to_owned(),
    }
}

/// The longest phrase of a kind at the start of some words: its length.
fn phrase(words: &[String], role: Role) -> Option<usize> {
    (1..=words.len().min(MAX_PHRASE_WORDS))
        .rev()
        .find(|length| words.get(..*length).is_some_and(|words| words::is(role, &words.join(" "))))
}

/// Whether what precedes "answer" in its sentence leaves it the answer: `So the final`, `Since x > 0, the`, but not
/// `Twice the`, `I don't think the`, `If n is even, the`.
pub(super) fn leads(before: &str) -> bool {
    let words = words_of(before);
    if words.len() > MAX_WORDS {
        return false;
    }
    let mut end = words.len();
    let last = |end: usize| end.checked_sub(1).and_then(|at| words.get(at)).map(String::as_str);
    while last(end).is_some_and(|word| words::is(Role::Adjective, word)) {
        end -= 1;
    }
    if matches!(last(end), Some("the" | "our" | "my")) {
        end -= 1;
    } else if end < words.len() && end > 0 && !matches!(last(end), Some("," | ":" | ";")) {
        // `a final answer`
        return false;
    }
    let mut rest = words.get(..end).unwrap_or_default();
    if let Some(statement) = concluded_from(rest) {
        return !statement.iter().any(|word| words::is(Role::Hedge, word) || word.ends_with("n't"));
    }
    loop {
        let before = rest.len();
        while let Some((first, others)) = rest.split_first()
            && matches!(first.as_str(), "," | ":" | ";")
        {
            rest = others;
        }
        if let Some(length) = phrase(rest, Role::Connective) {
            rest = rest.get(length..).unwrap_or_default();
        }
        // `Step 5:`
        if rest.first().is_some_and(|word| word == "step") && rest.get(1).is_some_and(|word| word == "#") {
            rest = rest.get(2..).unwrap_or_default();
        }
        if let Some(length) = reason(rest) {
            rest = rest.get(length..).unwrap_or_default();
        }
        if rest.is_empty() {
            return true;
        }
        if rest.len() == before {
            return false;
        }
    }
}

/// The statement that an answer is concluded from: `There are 3 + 4 apples, so the answer is 7`, `She has 4, and the answer
/// is 7`, `He gets 3 more, which means that the answer is 7`.
fn concluded_from(words: &[String]) -> Option<&[String]> {
    const CONCLUSIONS: [&[&str]; 7] = [
        &["so"],
        &["thus"],
        &["hence"],
        &["therefore"],
        &[",", "and"],
        &["which", "means"],
        &["which", "means", "that"],
    ];
    let ends = |end: &&[&str]| {
        let statement = words.get(..words.len().checked_sub(end.len())?)?;
        words.iter().skip(statement.len()).eq(end.iter()).then_some(statement)
    };
    CONCLUSIONS.iter().find_map(ends).filter(|statement| !statement.is_empty())
}

/// The length of a clause that gives a reason and ends with a comma: `since x > 0,`.
fn reason(words: &[String]) -> Option<usize> {
    let first = words.first()?;
    if !words::is(Role::Reason, first) {
        return None;
    }
    let end = words.iter().position(|word| word == ",")?;
    explains(words.get(1..end)?, &Known::default()).then_some(end + 1)
}

/// Whether the words of a reason say nothing else of the answer: function words, nouns of the table, formulas.
fn explains(words: &[String], known: &Known) -> bool {
    !words.is_empty()
        && words.iter().all(|word| {
            word == "#"
                || words::is(Role::Plain, word)
                || (words::is(Role::Name, word) && !words::is_changing(word))
                || known.is_noun(word)
                || crate::unit::Unit::known(word).is_some()
        })
}

/// The announced answer without a reason after it: `7, since x > 0`, `7, which is the number of days in a week`. The
/// whole where a word of the reason may change the answer, or where it has another number.
pub(super) fn without_reason(sentence: &str) -> &str {
    const OPENERS: [&str; 6] = ["since ", "because ", "which ", "as ", "where ", "so "];
    let starts = OPENERS.iter().flat_map(|opener| {
        sentence.match_indices(opener).filter_map(|(at, opener)| {
            let before = [", ", "; ", " "].iter().find(|before| sentence.prefix_to(at).ends_with(**before))?;
            Some((at - before.len(), at + opener.len()))
        })
    });
    let Some((at, after)) = starts.min() else { return sentence };
    let answer = sentence.prefix_to(at);
    let clause = sentence.suffix_from(after);
    if answer.trim().is_empty() {
        return sentence;
    }
    if is_denial_of_another(clause, answer) {
        return answer;
    }
    let words = words_of(clause);
    let rest = words.iter().filter(|word| !matches!(word.as_str(), "," | "so")).cloned().collect::<Vec<_>>();
    if explains(&rest, &Known::default()) && !has_another_number(clause, answer) { answer } else { sentence }
}

/// Whether a clause says of another number that it is none: `8 is wrong`.
fn is_denial_of_another(clause: &str, answer: &str) -> bool {
    let words = words_of(clause);
    let denies = |word: &str| {
        matches!(word, "wrong" | "impossible" | "negative" | "extraneous" | "rejected" | "invalid" | "excluded")
    };
    matches!(words.as_slice(), [number, is, no] if number == "#" && is == "is" && denies(no))
        && has_another_number(clause, answer)
}

/// Whether a text has a number in words of its own that the answer has not.
pub(super) fn has_another_number(text: &str, answer: &str) -> bool {
    let numbers = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_ascii_digit() && c != '.')
            .map(|number| number.trim_matches('.').to_owned())
            .filter(|number| !number.is_empty())
            .collect()
    };
    let own = numbers(answer);
    // The numbers of a condition, `x > 0`, are no values.
    let mut is_after_order = false;
    let mut rest = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let is_order = ["<", ">", "\\le", "\\ge", "\\ne", "≤", "≥", "≠"].iter().any(|sign| word.contains(sign));
        if !is_order && !is_after_order {
            rest.push_str(word);
            rest.push(' ');
        }
        is_after_order = is_order && word.ends_with(['<', '>', '≤', '≥', '≠', 'e', 'q', 't']);
    }
    numbers(&rest).iter().any(|number| !own.contains(number))
}

/// Words without those at their end that are of a kind.
pub(super) fn without<'a, 'b>(mut words: &'a [&'b str], is: impl Fn(&str) -> bool) -> &'a [&'b str] {
    while let Some((last, rest)) = words.split_last()
        && is(last)
    {
        words = rest;
    }
    words
}

/// A text without its drawings, `[asy]...[/asy]`.
pub(super) fn drawn(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split("[asy]").enumerate();
    parts.map(|(at, part)| if at == 0 { part } else { part.split_once("[/asy]").map_or("", |(_, after)| after) })
}

/// The sentences and lines of a text.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n')
        .flat_map(|line| line.split(". "))
        .flat_map(|part| part.split("! "))
        .flat_map(|part| part.split("; "))
        .flat_map(|part| part.split(", so "))
        .flat_map(|part| part.split(['。', '！', '？']))
}

/// The clauses of a sentence.
pub(super) fn clauses(sentence: &str) -> impl Iterator<Item = &str> {
    sentence
        .split(['(', ')', '—', '，', '、'])
        .flat_map(|part| part.split(", "))
        .flat_map(|part| part.split(" - "))
        .flat_map(|part| part.split(" – "))
        .flat_map(|part| part.split(" or "))
        .flat_map(|part| part.split(" but "))
        .flat_map(|part| part.split(" though "))
        .flat_map(|part| part.split(" although "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_before_an_announcement_is_known() {
        for before in [
            "",
            "The ",
            "So the final ",
            "Therefore, the correct ",
            "Since x > 0, the ",
            "Thus our ",
            "Step 5: the ",
            "Emma has 4 apples, and the final ",
            "Emma gets 6 more, which means the ",
        ] {
            assert!(leads(before), "{before}");
        }
        for before in [
            "Twice the ",
            "An incorrect ",
            "A tempting ",
            "I don't think the ",
            "If n is even, the ",
            "For n=2 the ",
            "Suppose the ",
            "Claim: the ",
            "The last digit of the ",
            "Bob's ",
            "Since it is unclear, the ",
            "If n is even it is 7, so the ",
            "It may be 7, and the ",
            "Twice 5 and the ",
            "n=2: the ",
        ] {
            assert!(!leads(before), "{before}");
        }
    }

    #[test]
    fn a_reason_is_no_part_of_the_answer_and_anything_else_is() {
        for sentence in ["7, since x > 0", "7, which is the number of days in a week", "7 because 8 is wrong"] {
            assert_eq!(without_reason(sentence), "7", "{sentence}");
        }
        for sentence in [
            "7, which is wrong",
            "7, which contradicts the assumption",
            "7, where the alternative is 8",
            "7 since it is either 7 or 8",
            "7, as are 8 and 9",
        ] {
            assert_eq!(without_reason(sentence), sentence);
        }
    }
}
