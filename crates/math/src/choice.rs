//! Multiple-choice letters.

/// Letters used for choices.
const LETTERS: std::ops::RangeInclusive<char> = 'A'..='J';

/// The letter of a gold answer that consists of a choice alone: `B`, `(B)`, `\text{(B)}`, `\textbf{B}`.
pub(crate) fn of_gold(text: &str) -> Option<char> {
    let bare = without_markup(text)?;
    let (letter, rest) = leading_letter(&bare)?;
    rest.is_empty().then_some(letter)
}

/// The choice at the start of an answer, set apart from what follows: `(B) 42`, `B. 42`, `B) 42`, `B: 42`. `None` if there is none, or more
/// than one.
pub(crate) fn of_answer(text: &str) -> Option<char> {
    let bare = without_markup(text)?;
    let (letter, rest) = leading_letter(&bare)?;
    let mut words = rest.split(|c: char| !c.is_alphanumeric());
    let is_other = |word: &str| {
        let mut letters = word.chars();
        let single = letters.next().filter(|_| letters.next().is_none());
        matches!(word, "or" | "and") || single.is_some_and(|other| LETTERS.contains(&other) && other != letter)
    };
    (!words.any(is_other)).then_some(letter)
}

/// The text without formatting commands, braces and delimiters. `None` if it has no choice letter.
fn without_markup(text: &str) -> Option<String> {
    if !text.contains(|c| LETTERS.contains(&c)) {
        return None;
    }
    let mut bare = text.trim().to_owned();
    for command in
        ["\\textbf", "\\textrm", "\\text", "\\mathrm", "\\mathbf", "\\mbox", "\\left", "\\right", "\\ ", "\\,"]
    {
        if bare.contains(command) {
            bare = bare.replace(command, "");
        }
    }
    bare.retain(|c| !matches!(c, '{' | '}' | '$' | '~' | '*'));
    Some(bare.trim().trim_end_matches('.').trim().to_owned())
}

/// The letter at the start, and the rest.
fn leading_letter(text: &str) -> Option<(char, &str)> {
    let (inner, in_parentheses) = match text.strip_prefix('(') {
        Some(inner) => (inner.trim_start(), true),
        None => (text, false),
    };
    let mut characters = inner.chars();
    let letter = characters.next().filter(|letter| LETTERS.contains(letter))?;
    let rest = characters.as_str().trim_start();
    if in_parentheses {
        return rest.strip_prefix(')').map(|rest| (letter, rest.trim()));
    }
    if rest.is_empty() {
        return Some((letter, rest));
    }
    // `B.42` means `B. 42`, but `A:B` is a ratio.
    let marked = rest.strip_prefix(['.', ')']).or_else(|| rest.strip_prefix(": "))?;
    Some((letter, marked.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_a_letter_set_apart() {
        for answer in ["B", "(B)", "\\text{(B)}", "\\textbf{(B)}\\ 42", "B. 42", "B) x = 42", "\\textbf{B}", "B."] {
            assert_eq!(of_answer(answer), Some('B'), "{answer}");
        }
        for answer in ["ABCD", "A or B", "A, B, C, D", "B. or C.", "42", "B42", "B:C", "b", "(B", "2B"] {
            assert_eq!(of_answer(answer), None, "{answer}");
        }
        assert_eq!(of_gold("\\text{(E)}"), Some('E'));
        assert_eq!(of_gold("(B) 42"), None);
    }
}
