//! The words and formulas of a problem and its gold answer.

use std::collections::HashSet;

use super::{Role, is, is_changing, is_counter, singular};

/// The words and numbers that a problem or a gold answer has, for what stands behind a number.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Known {
    words: HashSet<String>,
    /// The texts without blanks, for their formulas.
    formulas: String,
    /// Contents of the choices.
    contents: Vec<(char, String)>,
    /// Nouns of neither table nor text that are harmless nevertheless.
    pub(crate) others: usize,
}

/// A text without blanks and braces.
pub(crate) fn compact(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && !matches!(c, '{' | '}')).collect()
}

/// Before a word of a label that something is counted for: `36 apples per box`.
pub(crate) const PER: char = '/';

/// Words of units that a problem may spell out, and the symbols that then stand for them.
const SPELLED: [(&str, &str); 11] = [
    ("magnitude", "mag"),
    ("arcsecond", "arcsec"),
    ("parsec", "pc"),
    ("mole", "mol"),
    ("electronvolt", "eV"),
    ("electron volt", "eV"),
    ("kilojoule", "kJ"),
    ("kilonewton", "kN"),
    ("kilocalory", "kcal"),
    ("revolution minute", "rpm"),
    ("astronomical unit", "AU"),
];

/// Longest part of a text whose words are known.
const MAX_BYTES: usize = 64 << 10;

impl Known {
    /// Adds the words of a text.
    pub(crate) fn add(&mut self, text: &str) {
        let words = Self::within(text).split(|c: char| !c.is_alphabetic());
        self.words.extend(words.filter(|word| word.chars().nth(1).is_some()).map(singular));
        let numbers = Self::within(text).split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty());
        self.words.extend(numbers.map(str::to_owned));
        let symbols = SPELLED.iter().filter(|(words, _)| words.split(' ').all(|word| self.words.contains(word)));
        let symbols: Vec<String> = symbols.map(|(_, symbol)| singular(symbol)).collect();
        self.words.extend(symbols);
        if text.contains(['$', '\\']) {
            self.formulas.push_str(&compact(Self::within(text)));
        }
    }

    /// The part of a text that is read.
    pub(crate) fn within(text: &str) -> &str {
        let end = text.floor_char_boundary(text.len().min(MAX_BYTES));
        text.get(..end).unwrap_or_default()
    }

    /// Adds what a text has for letters of choices.
    pub(crate) fn add_contents(&mut self, contents: Vec<(char, String)>) {
        self.contents.extend(contents);
    }

    /// What the problem and the gold answer have for a choice's letter.
    pub(crate) fn contents(&self, letter: char) -> impl Iterator<Item = &str> {
        self.contents.iter().filter(move |(of, _)| *of == letter).map(|(_, content)| content.as_str())
    }

    /// Whether the problem or the gold answer has a word.
    pub(crate) fn is_text(&self, word: &str) -> bool {
        self.words.contains(&singular(word))
    }

    /// Whether the problem or the gold answer has a number in digits.
    pub(crate) fn has_number(&self, number: &str) -> bool {
        self.words.contains(&number.replace(',', ""))
    }

    /// Whether a word of the problem or the gold answer has a part, in a script without spaces.
    pub(crate) fn has_part(&self, part: &str) -> bool {
        self.words.iter().any(|word| word.contains(part))
    }

    /// Whether a formula without blanks stands in the problem between its delimiters.
    pub(crate) fn writes(&self, formula: &str) -> bool {
        let is_end = |rest: &str| rest.trim_start_matches(['.', ',', '?', '\\']).starts_with(['$', ')', ']']);
        self.formulas.match_indices(formula).any(|(at, _)| {
            let (before, after) = (self.formulas.get(..at), self.formulas.get(at + formula.len()..));
            before.is_some_and(|before| before.ends_with(['$', '(', '['])) && after.is_some_and(is_end)
        })
    }

    /// Whether the problem or the gold answer has a word of a kind.
    pub(crate) fn has_any(&self, role: Role) -> bool {
        self.words.iter().any(|word| is(role, word))
    }

    /// Whether a word behind a number is a noun that the table, the problem or the gold answer has.
    pub(crate) fn is_noun(&self, word: &str) -> bool {
        // What something is counted for, `36 per box`, makes it another value.
        if let Some(noun) = word.strip_prefix(PER) {
            return self.is_text(noun);
        }
        if is_changing(word) {
            return false;
        }
        is_counter(word) || (self.words.contains(&singular(word)) && !is(Role::Closed, &word.to_lowercase()))
    }
}
