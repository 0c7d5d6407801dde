//! Words that announce an answer: "Answer: 42", "the final answer is 42", "the correct option is B", a heading "Final
//! Answer", and the same in other languages; and the tags `<answer>42</answer>`.

use memchr::{memmem, memrchr_iter, memrchr2_iter};

use super::{NoAnswer, boxes, foreign_answer, line, sentence};
use crate::slicing::SafeSlice;
use crate::words::{self, Role};

/// Empty announcements after which the search stops, since each scans the rest of its line.
const MAX_EMPTY: usize = 8;
/// Verbs between "answer" and the answer, longest first.
const VERBS: [&str; 11] =
    ["is equal to", "comes out to be", "would be", "will be", "should be", "must be", "equals", "are", "is", "be", "→"];
/// What the answer may be to.
const TASKS: [&str; 6] = [
    " to the problem",
    " to this problem",
    " to the question",
    " to this question",
    " to the original problem",
    " to the original question",
];

/// The last announced answer.
///
/// # Errors
/// [`NoAnswer::NotUnderstood`] where the last sentence that seems to announce one says something else of it.
pub(super) fn last(text: &str) -> Result<Option<&str>, NoAnswer> {
    if let Some(found) = tagged(text)? {
        return Ok(Some(found));
    }
    match announced_last(text)?.or_else(|| abbreviated(text)).or_else(|| option(text)) {
        Some(found) => Ok(Some(found)),
        None => foreign_answer::last(text),
    }
}

/// Names of the tags around an answer, in any case.
const ANSWER_TAGS: [&str; 3] = ["answer", "final_answer", "final"];

/// The text between the last `<answer>` and its `</answer>`.
pub(super) fn tagged(text: &str) -> Result<Option<&str>, NoAnswer> {
    let bytes = text.as_bytes();
    let named = |at: usize, open: &str| ANSWER_TAGS.into_iter().find(|name| is_tag(text, at, name, open));
    let Some((close, name)) = memrchr_iter(b'<', bytes).find_map(|at| Some((at, named(at, "</")?))) else {
        return Ok(None);
    };
    let Some(open) = memrchr_iter(b'<', text.prefix_to(close).as_bytes()).find(|at| is_tag(text, *at, name, "<"))
    else {
        return Ok(None);
    };
    let inner = text.slice(open + name.len() + 2..close);
    if inner.trim().is_empty() {
        return Ok(None);
    }
    if let Some(boxed) = boxes::last_in(inner) {
        return Ok(Some(boxed));
    }
    Ok(Some(announced_last(inner)?.unwrap_or_else(|| line::whole(inner))))
}

fn is_tag(text: &str, at: usize, name: &str, open: &str) -> bool {
    let end = at + open.len() + name.len();
    text.suffix_from(at).starts_with(open)
        && text.get(at + open.len()..end).is_some_and(|found| found.eq_ignore_ascii_case(name))
        && text.as_bytes().get(end) == Some(&b'>')
}

/// Where the tag around the answer at `at` begins. `None` if it stands in none.
pub(super) fn tag_before(text: &str, at: usize) -> Option<usize> {
    let before = text.get(..at)?;
    let is_any = |at: usize, open: &str| ANSWER_TAGS.into_iter().any(|name| is_tag(text, at, name, open));
    let tag = memrchr_iter(b'<', before.as_bytes()).find(|at| is_any(*at, "<") || is_any(*at, "</"))?;
    is_any(tag, "<").then_some(tag)
}

/// The value that the last announcement gives where its sentence is not understood, and supposes and doubts nothing.
pub(super) fn unclear(text: &str) -> Option<&str> {
    let at = memmem::rfind(text.as_bytes(), b"answer")?;
    let before = text.prefix_to(at);
    let answer = line::value(announced(before, text.suffix_from(at + "answer".len()))?);
    let words = sentence::words_of(clause(before));
    let is_doubt = |word: &String| words::is_any(&[Role::Hedge, Role::Denial, Role::Multiple], word) || word == "half";
    let is_value = answer.starts_with(|c: char| c.is_ascii_digit() || "$\\-(".contains(c));
    (is_value && !words.iter().any(is_doubt)).then_some(answer)
}

fn announced_last(text: &str) -> Result<Option<&str>, NoAnswer> {
    const WORD: &str = "answer";
    let mut empty = 0;
    let mut unclear = None;
    // The rarest letter of the word.
    for at in memrchr2_iter(b'w', b'W', text.as_bytes()) {
        let Some(start) = at.checked_sub(3) else { continue };
        let Some(word) = text.get(start..start + WORD.len()) else { continue };
        if !word.eq_ignore_ascii_case(WORD) || text.prefix_to(start).ends_with(char::is_alphabetic) {
            continue;
        }
        let before = text.prefix_to(start);
        let Some(rest) = announced(before, text.suffix_from(start + WORD.len())) else { continue };
        let answer = line::value(rest);
        if answer.trim().is_empty() {
            empty += 1;
            if empty == MAX_EMPTY {
                break;
            }
            continue;
        }
        if sentence::leads(clause(before)) {
            return match unclear {
                Some(other) if other != answer => Err(NoAnswer::NotUnderstood),
                _ => Ok(Some(answer)),
            };
        }
        // Words alone give no value: `this answer is reasonable`.
        if line::has_value(answer) {
            unclear = unclear.or(Some(answer));
        }
        empty += 1;
        if empty == MAX_EMPTY {
            break;
        }
    }
    if unclear.is_some() { Err(NoAnswer::NotUnderstood) } else { Ok(None) }
}

/// Longest clause before "answer" that is read.
const MAX_CLAUSE_BYTES: usize = 400;

/// The last sentence of a text, as far as it goes.
fn clause(text: &str) -> &str {
    let line = text.suffix_from(text.floor_char_boundary(text.len().saturating_sub(MAX_CLAUSE_BYTES)));
    let line = line.rsplit_once('\n').map_or(line, |(_, line)| line);
    let ends = [". ", "! ", "? ", ".** ", ") "].iter().filter_map(|end| Some(line.rfind(end)? + end.len()));
    // A number of a list: `1. `
    let start = ends.max().unwrap_or(0);
    // `Final Answer: The final answer is`
    let title = "final answer:";
    let titled = line.to_ascii_lowercase().rfind(title);
    let start = titled.map_or(start, |at| at.max(start));
    line.suffix_from(start)
        .trim_matches(|c: char| c.is_whitespace() || matches!(c, '#' | '*' | '_' | '-' | '•' | '>' | '\\' | '[' | '$'))
}

/// The answer after an abbreviated announcement, such as "Ans: 42".
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

/// Longest line before "answer" in a heading.
const MAX_HEADING_BYTES: usize = 64;

/// The text after the announcement formed by `before`, the word "answer" and `after`. `None` if they form none.
fn announced<'a>(before: &str, after: &'a str) -> Option<&'a str> {
    let after = after.strip_prefix(['s', 'S']).unwrap_or(after);
    let after = TASKS.iter().find_map(|task| after.strip_prefix(task)).unwrap_or(after);
    let direct = after.trim_start_matches(line::EMPHASIS);
    if let Some(rest) = direct.strip_prefix([':', '：', '=']) {
        return Some(rest);
    }
    for verb in VERBS {
        if let Some(rest) = direct.strip_prefix(verb)
            && !rest.starts_with(char::is_alphanumeric)
        {
            let rest = rest.trim_start_matches(line::EMPHASIS);
            return Some(rest.strip_prefix([':', '：']).unwrap_or(rest));
        }
    }
    // A heading: the line has no other words, so that a few bytes show it.
    if !direct.starts_with(['\n', '\r']) {
        return None;
    }
    let near = before.suffix_from(before.ceil_char_boundary(before.len().saturating_sub(MAX_HEADING_BYTES)));
    let line = match near.rsplit_once('\n') {
        Some((_, line)) => line,
        None if near.len() == before.len() => near,
        None => return None,
    };
    let others = line.trim_matches(|c: char| c.is_whitespace() || matches!(c, '#' | '*' | '_'));
    let is_heading = ["", "final", "the", "the final", "my"].iter().any(|words| others.eq_ignore_ascii_case(words));
    is_heading.then_some(direct)
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

#[cfg(test)]
mod tests {
    fn last(text: &str) -> Option<&str> {
        super::last(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

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
        assert!(super::last("答: Answer：5").is_err());
        assert_eq!(last("答\nAnswer：5"), Some("5"));
    }
}
