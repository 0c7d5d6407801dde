//! The word that touches a box before it, where its sentence is in another language than English or is this word alone:
//! it must be known to lead to an answer.

use super::foreign::is_unspaced;
use super::label;
use crate::slicing::SafeSlice;
use crate::words::{self, Known, Role};

/// Words that show a sentence in another language, in ASCII letters, and are none of English.
const FOREIGN: &str = "de el la los las son hay una del que por il der das ist sind gibt wir und les est sont donc une des nous \
    gli sono che het een zijn jest var det";
/// Words that stand before a box alone in their sentence.
const ALONE: &str = "yes ok okay hm hmm ah oh gives giving yields yielding get voila";
/// Ends of what leads to a box in languages without spaces between words.
const ENDS: [&str; 57] = [
    "모두",
    "합",
    "等于",
    "等於",
    "得",
    "得到",
    "得出",
    "是",
    "为",
    "為",
    "有",
    "共",
    "需",
    "要",
    "还",
    "剩",
    "下",
    "用",
    "花",
    "出",
    "即",
    "故",
    "选",
    "答",
    "到",
    "给",
    "走",
    "赚",
    "付",
    "收",
    "值",
    "结果",
    "結果",
    "答案",
    "則",
    "则",
    "所以",
    "因此",
    "计",
    "計",
    "は",
    "が",
    "で",
    "と",
    "て",
    "から",
    "よって",
    "値",
    "은",
    "는",
    "이",
    "가",
    "총",
    "로",
    "서",
    "คือ",
    "เท่ากับ",
];
/// What makes such an end another value: `不是`, `约为`.
const BEFORE_ENDS: [&str; 20] = [
    "半",
    "倍",
    "不",
    "没",
    "沒",
    "非",
    "未",
    "无",
    "無",
    "约",
    "約",
    "近",
    "概",
    "似",
    "于",
    "於",
    "ほぼ",
    "아니",
    "ไม่",
    "差不多",
];

/// Words that lead to a value only in a phrase: `igual a`, `total de`.
const PREPOSITIONS: &str = "à de di da do von of zu";
/// Words before the last one that may change what it leads to.
const MAX_NEAR: usize = 3;
/// Longest word that stands alone before a box and is looked up.
const MAX_ALONE: usize = 24;

/// Whether the last word before a box, `sentence` ends with it, is not known to lead to an answer.
pub(super) fn is_unknown(sentence: &str, known: &Known) -> bool {
    let before = sentence.trim_end_matches(|c: char| c.is_alphabetic() || is_mark(c));
    let word = sentence.suffix_from(before.len());
    if word.chars().nth(1).is_none() && word.is_ascii() || before.ends_with('\\') {
        return false;
    }
    if word.ends_with(is_unspaced) {
        return !leads(word.suffix_from(word.trim_end_matches(is_unspaced).len()), known);
    }
    // `\le` is no word.
    let plain = before.split_whitespace().filter(|part| !part.contains('\\'));
    let mut others = plain.flat_map(|part| part.split(|c: char| !c.is_alphabetic() && !is_mark(c)));
    let is_alone = before.trim().is_empty();
    let is_foreign = |word: &str| {
        word.chars().nth(1).is_some()
            && (!word.is_ascii() || FOREIGN.split_whitespace().any(|listed| listed.eq_ignore_ascii_case(word)))
    };
    if is_alone {
        return word.chars().count() <= MAX_ALONE
            && !label::is_known(word, known)
            && !is_in(ALONE, &word.to_lowercase());
    }
    if !is_foreign(word) && !others.any(is_foreign) {
        return false;
    }
    // `igual a`
    let last = before.trim_end().rsplit(' ').next().unwrap_or_default();
    let is_led = is_lead(word, known) && !is_in(PREPOSITIONS, &word.to_lowercase())
        || words::is(Role::Lead, &format!("{last} {word}").to_lowercase());
    // `no es`, `la mitad de`
    let mut near = before.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).rev().take(MAX_NEAR);
    !is_led || near.any(words::is_changing)
}

/// Vowel signs of Hindi, which are no letters.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{900}'..='\u{97f}')
}

fn is_lead(word: &str, known: &Known) -> bool {
    const ROLES: [Role; 9] = [
        Role::Opening,
        Role::Connective,
        Role::Lead,
        Role::Label,
        Role::Verb,
        Role::Name,
        Role::Copula,
        Role::Closed,
        Role::Plain,
    ];
    let lower = word.to_lowercase();
    words::is_any(&ROLES, &lower) || known.is_text(word) && !words::is_changing(word)
}

/// Whether words without spaces between them end with what leads to an answer.
fn leads(words: &str, known: &Known) -> bool {
    let mut ends = ENDS.iter().filter_map(|end| words.strip_suffix(end));
    // `吃了`
    let is_done = || words.strip_suffix('了').is_some_and(|rest| !rest.ends_with('除') && known.has_part(words));
    ends.any(|rest| !BEFORE_ENDS.iter().any(|other| rest.ends_with(other))) || is_done()
}

fn is_in(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_touches_a_box_must_be_known_in_other_languages() {
        let known = Known::default();
        for sentence in [
            "除了",
            "负",
            "这个数不是",
            "结果约为",
            "Casi",
            "Menos",
            "El total es casi",
            "Es sind fast",
            "Il y en a presque",
            "Это почти",
            "Bob",
            "El total no es",
            "La mitad de",
            "结果的一半是",
        ] {
            assert!(is_unknown(sentence, &known), "{sentence}");
        }
        for sentence in [
            "",
            "所以答案是",
            "因此一共有",
            "x = 5 时，面积为",
            "面積は",
            "따라서 정답은",
            "El total es",
            "Es gibt",
            "On obtient donc",
            "Итого получаем",
            "Total",
            "Hence",
            "José has",
            "She baked",
            "\\qquad",
            "Since $x \\le 1,$ the maximum value is",
            "$x$",
        ] {
            assert!(!is_unknown(sentence, &known), "{sentence}");
        }
    }
}
