//! Answers announced by a line: `#### 42`, "Answer: 42", "the final answer is 42".

use memchr::{memchr, memrchr_iter, memrchr2_iter};

use super::boxes;
use super::span::formula_at_start;
use crate::slicing::SafeSlice;

/// The text after the last non-empty `####` at the start of a line.
pub(super) fn after_hashes(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    for end in memrchr_iter(b'#', bytes) {
        // The end of a run of hashes; exactly four are needed.
        if bytes.get(end + 1) == Some(&b'#') || !text.prefix_to(end + 1).ends_with("####") {
            continue;
        }
        let Some(at) = end.checked_sub(3) else { continue };
        let before = text.prefix_to(at).trim_end_matches([' ', '\t']);
        let begins_line = before.is_empty() || before.ends_with('\n');
        if !begins_line {
            continue;
        }
        let line = first_line(text.suffix_from(end + 1));
        let answer = boxes::last_in(line).unwrap_or_else(|| statement(line));
        if !answer.trim().is_empty() {
            return Some(answer);
        }
    }
    None
}

/// Empty announcements after which the search stops, since each scans the rest of its line.
const MAX_EMPTY: usize = 8;

/// The text announced by the last "Answer:" or "final answer is".
pub(super) fn answer_line(text: &str) -> Option<&str> {
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
        let answer = value(rest);
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

/// The text after the announcement formed by `before`, the word "answer" and `after`. `None` if they form none.
fn announced<'a>(before: &str, after: &'a str) -> Option<&'a str> {
    const EMPHASIS: [char; 4] = [' ', '\t', '*', '_'];
    let direct = after.trim_start_matches(EMPHASIS);
    if let Some(rest) = direct.strip_prefix(':').or_else(|| direct.strip_prefix('：')) {
        return Some(rest);
    }
    let final_before = before.trim_end_matches(EMPHASIS);
    let is_final = final_before.len() < before.len()
        && final_before
            .len()
            .checked_sub(5)
            .and_then(|start| final_before.get(start..))
            .is_some_and(|word| word.eq_ignore_ascii_case("final"));
    let rest = direct.strip_prefix("is").filter(|rest| is_final && !rest.starts_with(char::is_alphanumeric))?;
    let rest = rest.trim_start_matches(EMPHASIS);
    Some(rest.strip_prefix(':').unwrap_or(rest))
}

/// The announced answer: on the same line, or on the next non-empty one.
fn value(rest: &str) -> &str {
    let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_' | '`'));
    let line = first_line(rest);
    if let Some(answer) = boxes::last_in(line) {
        return answer;
    }
    match formula_at_start(rest) {
        Some(formula) if ends_statement(formula.rest) => formula.inner,
        _ => statement(line),
    }
}

/// A line without surrounding emphasis, up to the end of its first sentence.
fn statement(line: &str) -> &str {
    let line = line.trim().trim_matches(['*', '`']).trim();
    if let Some(formula) = formula_at_start(line)
        && ends_statement(formula.rest)
    {
        return formula.inner;
    }
    match line.find(". ") {
        Some(end) => line.prefix_to(end),
        None => line,
    }
}

/// Words of a sentence; anything longer contains more than the answer.
const SENTENCE_WORDS: usize = 4;

/// Whether an announced answer is wrapped in a sentence.
pub(super) fn is_sentence(answer: &str) -> bool {
    let is_word = |word: &&str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    answer.split_whitespace().filter(is_word).nth(SENTENCE_WORDS - 1).is_some()
        || answer
            .split_once(" is ")
            .is_some_and(|(before, _)| before.split_whitespace().filter(is_word).nth(1).is_some())
}

/// Whether the rest does not belong to the answer.
fn ends_statement(rest: &str) -> bool {
    let rest = rest.trim_start_matches([' ', '\t', '*', '_', '`']);
    rest.is_empty()
        || rest.starts_with(['\n', '\r'])
        || rest.starts_with(". ")
        || rest.trim_end() == "."
        || rest.starts_with(".\n")
        || rest.starts_with(".*")
}

fn first_line(text: &str) -> &str {
    let end = memchr(b'\n', text.as_bytes()).unwrap_or(text.len());
    text.prefix_to(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_mark_a_line() {
        assert_eq!(after_hashes("2+40=42\n#### 42\nand more"), Some("42"));
        assert_eq!(after_hashes("#### 1\n  #### 2"), Some("2"));
        assert_eq!(after_hashes("see #### 3"), None);
        assert_eq!(after_hashes("##### 3"), None);
        assert_eq!(after_hashes("#### 7\n####\n"), Some("7"));
        assert_eq!(after_hashes("#### $\\boxed{7}$ apples"), Some("7"));
    }

    #[test]
    fn the_last_announcement_counts() {
        assert_eq!(answer_line("Answer: 1\nAnswer: 2"), Some("2"));
        assert_eq!(answer_line("ANSWER : 5"), Some("5"));
        assert_eq!(answer_line("**Answer**: **73**"), Some("73"));
        assert_eq!(answer_line("**Final Answer:** 73."), Some("73."));
        assert_eq!(answer_line("The final answer is $20\\%$. I hope it is correct."), Some("20\\%"));
        assert_eq!(answer_line("the final answer is: 7. I hope so"), Some("7"));
        assert_eq!(answer_line("my answer is 7"), None);
        assert_eq!(answer_line("xanswer: 7"), None);
        assert_eq!(answer_line("Answer: 7\nAnswer:"), Some("7"));
    }

    #[test]
    fn the_answer_may_stand_on_the_next_line() {
        assert_eq!(answer_line("Answer:\n\n13"), Some("13"));
        assert_eq!(answer_line("Answer:\n\\[\n9\n\\]\nBye"), Some("\n9\n"));
        assert_eq!(answer_line("Answer: $13$"), Some("13"));
        assert_eq!(answer_line("Answer: the number \\boxed{34}, clearly"), Some("34"));
        assert_eq!(answer_line("Answer: $5$ or $6$"), Some("$5$ or $6$"));
    }

    #[test]
    fn letters_of_more_than_one_byte_are_no_trouble() {
        assert_eq!(answer_line("äöüw ßw答w"), None);
        assert_eq!(answer_line("答Answer：5"), None);
        assert_eq!(answer_line("答: Answer：5"), Some("5"));
    }
}
