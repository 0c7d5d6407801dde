//! Words that announce an answer: "Answer: 42", "the final answer is 42", "the correct option is B", a heading "Final
//! Answer", and the same in other languages; and the tags `<answer>42</answer>`.

use memchr::{memmem, memrchr2_iter};

use super::{boxes, line};
use crate::slicing::SafeSlice;

/// Empty announcements after which the search stops, since each scans the rest of its line.
const MAX_EMPTY: usize = 8;
/// What may stand around words for emphasis.
const EMPHASIS: [char; 4] = [' ', '\t', '*', '_'];
/// Verbs between "answer" and the answer, longest first.
const VERBS: [&str; 11] =
    ["is equal to", "comes out to be", "would be", "will be", "should be", "must be", "equals", "are", "is", "be", "→"];
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

/// The last announced answer.
pub(super) fn last(text: &str) -> Option<&str> {
    tagged(text)
        .or_else(|| announced_last(text))
        .or_else(|| abbreviated(text))
        .or_else(|| option(text))
        .or_else(|| foreign(text))
}

/// The text between the last `<answer>` and its `</answer>`.
fn tagged(text: &str) -> Option<&str> {
    let between = |open: &str, close: &str| {
        let start = memmem::rfind(text.as_bytes(), open.as_bytes())? + open.len();
        let rest = text.suffix_from(start);
        Some(rest.prefix_to(memmem::find(rest.as_bytes(), close.as_bytes())?))
    };
    let inner = between("<answer>", "</answer>")
        .or_else(|| between("<Answer>", "</Answer>"))
        .or_else(|| between("<final_answer>", "</final_answer>"))?;
    if inner.trim().is_empty() {
        return None;
    }
    Some(boxes::last_in(inner).or_else(|| announced_last(inner)).unwrap_or_else(|| line::value(inner)))
}

fn announced_last(text: &str) -> Option<&str> {
    const WORD: &str = "answer";
    let mut empty = 0;
    // The rarest letter of the word.
    for at in memrchr2_iter(b'w', b'W', text.as_bytes()) {
        let Some(start) = at.checked_sub(3) else { continue };
        let Some(word) = text.get(start..start + WORD.len()) else { continue };
        if !word.eq_ignore_ascii_case(WORD) || text.prefix_to(start).ends_with(char::is_alphabetic) {
            continue;
        }
        let Some(rest) = announced(text.prefix_to(start), text.suffix_from(start + WORD.len())) else { continue };
        let answer = line::value(rest);
        if !answer.trim().is_empty() {
            return Some(answer);
        }
        empty += 1;
        if empty == MAX_EMPTY {
            break;
        }
    }
    None
}

/// "Ans: 42"
fn abbreviated(text: &str) -> Option<&str> {
    let at =
        ["Ans:", "Ans.", "ANS:"].iter().filter_map(|word| memmem::rfind(text.as_bytes(), word.as_bytes())).max()?;
    if text.prefix_to(at).ends_with(char::is_alphabetic) {
        return None;
    }
    let answer = line::value(text.suffix_from(at + "Ans:".len()));
    (!answer.trim().is_empty()).then_some(answer)
}

/// The answer announced by the words that a text begins with.
pub(super) fn at_start(text: &str) -> Option<&str> {
    let words = text.trim_start_matches([' ', '\t', '*', '_', '#']);
    let start = ["the final answer", "final answer", "the answer", "answer"].iter().find_map(|words_of| {
        let begin = words.get(..words_of.len())?;
        begin.eq_ignore_ascii_case(words_of).then_some(words_of.len())
    })?;
    announced("", words.suffix_from(start)).map(line::value)
}

/// The text after the announcement formed by `before`, the word "answer" and `after`. `None` if they form none.
fn announced<'a>(before: &str, after: &'a str) -> Option<&'a str> {
    let after = after.strip_prefix(['s', 'S']).unwrap_or(after);
    let direct = after.trim_start_matches(EMPHASIS);
    if let Some(rest) = direct.strip_prefix([':', '：', '=']) {
        return Some(rest);
    }
    for verb in VERBS {
        if let Some(rest) = direct.strip_prefix(verb)
            && !rest.starts_with(char::is_alphanumeric)
        {
            let rest = rest.trim_start_matches(EMPHASIS);
            return Some(rest.strip_prefix([':', '：']).unwrap_or(rest));
        }
    }
    // A heading: the line has no other words.
    let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
    let others = line.trim_matches(|c: char| c.is_whitespace() || matches!(c, '#' | '*' | '_'));
    let is_heading = ["", "final", "the", "the final", "my"].iter().any(|words| others.eq_ignore_ascii_case(words));
    (is_heading && direct.starts_with(['\n', '\r'])).then_some(direct)
}

/// "The correct option is B."
fn option(text: &str) -> Option<&str> {
    let ends = [" option is ", " choice is "].iter().filter_map(|words| {
        let at = memmem::rfind(text.as_bytes(), words.as_bytes())?;
        let before = text.prefix_to(at);
        ["correct", "right", "best", "Correct"].iter().any(|word| before.ends_with(word)).then_some(at + words.len())
    });
    let answer = line::value(text.suffix_from(ends.max()?));
    (!answer.trim().is_empty()).then_some(answer)
}

fn foreign(text: &str) -> Option<&str> {
    const ASCII: [&str; 6] = ["ntwort", "spuesta", "sposta", "ntwoord", "Cevap", "rgebnis"];
    if text.is_ascii() && !ASCII.iter().any(|part| memmem::find(text.as_bytes(), part.as_bytes()).is_some()) {
        return None;
    }
    let found = FOREIGN.iter().filter_map(|word| {
        let end = memmem::rfind(text.as_bytes(), word.as_bytes())? + word.len();
        let after = text.suffix_from(end).trim_start_matches(EMPHASIS);
        let after = match after.strip_prefix([':', '：']) {
            Some(rest) => rest,
            None => FOREIGN_VERBS.iter().find_map(|verb| after.strip_prefix(verb))?,
        };
        Some((end, after.strip_prefix([':', '：']).unwrap_or(after)))
    });
    let (_, rest) = found.max_by_key(|(end, _)| *end)?;
    let answer = line::value(rest);
    (!answer.trim().is_empty()).then_some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_announcement_counts() {
        assert_eq!(last("Answer: 1\nAnswer: 2"), Some("2"));
        assert_eq!(last("ANSWER : 5"), Some("5"));
        assert_eq!(last("**Answer**: **73**"), Some("73"));
        assert_eq!(last("**Final Answer:** 73."), Some("73."));
        assert_eq!(last("The final answer is $20\\%$. I hope it is correct."), Some("20\\%"));
        assert_eq!(last("the final answer is: 7. I hope so"), Some("7"));
        assert_eq!(last("xanswer: 7"), None);
        assert_eq!(last("Answer: 7\nAnswer:"), Some("7"));
    }

    #[test]
    fn an_answer_is_announced_in_many_ways() {
        for text in [
            "The answer is 42.",
            "the answer is: **42**",
            "**The answer is: 42**",
            "So the answer would be 42",
            "The answer is equal to 42.",
            "Final answer = 42",
            "answer is 42",
            "The answer is \\(42\\).",
            "The answer is \\[42\\]",
            "### Final Answer\n\n**42**",
            "**Answer**\n42",
            "The correct option is 42",
            "The final answer is:\n\n- **42**",
            "答案：42",
            "答：42",
            "Ans: 42",
            "Die Antwort lautet 42.",
            "La réponse est 42.",
            "La respuesta final es 42.",
            "A resposta é 42.",
            "La risposta è 42.",
            "Cevap: 42",
            "<final_answer>42</final_answer>",
            "__Answer: 42__",
            "所以答案是42。",
            "Antwort: 42",
            "La respuesta es 42",
            "<answer>42</answer>",
            "<think>a</think>\n<answer> The answer is 42 </answer>",
            "<answer>\\boxed{42}</answer> done",
            "<answer>\n42\n</answer>",
        ] {
            let found = last(text).map(|answer| answer.trim().trim_end_matches(['.', '。']));
            assert_eq!(found, Some("42"), "{text}");
        }
        for text in
            ["<answer>42", "<answer></answer>", "We answer 42 questions.", "an answering 42", "the option is 42"]
        {
            assert_eq!(last(text), None, "{text}");
        }
    }

    #[test]
    fn the_answer_may_stand_on_the_next_line() {
        assert_eq!(last("Answer:\n\n13"), Some("13"));
        assert_eq!(last("Answer:\n\\[\n9\n\\]\nBye"), Some("\n9\n"));
        assert_eq!(last("Answer: $13$"), Some("13"));
        assert_eq!(last("Answer: the number \\boxed{34}, clearly"), Some("34"));
        assert_eq!(last("Answer: $5$ or $6$"), Some("$5$ or $6$"));
    }

    #[test]
    fn what_explains_an_answer_is_no_part_of_it() {
        assert_eq!(last("The answer is 42; the other root is rejected."), Some("42"));
        assert_eq!(last("The answer is 42, since x is positive."), Some("42"));
        assert_eq!(last("The final answer is **42 apples**."), Some("42 apples"));
        assert_eq!(last("The answer is 42, but maybe 43"), Some("42, but maybe 43"));
        assert_eq!(last("Answer: 2; 3"), Some("2; 3"));
    }

    #[test]
    fn letters_of_more_than_one_byte_are_no_trouble() {
        assert_eq!(last("äöüw ßw答w"), None);
        assert_eq!(last("答Answer：5"), None);
        assert_eq!(last("答: Answer：5"), Some("5"));
    }
}
