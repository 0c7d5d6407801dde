//! Words that announce an answer in other languages than English, and what may stand beside them.

use crate::slicing::SafeSlice;
use crate::words::{self, Role};

/// The word in other languages.
pub(super) const FOREIGN: [&str; 38] = [
    "答案",
    "答",
    "故选",
    "答え",
    "정답",
    "Antwort",
    "Ergebnis",
    "Respuesta",
    "respuesta",
    "Réponse",
    "réponse",
    "Resposta",
    "resposta",
    "Risposta",
    "risposta",
    "Antwoord",
    "Odpowiedź",
    "Cevap",
    "Đáp án",
    "Ответ",
    "ответ",
    "الجواب",
    "उत्तर",
    "คำตอบ",
    "답",
    "الإجابة",
    "Đáp số",
    "Jawaban",
    "উত্তর",
    "Svar",
    "Відповідь",
    "תשובה",
    "پاسخ",
    "Válasz",
    "Vastaus",
    "Odpověď",
    "Απάντηση",
    "Răspuns",
];
/// Longest clause before the word that is looked at.
const MAX_CLAUSE_BYTES: usize = 120;

/// Whether a sentence before a box announces it in such a word, and has others that are not known: `Die Antwort ist nicht`.
pub(super) fn denies(sentence: &str) -> bool {
    let sentence = sentence.rsplit(['。', '।', '！', '？']).next().unwrap_or_default();
    let found = FOREIGN.iter().filter_map(|word| sentence.rfind(word).map(|start| (start, start + word.len())));
    let Some((start, end)) = found.max_by_key(|(start, end)| (*end, std::cmp::Reverse(*start))) else { return false };
    let between = sentence.suffix_from(end);
    let is_link = |word: &str| {
        let lower = word.to_lowercase();
        is_lead(word) || LINKS.contains(&word) || words::is(Role::Lead, &lower) && !words::is_changing(&lower)
    };
    let mut words = between
        .split(|c: char| !c.is_alphabetic() && !is_mark(c))
        .filter(|word| word.chars().nth(1).is_some() || word.starts_with(is_unspaced));
    !leads(sentence.prefix_to(start)) || !words.all(is_link)
}

/// What may stand between the word and a box, beside what leads to the word.
const LINKS: [&str; 14] =
    ["final", "finale", "lautet", "ist", "est", "es", "é", "è", "равен", "равна", "равно", "은", "는", "هو"];

/// Whether every word before the announcing one in its clause is known to be harmless.
pub(super) fn leads(before: &str) -> bool {
    let near = before.suffix_from(before.ceil_char_boundary(before.len().saturating_sub(MAX_CLAUSE_BYTES)));
    let ends = ['\n', ',', ';', ':', '!', '?', '，', '。', '；', '：', '！', '？', '、', '>'];
    let clause = near.rsplit_once(ends).map_or(near, |(_, clause)| clause);
    let clause = clause.rsplit_once(". ").map_or(clause, |(_, clause)| clause);
    clause.split(|c: char| !c.is_alphabetic() && !is_mark(c) && c != '\'').filter(|word| !word.is_empty()).all(is_lead)
}

/// Whether a character belongs to a script without spaces between words.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0e7f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')
}

/// Vowel signs of Hindi and Thai, which are no letters.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{900}'..='\u{97f}' | '\u{e00}'..='\u{e7f}')
}

fn is_lead(word: &str) -> bool {
    let lower = word.to_lowercase();
    if words::is_any(&[Role::Opening, Role::Connective, Role::Adjective], &lower) {
        return true;
    }
    without_openings(word).is_empty()
}

/// A text without the words of the table that it begins with, in a language without spaces between words.
pub(super) fn without_openings(text: &str) -> &str {
    let mut rest = text;
    while rest.starts_with(is_unspaced)
        && let Some(after) = after_opening(rest)
    {
        rest = after;
    }
    rest
}

/// Longest word of a language without spaces between words, in characters.
const MAX_OPENING: usize = 7;

/// What follows the longest word of the table that a text begins with.
fn after_opening(text: &str) -> Option<&str> {
    let ends = text.char_indices().take(MAX_OPENING).map(|(at, c)| at + c.len_utf8());
    let end = ends.filter(|end| words::is(Role::Opening, text.prefix_to(*end))).last()?;
    Some(text.suffix_from(end))
}
