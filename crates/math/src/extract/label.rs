//! A label right before an answer: `Total:` names it, and `Bob:` says whose it is.
//!
//! Every word of a short label must be known, from the table or from the problem.

use super::introduced::without_opening;
use crate::slicing::SafeSlice;
use crate::unit::Unit;
use crate::words::{self, Known, Role};

/// Most words of a label that may name somebody.
const MAX_WORDS: usize = 3;
/// Marks between a label and what it labels.
const MARKS: [&str; 9] = [":", "：", "→", "=>", "->", ">>", "—", "–", " -"];
/// Ends of words that say what is done or found, and name nobody.
const ENDS: [&str; 7] = ["ing", "tion", "sion", "ment", "ity", "ness", "ize"];
/// Shortest word for which its end speaks.
const MIN_LETTERS: usize = 6;
/// People who may say something, where one of them is meant.
const PEOPLE: [&str; 26] = [
    "student", "teacher", "friend", "person", "boy", "girl", "man", "woman", "kid", "child", "guest", "pupil",
    "player", "worker", "member", "adult", "he", "she", "they", "you", "him", "them", "who", "his", "their", "your",
];

/// Whether the sentence before an answer ends with a label that may name somebody: `Bob:`, `Student A -`, `(Bob)`.
pub(super) fn is_of_another(sentence: &str, known: &Known) -> bool {
    let Some(label) = label(sentence) else { return false };
    if label.contains(['=', '+', '^', '\\', '{', '}', '<', '/']) {
        return false;
    }
    let words = label
        .split(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '’'))
        .filter(|word| word.chars().nth(1).is_some() && word.contains(|c: char| c.is_alphabetic()));
    let count = words.clone().count();
    // `my friend`
    let is_somebody = |word: &str| PEOPLE.contains(&word) && !known.is_text(word);
    if (2..=MAX_WORDS).contains(&count)
        && words.clone().next_back().is_some_and(is_somebody)
        && words.clone().next().is_some_and(|word| matches!(word, "My" | "my" | "The" | "the" | "A" | "a" | "Another"))
    {
        return true;
    }
    // `Per person`, `Or rather`
    let is_of_prose = |word: &str| {
        let lower = word.to_lowercase();
        count > 1 && (PEOPLE.contains(&&*lower) || words::is(Role::Restating, &lower))
    };
    (1..=MAX_WORDS).contains(&count) && !words.clone().all(|word| is_known(word, known) || is_of_prose(word))
}

/// The label at the end of a sentence, from its last comma on.
fn label(sentence: &str) -> Option<&str> {
    let text = without_opening(sentence);
    let in_brackets = [('(', ')'), ('[', ']')].into_iter().find_map(|(open, close)| {
        let inner = text.strip_suffix(close)?;
        let name = inner.suffix_from(inner.rfind(open)? + open.len_utf8());
        // `(dollars)`, `f(Bob)`
        (name.starts_with(char::is_uppercase) && inner.prefix_to(inner.len() - name.len() - 1).trim().is_empty())
            .then_some(name)
    });
    let before = || MARKS.iter().find_map(|mark| text.strip_suffix(mark));
    let label = in_brackets.or_else(before)?;
    let label = label.rsplit([',', '.', '|', ':']).next().unwrap_or(label);
    Some(label.trim_matches(|c: char| c.is_whitespace() || "*_#>-•\"".contains(c)))
}

/// Whether a character is of a script in which names are not told from words: not Latin, Greek or Cyrillic.
fn is_of_other_script(c: char) -> bool {
    c > '\u{52f}' && !('\u{1e00}'..='\u{1fff}').contains(&c)
}

/// Whether a word is one of a label that names nobody.
pub(super) fn is_known(word: &str, known: &Known) -> bool {
    const ROLES: [Role; 15] = [
        Role::Label,
        Role::Connective,
        Role::Opening,
        Role::Name,
        Role::Adjective,
        Role::Lead,
        Role::Tail,
        Role::Function,
        Role::Operator,
        Role::Reason,
        Role::Plain,
        Role::Claim,
        Role::Copula,
        Role::Filler,
        Role::Closed,
    ];
    let lower = word.to_lowercase();
    let is_person = PEOPLE.contains(&lower.as_str());
    word.contains(is_of_other_script)
        || known.is_text(word)
        || !is_person
            && (words::is_any(&ROLES, &lower)
                || words::is_any(&ROLES, &words::singular(word))
                || words::is_counter(&lower)
                || Unit::known(&lower).is_some()
                || word.len() >= MIN_LETTERS && ENDS.iter().any(|end| lower.ends_with(end))
                // `AB`, `LHS`
                || word.chars().all(char::is_uppercase) && word.len() < MIN_LETTERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_of_unknown_words_may_name_somebody() {
        let known = Known::default();
        for sentence in [
            "Bob:",
            "**Bob:**",
            "Alice: 3, Bob:",
            "Bob Smith - ",
            "Student A:",
            "User:",
            "bob →",
            "[Bob]",
            "José:",
            "Боб:",
            "My friend:",
        ] {
            assert!(is_of_another(sentence, &known), "{sentence}");
        }
        for sentence in [
            "So:",
            "Total:",
            "**Final Answer:**",
            "Step 3:",
            "Students:",
            "Simplifying:",
            "Explanation:",
            "AB:",
            "x:",
            "Largest integer:",
            "The number of wombats in Wales:",
            "Question 5 -",
            "f(Bob)",
            "(dollars)",
            "Lösung:",
            "Итого:",
            "总费用为：",
            "Per person:",
            "It is",
        ] {
            assert!(!is_of_another(sentence, &known), "{sentence}");
        }
        let mut problem = Known::default();
        problem.add("How many wombats does Bob see?");
        assert!(!is_of_another("Bob:", &problem) && !is_of_another("Wombats:", &problem));
    }
}
