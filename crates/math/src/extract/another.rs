//! An answer that is announced after a box or a tag with another one: neither is the answer.

use memchr::{memchr, memmem, memrchr_iter};

use super::restated::Answered;
use super::{Extracted, announcement, boxes, closing_tag, hashes, line};
use crate::Marker;
use crate::choice;
use crate::slicing::SafeSlice;
use crate::words::{self, Known};

/// Shortest text that announces an answer: `#### 1`, `答：1`.
const MIN_BYTES: usize = 6;
/// Longest answer of letters alone that is compared.
const MAX_LETTERS: usize = 8;
/// Longest value before a clause that is compared.
const MAX_VALUE: usize = 64;

/// Whether the text after an answer announces another one.
pub(super) fn announces(found: &Extracted<'_>, text: &str) -> bool {
    let place = found.place(text);
    if text.len() - place.end < MIN_BYTES {
        return false;
    }
    let rest = text.suffix_from(place.end);
    let rest = rest.suffix_from(closing_tag(rest));
    let whole = text.slice(place);
    let is_hashed = memchr(b'#', rest.as_bytes()).is_some();
    let marked = is_hashed.then(|| hashes::after_hashes(rest)).flatten();
    let announced = announcement::last(rest).unwrap_or_else(|_| announcement::unclear(rest));
    [marked, announced].into_iter().flatten().any(|other| is_other(whole, other))
}

/// Whether the text before an answer marks another one: a tag, hashes right before a box, or the answer to another question
/// in a text that runs on.
pub(super) fn precedes(found: &Extracted<'_>, text: &str, marker: Marker) -> bool {
    let place = found.place(text);
    let before = text.prefix_to(place.start);
    let hashed = || {
        let (before, _) = before.rsplit_once('\\').filter(|_| marker == Marker::Boxed)?;
        let before = before.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '$' | '(' | '*'));
        let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
        hashes::after_hashes(line)
    };
    let tagged = announcement::tagged(before).ok().flatten();
    let earlier = (marker != Marker::Unmarked).then(|| before_question(before)).flatten();
    let of_earlier = earlier.into_iter().flat_map(|earlier| {
        let boxed = match boxes::last(earlier) {
            Ok(Some(Extracted::One(boxed))) => Some(boxed),
            _ => None,
        };
        [boxed, hashes::after_hashes(earlier), announcement::last(earlier).ok().flatten()].into_iter().flatten()
    });
    let stated = (marker == Marker::Boxed).then(|| stated_before(before)).flatten();
    let mut others = tagged.into_iter().chain(hashed()).chain(stated).chain(of_earlier);
    others.any(|other| is_other(text.slice(place.clone()), other))
}

/// The answer that a sentence right before a box announces: on the same line or the one before it.
fn stated_before(before: &str) -> Option<&str> {
    let mut ends =
        memrchr_iter(b'\n', before.trim_end().as_bytes()).filter(|at| !before.prefix_to(*at).ends_with('\n'));
    let start = ends.nth(usize::from(!before.ends_with('\n'))).map_or(0, |at| at + 1);
    let near = before.suffix_from(start);
    let stated = announcement::last(near).ok().flatten()?;
    let place = Extracted::One(stated).place(near);
    let rest = near.suffix_from(place.end).trim_start_matches(['$', '*', '_', ')', '}']);
    let is_ended = rest.starts_with('\n') || rest.starts_with(". ") || rest.starts_with(".\n") || stated.ends_with('.');
    before_clause(near.suffix_from(place.start)).or_else(|| is_ended.then_some(stated))
}

/// The value that a text begins with where a clause about something else follows it: `37, where $m = $`.
fn before_clause(text: &str) -> Option<&str> {
    const CLAUSES: [&str; 8] =
        [" where ", " because ", " since ", " whereas ", " while ", " although ", " though ", " but "];
    let end = CLAUSES.iter().filter_map(|word| text.find(word)).min()?;
    let value = text.prefix_to(end).trim_matches(['$', ',', '*', ' ']);
    let is_word = |part: &str| !part.starts_with('\\') && has_word(part);
    (value.len() <= MAX_VALUE && !value.split([' ', '{', '}']).any(is_word)).then_some(value)
}

/// The text before the last line that begins another question or a turn of a user.
fn before_question(text: &str) -> Option<&str> {
    const BEGINNINGS: [&str; 4] = ["Human:", "User:", "Question", "Problem"];
    let starts = BEGINNINGS.iter().filter_map(|word| {
        let at = memmem::rfind(text.as_bytes(), word.as_bytes())?;
        let before = text.prefix_to(at).trim_end_matches([' ', '*', '#']);
        let rest = text.suffix_from(at + word.len()).trim_start();
        let is_title = word.ends_with(':') || rest.starts_with(|c: char| c == ':' || c.is_ascii_digit());
        (is_title && before.ends_with('\n')).then_some(before)
    });
    starts.max_by_key(|before| before.len())
}

/// Whether an announced answer is another one than this. Only what certainly differs counts: other numbers, other
/// letters, another sign.
fn is_other(answer: &str, other: &str) -> bool {
    if !line::has_value(other) || other.contains(['≈', '~']) || other.contains("approx") {
        return false;
    }
    let letter = |text: &str| choice::of_answer(text, &Known::default());
    match (letter(answer), letter(other)) {
        (Some(one), Some(other)) => return one != other,
        // A letter beside its content.
        (Some(_), None) | (None, Some(_)) => return false,
        (None, None) => {}
    }
    if Answered::new("", answer).is_value(other) {
        return false;
    }
    let (answer, other) = (bare(answer), bare(other));
    if answer == other {
        return false;
    }
    // `36 apples`, `36, since`: with no word that changes the number.
    if let Some(rest) = other.strip_prefix(&*answer)
        && !rest.starts_with(|c: char| c.is_ascii_digit() || "^_/+*=!%.".contains(c))
    {
        return words_of(rest).any(words::is_changing) || rest.contains(|c: char| c.is_ascii_digit());
    }
    let digits = |text: &str| text.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect::<String>();
    let is_negative = |text: &str| text.rsplit('=').next().is_some_and(|value| value.starts_with('-'));
    let (ours, theirs) = (digits(&answer), digits(&other));
    match (ours.is_empty(), theirs.is_empty()) {
        (true, true) => answer.len() <= MAX_LETTERS && other.len() <= MAX_LETTERS && !has_word(&other),
        _ => ours != theirs || is_negative(&answer) != is_negative(&other),
    }
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty())
}

/// Whether a text of letters is prose, such as `yes` and `correct`.
fn has_word(text: &str) -> bool {
    words_of(text).any(|word| word.chars().nth(1).is_some())
}

/// A text without blanks between digits, markup, commas and a final point.
fn bare(text: &str) -> String {
    let mut bare = text.trim().to_owned();
    for command in
        ["\\text", "\\mathrm", "\\mathbf", "\\left", "\\right", "\\(", "\\)", "\\[", "\\]", "\\,", "\\!", "\\;"]
    {
        if bare.contains(command) {
            bare = bare.replace(command, "");
        }
    }
    bare = bare.replace("dfrac", "frac").replace("tfrac", "frac").replace('\u{2212}', "-");
    bare.retain(|c| !matches!(c, '{' | '}' | '(' | ')' | '$' | '*' | '`' | ',' | '\\'));
    let bare = bare.trim().trim_end_matches(['.', '。']);
    let mut packed = String::new();
    for word in bare.split_whitespace() {
        // Words keep their space, so that they are seen as words.
        let is_joined = packed.ends_with(char::is_alphabetic) && word.starts_with(char::is_alphabetic);
        if is_joined {
            packed.push(' ');
        }
        packed.push_str(word);
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announces_another(text: &str, answer: &str) -> bool {
        let at = text.find(answer).unwrap();
        announces(&Extracted::One(text.get(at..at + answer.len()).unwrap()), text)
    }

    #[test]
    fn another_announced_answer_is_seen() {
        for rest in [
            ". The final answer is 37.",
            "\n\nAnswer: $37$",
            "\n#### 37",
            "</answer>\n\nAnswer: 37",
            "</answer> <answer>37</answer>",
            "\nAnswer: -36",
            "\n答案：37",
            "\nThe answer is 36 or 37.",
            "\nThe answer is 36 million.",
            "\nThe answer is 3.6",
        ] {
            assert!(announces_another(&format!("36{rest}"), "36"), "{rest}");
        }
    }

    #[test]
    fn the_same_answer_again_is_none() {
        for (answer, rest) in [
            ("36", "}. The answer is 36."),
            ("36", "}\n#### 36"),
            ("36", "}$. Answer: 36 apples"),
            ("36", "}\nThe final answer is $\\boxed{36}$."),
            ("1,000", "}. The answer is 1000."),
            ("\\frac{1}{2}", "}. The answer is 1/2."),
            ("x=36", "}. The answer is 36."),
            ("B", "}. The answer is (B)."),
            ("B", "}. The answer is (B) 36."),
            ("36", "}. The answer is B."),
            ("36", "}. The answer is correct."),
            ("\\pi", "}. The answer is approximately 3.14."),
            ("\\dfrac{a}{b}", "}. The answer is $\\frac ab$."),
        ] {
            assert!(!announces_another(&format!("\\boxed{{{answer}{rest}"), answer), "{answer}{rest}");
        }
    }
}
