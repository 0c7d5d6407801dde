//! Sentences after an answer in other languages that speak of it: `Das Ergebnis ist falsch`, `但是正确答案是37`.

use crate::extract::foreign::FOREIGN;
use crate::extract::restated::{self, Answered};
use crate::words::{self, Role};

/// Longest sentence that is read, in bytes.
const MAX_BYTES: usize = 120;
/// Other words for an answer.
const NAMES: [&str; 10] =
    ["正解", "結果", "结果", "resultado", "résultat", "risultato", "solución", "soluzione", "lösung", "результат"];
/// What stands for an answer at the beginning of a sentence.
const SUBJECTS: [&str; 14] =
    ["這", "这", "これ", "それ", "이것", "eso ", "esto ", "das ", "dies ", "ce ", "cela ", "questo ", "isso ", "isto "];

/// Whether a sentence after an answer in another language speaks of it, and takes it back or gives another value:
/// `Das Ergebnis ist falsch`, `Pero la respuesta correcta es 37`, `但是正确答案是37`.
pub(super) fn takes_back(sentence: &str, answered: &Answered<'_>) -> bool {
    let sentence = sentence.trim();
    if sentence.len() > MAX_BYTES {
        return false;
    }
    let is_plain = sentence.is_ascii();
    let is_of_answer = FOREIGN.iter().any(|word| (!is_plain || word.is_ascii()) && sentence.contains(word));
    if (is_of_answer || sentence.contains("正解"))
        && restated::ends_with_another(sentence.trim_end_matches(is_end), answered)
    {
        return true;
    }
    let lower = sentence.to_lowercase();
    let is_named = || NAMES.iter().any(|word| lower.contains(word));
    (is_of_answer || is_named() || SUBJECTS.iter().any(|word| lower.starts_with(word)))
        && !sentence.contains(|c: char| c.is_ascii_digit())
        && words::has_foreign(Role::Retraction, &lower)
}

/// A mark or a copula behind a value.
fn is_end(c: char) -> bool {
    matches!(c, '.' | '。' | 'で' | 'す' | 'だ' | '입' | '니' | '다' | '이' | ' ')
}
