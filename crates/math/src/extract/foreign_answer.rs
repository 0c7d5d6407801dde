//! Answers that are announced in other languages than English: `Die Antwort lautet 42`, `答案：42`.

use memchr::memmem;

use super::foreign::{FOREIGN, leads};
use super::{NoAnswer, line};
use crate::slicing::SafeSlice;

/// What may stand between the announcing word and the answer.
const FOREIGN_VERBS: [&str; 14] =
    ["是", "为", "為", "は", "은", "final es", "finale est", "lautet", "ist", "est", "es", "é", "è", "هو"];
/// What may stand behind the answer.
const COPULAS: [&str; 5] = ["です", "である", "입니다", "이다", "예요"];

/// The answer after the last announcing word.
///
/// # Errors
/// [`NoAnswer::NotUnderstood`] where its clause says something else of the answer.
pub(super) fn last(text: &str) -> Result<Option<&str>, NoAnswer> {
    const ASCII: [&str; 9] =
        ["ntwort", "spuesta", "sposta", "ntwoord", "Cevap", "rgebnis", "Jawaban", "Svar", "Vastaus"];
    if text.is_ascii() && !ASCII.iter().any(|part| memmem::find(text.as_bytes(), part.as_bytes()).is_some()) {
        return Ok(None);
    }
    let found = FOREIGN.iter().filter_map(|word| {
        let start = memmem::rfind(text.as_bytes(), word.as_bytes())?;
        let end = start + word.len();
        let after = text.suffix_from(end).trim_start_matches(line::EMPHASIS);
        let after = match after.strip_prefix([':', '：']) {
            Some(rest) => rest,
            None => FOREIGN_VERBS.iter().find_map(|verb| after.trim_start().strip_prefix(verb))?,
        };
        Some((start, end, after.strip_prefix([':', '：']).unwrap_or(after)))
    });
    let Some((start, _, rest)) = found.max_by_key(|(start, end, _)| (*end, std::cmp::Reverse(*start))) else {
        return Ok(None);
    };
    let answer = line::value(rest);
    let bare = answer.trim_end().trim_end_matches(['.', '。']);
    let answer = COPULAS.iter().find_map(|copula| bare.strip_suffix(copula)).unwrap_or(answer);
    match () {
        () if answer.trim().is_empty() => Ok(None),
        () if leads(text.prefix_to(start)) => Ok(Some(answer)),
        () if line::has_value(answer) => Err(NoAnswer::NotUnderstood),
        () => Ok(None),
    }
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
