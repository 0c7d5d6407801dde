//! Numbers in words beside an answer: `could be thirty-seven`.

use std::borrow::Cow;

use crate::slicing::SafeSlice;

const UNITS: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
/// Words before a number that counts what is known: `these two`.
const COUNTING: [&str; 14] =
    ["the", "these", "those", "all", "both", "first", "last", "next", "other", "of", "any", "only", "my", "our"];

/// A text with digits for the numbers below a hundred that stand in words. `one` and `zero` alone are words.
pub(super) fn in_digits(text: &str) -> Cow<'_, str> {
    let mut found: Option<String> = None;
    let (mut end, mut copied, mut before) = (0, 0, "");
    while let Some(start) = text.suffix_from(end).find(|c: char| c.is_ascii_alphabetic()).map(|at| end + at) {
        let rest = text.suffix_from(start);
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '-').unwrap_or(rest.len());
        end = start + length;
        let word = rest.prefix_to(length);
        // `\text`, `thirty seven`
        let mut number = if text.prefix_to(start).ends_with('\\') { None } else { number(word) };
        if let Some(tens) = number.filter(|number| *number > 19 && *number % 10 == 0)
            && let Some(next) = text.suffix_from(end).strip_prefix(' ')
            && let digit = next.prefix_to(next.find(|c: char| !c.is_alphabetic()).unwrap_or(next.len()))
            && let Some(units) = unit(digit).filter(|units| (1..10).contains(units))
        {
            number = Some(tens + units);
            end += 1 + digit.len();
        }
        if let Some(number) = number.filter(|number| *number > 1)
            && !COUNTING.iter().any(|counting| before.eq_ignore_ascii_case(counting))
        {
            let digits = found.get_or_insert_default();
            digits.push_str(text.slice(copied..start));
            digits.push_str(&number.to_string());
            copied = end;
        }
        before = word;
    }
    match found {
        Some(digits) => Cow::Owned(digits + text.suffix_from(copied)),
        None => Cow::Borrowed(text),
    }
}

fn unit(word: &str) -> Option<usize> {
    UNITS.iter().position(|unit| word.eq_ignore_ascii_case(unit))
}

/// `seven`, `thirty`, `thirty-seven`
fn number(word: &str) -> Option<usize> {
    let tens = |word: &str| TENS.iter().position(|tens| word.eq_ignore_ascii_case(tens)).map(|at| 10 * (at + 2));
    match word.split_once('-') {
        Some((before, units)) => Some(tens(before)? + unit(units).filter(|units| (1..10).contains(units))?),
        None => unit(word).or_else(|| tens(word)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_words_become_digits() {
        for (text, digits) in [
            ("could be thirty-seven", "could be 37"),
            ("(or Thirty seven)", "(or 37)"),
            ("maybe twelve or twenty.", "maybe 12 or 20."),
            ("these two are the only ones", "these two are the only ones"),
            ("one of the seven", "one of the seven"),
            ("two-thirds of tension", "two-thirds of tension"),
        ] {
            assert_eq!(in_digits(text), digits);
        }
    }
}
