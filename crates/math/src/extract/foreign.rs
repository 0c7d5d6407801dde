//! Words that announce an answer in other languages than English: `Die Antwort lautet 42`, `答案：42`.

use memchr::memmem;

use super::restated::is_unspaced;
use super::{NoAnswer, line};
use crate::slicing::SafeSlice;
use crate::words::{self, Role};

/// The word in other languages.
const FOREIGN: [&str; 24] = [
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
];
/// What may stand between it and the answer.
const FOREIGN_VERBS: [&str; 13] =
    ["是", "为", "為", "は", "은", "final es", "finale est", "lautet", "ist", "est", "es", "é", "è"];

/// Longest clause before the word that is looked at.
const MAX_CLAUSE_BYTES: usize = 120;

/// The answer after the last such word.
///
/// # Errors
/// [`NoAnswer::NotUnderstood`] where its clause says something else of the answer.
pub(super) fn last(text: &str) -> Result<Option<&str>, NoAnswer> {
    const ASCII: [&str; 6] = ["ntwort", "spuesta", "sposta", "ntwoord", "Cevap", "rgebnis"];
    if text.is_ascii() && !ASCII.iter().any(|part| memmem::find(text.as_bytes(), part.as_bytes()).is_some()) {
        return Ok(None);
    }
    let found = FOREIGN.iter().filter_map(|word| {
        let start = memmem::rfind(text.as_bytes(), word.as_bytes())?;
        let end = start + word.len();
        let after = text.suffix_from(end).trim_start_matches(line::EMPHASIS);
        let after = match after.strip_prefix([':', '：']) {
            Some(rest) => rest,
            None => FOREIGN_VERBS.iter().find_map(|verb| after.strip_prefix(verb))?,
        };
        Some((start, end, after.strip_prefix([':', '：']).unwrap_or(after)))
    });
    let Some((start, _, rest)) = found.max_by_key(|(start, end, _)| (*end, std::cmp::Reverse(*start))) else {
        return Ok(None);
    };
    let answer = line::value(rest);
    match () {
        () if answer.trim().is_empty() => Ok(None),
        () if leads(text.prefix_to(start)) => Ok(Some(answer)),
        () if line::has_value(answer) => Err(NoAnswer::NotUnderstood),
        () => Ok(None),
    }
}

/// Whether every word before the announcing one in its clause is known to be harmless.
fn leads(before: &str) -> bool {
    let near = before.suffix_from(before.ceil_char_boundary(before.len().saturating_sub(MAX_CLAUSE_BYTES)));
    let ends = ['\n', ',', ';', ':', '!', '?', '，', '。', '；', '：', '！', '？', '、', '>'];
    let clause = near.rsplit_once(ends).map_or(near, |(_, clause)| clause);
    let clause = clause.rsplit_once(". ").map_or(clause, |(_, clause)| clause);
    clause.split(|c: char| !c.is_alphabetic() && !is_mark(c) && c != '\'').filter(|word| !word.is_empty()).all(is_lead)
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
    let mut rest = word;
    while rest.starts_with(is_unspaced)
        && let Some(after) = after_opening(rest)
    {
        rest = after;
    }
    rest.is_empty()
}

/// Longest word of a language without spaces between words, in characters.
const MAX_OPENING: usize = 7;

/// What follows the longest word of the table that a text begins with.
fn after_opening(text: &str) -> Option<&str> {
    let ends = text.char_indices().take(MAX_OPENING).map(|(at, c)| at + c.len_utf8());
    let end = ends.filter(|end| words::is(Role::Opening, text.prefix_to(*end))).last()?;
    Some(text.suffix_from(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_words_precede_an_announcement() {
        for text in [
            "Die richtige Antwort lautet 42",
            "La bonne réponse est 42",
            "Por lo tanto, la respuesta es 42",
            "6 * 7 = 42。故答案为：42",
            "所以最终答案是42",
            "综上所述，这道题的正确答案是 42",
            "Правильный ответ: 42",
            "したがって、答えは42",
            "ดังนั้นคำตอบ: 42",
            "따라서 정답: 42",
            "**Antwort:** 42",
        ] {
            assert_eq!(last(text).map(|found| found.map(str::trim)), Ok(Some("42")), "{text}");
        }
        for text in [
            "Falsche Antwort: 42",
            "Die Antwort ist 41. Eine falsche Antwort ist 42",
            "La mauvaise réponse est 42",
            "错误答案：42",
            "错误的答案是42",
            "Неверный ответ: 42",
            "La mitad de la respuesta es 42",
            "Das Doppelte der falschen Antwort ist 42",
        ] {
            assert_eq!(last(text), Err(NoAnswer::NotUnderstood), "{text}");
        }
    }
}
