//! Answers to multiple-choice questions: letters, with or without the content of the option.

mod content;

use content::is_own_content;
pub(crate) use content::{by_content, content_in, contents_of};

use crate::expr::Function;
use crate::unit::Unit;
use crate::words::{self, Known, Role};

/// Letters used for choices.
const LETTERS: std::ops::RangeInclusive<char> = 'A'..='J';

/// Whether a text has one of the letters at all: all of its bytes at once, since most texts have none.
fn has_letter(text: &str) -> bool {
    text.bytes().fold(false, |found, byte| found | (byte.wrapping_sub(b'A') < 10))
}

/// The letter of a gold answer that consists of a choice alone: `B`, `(B)`, `\text{(B)}`, `\textbf{B}`.
pub(crate) fn of_gold(text: &str) -> Option<char> {
    let bare = without_markup(text)?;
    let Some((letter, rest)) = leading_letter(&bare) else { return before_name(&bare) };
    let is_marked = || {
        let after = bare.trim_start_matches(letter);
        bare.starts_with('(') || after.len() + 1 == bare.len() && after.starts_with([')', ':'])
    };
    (rest.is_empty() || (is_marked() && is_content(rest))).then_some(letter)
}

/// The letter before a name: `C Cecile`. Not an article, and not a note.
fn before_name(bare: &str) -> Option<char> {
    let (letter, name) = bare.split_once(' ')?;
    let mut letters = name.chars();
    let is_name = letters.next().is_some_and(|c| c.is_ascii_uppercase())
        && letters.next().is_some_and(|c| c.is_ascii_lowercase())
        && letters.all(|c| c.is_alphabetic() || c == ' ');
    let letter = letter.chars().next().filter(|found| letter.len() == 1 && ('B'..='H').contains(found))?;
    (is_name && !matches!(name, "Major" | "Minor" | "Sharp" | "Flat")).then_some(letter)
}

/// Whether what follows a choice in parentheses is its content: it begins with no operator.
fn is_content(rest: &str) -> bool {
    !rest.starts_with(['+', '*', '/', '^', '=', '<', '>', ',', ';', '(', '_', '\'']) && others_than(rest, ' ')
}

/// The content after the letter of a choice: of `(C) 14` and `C. 14`.
pub(crate) fn content(text: &str) -> Option<String> {
    if !has_letter(text) {
        return None;
    }
    let mut bare = text.trim().to_owned();
    // `\\textbf{(C)}\\ 17`
    let argument = ["\\textbf{", "\\textrm{", "\\text{", "\\mathrm{", "\\mathbf{", "\\mbox{"]
        .iter()
        .find_map(|command| bare.strip_prefix(command))
        .and_then(|rest| rest.split_once('}'));
    if let Some((letter, rest)) = argument
        && letter.len() <= 4
    {
        bare = format!("{letter} {rest}");
    }
    let (_, rest) = leading_letter(bare.trim())?;
    let rest = rest.trim_start_matches(['\\', ' ', '~', ',']).len();
    let rest = bare.trim().get(bare.trim().len() - rest..)?;
    // A command needs its backslash.
    let start = bare.trim().len() - rest.len();
    let rest = if start > 0 && rest.starts_with(char::is_alphabetic) && bare.trim().get(..start)?.ends_with('\\') {
        bare.trim().get(start - 1..)?
    } else {
        rest
    };
    (!rest.is_empty()).then(|| rest.to_owned())
}

/// The letters of a gold answer that consists of several choices: `ABD`, `A, B, D`.
pub(crate) fn several_of_gold(text: &str) -> Option<String> {
    several(text)
}

/// The letters of an answer that consists of several choices and separators alone, ascending. `None` where they are out
/// of order without separators, as in a word.
pub(crate) fn several(text: &str) -> Option<String> {
    let bare = without_markup(text)?;
    let mut letters = String::new();
    for part in bare.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '、' | '&' | '/' | '\\')) {
        let part = part.trim_matches(['(', ')', '.']);
        match part {
            "" | "and" => {}
            part if part.chars().all(|c| LETTERS.contains(&c)) => letters.push_str(part),
            _ => return None,
        }
    }
    let mut sorted: Vec<char> = letters.chars().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let is_word = !bare.contains([',', ';', ' ', '/', '&']) && !letters.chars().eq(sorted.iter().copied());
    (sorted.len() > 1 && sorted.len() == letters.len() && !is_word).then(|| sorted.into_iter().collect())
}

/// The choice that an answer states: `(B)`, `B.`, `Option B`, `(B) is correct`, or with its content `(B) 42`. `None` if
/// there is none, more than one, or anything else, such as `(B) fails`.
pub(crate) fn of_answer(text: &str, known: &Known) -> Option<char> {
    let bare = without_markup(text)?;
    let bare = without_title(&bare);
    let (letter, rest) = leading_letter(bare).or_else(|| before_content(bare))?;
    let is_accepted = says_nothing_else(rest) || is_own_content(text, rest, letter, known);
    is_accepted.then_some(letter)
}

/// What may follow a choice without its content: nothing, or a statement that it is the answer.
fn says_nothing_else(rest: &str) -> bool {
    if rest.contains('?') {
        return false;
    }
    let rest = rest.trim_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '✓' | '✔' | '☑' | '!'));
    let lower = rest.to_lowercase();
    // `C. Both A and B` names the others.
    rest.is_empty() || rest == "\\checkmark" || words::is(Role::Choice, &lower)
}

/// Whether every word of a choice's content is known.
fn has_known_words(rest: &str, letter: char, known: &Known) -> bool {
    words::words_in(rest, |c| c.is_alphabetic() || matches!(c, '\'' | '’')).iter().all(|(word, is_command)| {
        let single = word.chars().nth(1).is_none().then(|| word.chars().next()).flatten();
        let is_other = single.is_some_and(|other| LETTERS.contains(&other) && other != letter);
        let is_word = !is_command && single.is_none();
        !is_other && (!is_word || is_content_word(word, known))
    })
}

/// Whether a word may be part of a choice's content: a unit, a function, or a noun that is known.
fn is_content_word(word: &str, known: &Known) -> bool {
    let lower = word.to_lowercase();
    known.is_noun(word)
        || Unit::known(word).is_some()
        || Function::named(&lower).is_some()
        || (words::is(Role::Function, &lower) && known.is_text(word))
}

/// The letter of `c` and `(c)`; not of e and i, which are numbers.
pub(crate) fn in_lower_case(text: &str) -> Option<char> {
    let bare = text.trim().trim_matches(['(', ')', '.', '$', '*']);
    let mut letters = bare.chars();
    let letter = letters.next().filter(|letter| ('a'..='h').contains(letter) && *letter != 'e')?;
    letters.next().is_none().then(|| letter.to_ascii_uppercase())
}

/// `Option B`, `Choice: (B)`
fn without_title(text: &str) -> &str {
    let titles = [
        "the correct answer is",
        "the correct option is",
        "the correct choice is",
        "the final answer is",
        "the answer is",
        "answer is",
        "option",
        "choice",
        "answer",
    ];
    let title =
        titles.iter().find(|title| text.get(..title.len()).is_some_and(|start| start.eq_ignore_ascii_case(title)));
    let rest = title.and_then(|title| text.get(title.len()..)).filter(|rest| rest.starts_with([' ', ':', '(']));
    rest.map_or(text, |rest| rest.trim_start_matches([' ', ':']))
}

/// Splits `B 42` into the letter and the content.
fn before_content(text: &str) -> Option<(char, &str)> {
    let mut characters = text.chars();
    let letter = characters.next().filter(|letter| LETTERS.contains(letter))?;
    let rest = characters.as_str();
    let content = rest.trim_start();
    let is_content = content.len() < rest.len() && content.starts_with(|c: char| c.is_ascii_digit());
    is_content.then_some((letter, content))
}

/// Whether anything but this character is in the text.
fn others_than(text: &str, character: char) -> bool {
    text.chars().any(|c| c != character)
}

/// The text without formatting commands, braces and delimiters. `None` if it has no choice letter, and where something
/// is struck out.
fn without_markup(text: &str) -> Option<String> {
    if !has_letter(text) || text.contains("~~") {
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
mod tests;
