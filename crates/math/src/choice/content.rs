//! The contents of choices: what the task or the gold answer has behind a letter.

use super::{LETTERS, content, has_known_words, has_letter, of_gold, without_title};
use crate::equality;
use crate::fuel::Fuel;
use crate::parse::parse;
use crate::words::Known;
use crate::{CheckOutcome, Rules};

/// Whether what follows a letter is its content: that of the task or of the gold answer, by value. Where neither has
/// any, a value all of whose words are known.
pub(super) fn is_own_content(text: &str, rest: &str, letter: char, known: &Known) -> bool {
    // `✗`, and a relation or an operator that denies what it stands before.
    const DENIALS: [&str; 6] = ["\\ne", "\\not", "\\times", "\\cross", "\\cancel", "\\sout"];
    let is_denied = rest.contains(['✗', '✘', '❌', '✖', '☒', '×', '≠', '🚫', '⛔', '~', '?'])
        || DENIALS.iter().any(|denial| rest.starts_with(denial));
    if is_denied {
        return false;
    }
    let mut expected = known.contents(letter).peekable();
    if expected.peek().is_none() {
        return has_known_words(rest, letter, known);
    }
    let stated = content(without_title(text.trim())).unwrap_or_else(|| rest.to_owned());
    let stated = stated.trim_end_matches(STATED_ENDS);
    expected.any(|expected| is_same_content(expected, stated))
}

/// What may end a choice's content.
const STATED_ENDS: [char; 7] = [' ', '.', '$', '✓', '✔', '☑', '*'];

/// Whether two contents of choices are the same text or the same value.
fn is_same_content(expected: &str, stated: &str) -> bool {
    const FUEL: u64 = 100_000;
    let plain = |text: &str| plain_content(text.trim_end_matches(STATED_ENDS));
    if plain(expected) == plain(stated) {
        return true;
    }
    let mut fuel = Fuel::new(FUEL);
    let mut read = |text: &str| parse(text.trim_matches(['$', ' ', '.', ',', ';']), &mut fuel).ok();
    let (Some(expected), Some(stated)) = (read(expected), read(stated)) else { return false };
    equality::compare(&expected, &stated, &Rules::default(), &mut fuel).outcome() == CheckOutcome::Equal
}

/// The contents of all choices in a text of a task, or of a gold answer such as `(B) 42`.
pub(crate) fn contents_of(text: &str) -> Vec<(char, String)> {
    const MAX_GOLD_BYTES: usize = 256;
    if !has_letter(text) {
        return Vec::new();
    }
    let own = (text.len() <= MAX_GOLD_BYTES).then(|| of_gold(text).zip(content(text))).flatten();
    LETTERS.filter_map(|letter| Some((letter, content_in(text, letter)?))).chain(own).collect()
}

/// The letter of the choice of a task whose content an answer is: `Cecile` where the task has `(C) Cecile`.
pub(crate) fn by_content(answer: &str, prompt: &str) -> Option<char> {
    let bare = plain_content(answer)?;
    let mut found = LETTERS
        .filter(|letter| content_in(prompt, *letter).and_then(|content| plain_content(&content)) == Some(bare.clone()));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// A choice's content in lower case without markup, to be compared as text.
fn plain_content(text: &str) -> Option<String> {
    let mut bare = text.trim().to_owned();
    for command in ["\\textbf", "\\textrm", "\\text", "\\mathrm", "\\mathbf", "\\mbox", "\\ ", "\\,"] {
        bare = bare.replace(command, " ");
    }
    bare.retain(|c| !matches!(c, '{' | '}' | '$' | '*' | '"'));
    let bare = bare.trim().trim_end_matches(['.', ',', ';']).to_lowercase();
    let words: Vec<&str> = bare.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// The content of a choice in the text of a task: what follows `(C)` or, at the start of a line, `C.`, up to the next
/// choice or the end of the line.
pub(crate) fn content_in(prompt: &str, letter: char) -> Option<String> {
    let marks = |letter: char| {
        [format!("({letter})"), format!("\n{letter}. "), format!("\n{letter}) "), format!("\n{letter}: ")]
    };
    let (at, mark) =
        marks(letter).into_iter().filter_map(|mark| Some((prompt.find(&mark)?, mark))).min_by_key(|(at, _)| *at)?;
    let rest = prompt.get(at + mark.len()..)?;
    let next = char::from_u32(u32::from(letter) + 1).filter(|next| LETTERS.contains(next));
    let end = next.into_iter().flat_map(marks).filter_map(|mark| rest.find(&mark)).chain(rest.find('\n')).min();
    let content = rest.get(..end.unwrap_or(rest.len()))?;
    let trimmed = content.trim_start_matches(['}', '\\', ' ', '~', '$']);
    // A command needs its backslash.
    let start = content.len() - trimmed.len();
    let is_command = trimmed.starts_with(char::is_alphabetic) && content.get(..start)?.ends_with('\\');
    let content = if is_command { content.get(start - 1..)? } else { trimmed }.trim_end();
    let content = ["\\textbf{", "\\text{", "\\qquad", "\\quad", "$"]
        .iter()
        .fold(content, |content, end| content.trim_end_matches(end).trim_end());
    (!content.is_empty()).then(|| content.to_owned())
}
