//! Comparison of standard output: stripped lines, each equal as text or, token by token, as decimals.

use super::decimal::Decimal;
use super::tolerance::Tolerance;

/// The result of comparing two outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// All lines are equal.
    Equal,
    /// All lines are equal, some of them within the tolerance.
    Close,
    /// The numbers of lines differ.
    Lengths {
        /// Number of lines written.
        written: usize,
        /// Number of lines expected.
        expected: usize,
    },
    /// Index of the first line that differs, from 0.
    Line(usize),
    /// Comparing this line (a signalling NaN) raises an exception in the reference grader: a separate error there, a
    /// wrong answer elsewhere.
    Raises(usize),
}

/// Compares an output with the expected one by LiveCodeBench's rules.
#[must_use]
pub fn compare(written: &str, expected: &str) -> Match {
    compare_lines(written, expected, line_equals)
}

/// [`compare`], with a tolerance for numbers whose expected value is written as a float, also next to words. Numbers
/// are in ASCII digits without underscores, unlike those of Python's `Decimal`.
#[must_use]
pub fn compare_within(written: &str, expected: &str, tolerance: Tolerance) -> Match {
    let mut close = false;
    let found = compare_lines(written, expected, |line, wanted| match line_equals(line, wanted) {
        Some(false) if line_is_close(line, wanted, tolerance) => {
            close = true;
            Some(true)
        }
        // `1_000` and `٣` are no numbers of an output.
        Some(true) if line != wanted && tokens(line).any(|token| !is_plain(token) && !wanted.contains(token)) => {
            Some(false)
        }
        equal => equal,
    });
    if found == Match::Equal && close { Match::Close } else { found }
}

/// Compares lines up to the first difference. `None` from `equals` means that the reference grader raises an exception.
fn compare_lines(written: &str, expected: &str, mut equals: impl FnMut(&str, &str) -> Option<bool>) -> Match {
    let mut written_lines = lines(written);
    let mut expected_lines = lines(expected);
    let mut index = 0;
    let mut found = Match::Equal;
    loop {
        match (written_lines.next(), expected_lines.next()) {
            (None, None) => return found,
            (Some(line), Some(wanted)) => {
                if found == Match::Equal {
                    found = match equals(strip(line), strip(wanted)) {
                        Some(true) => Match::Equal,
                        Some(false) => Match::Line(index),
                        None => Match::Raises(index),
                    };
                }
            }
            // A different number of lines takes precedence over different lines.
            (Some(_), None) => return Match::Lengths { written: index + 1 + written_lines.count(), expected: index },
            (None, Some(_)) => return Match::Lengths { written: index, expected: index + 1 + expected_lines.count() },
        }
        index += 1;
    }
}

fn lines(text: &str) -> std::str::Split<'_, char> {
    strip(text).split('\n')
}

fn line_equals(line: &str, wanted: &str) -> Option<bool> {
    if line == wanted {
        return Some(true);
    }
    // Pair by pair, since all numbers of a line would take many times its length in memory.
    let mut numbers = decimals(line);
    let mut wanted = decimals(wanted);
    let mut equal = Some(true);
    loop {
        match (numbers.next(), wanted.next()) {
            (None, None) => return equal,
            (Some(Some(number)), Some(Some(wanted))) => match number.equals(&wanted) {
                Some(false) if equal.is_some() => return Some(false),
                // The exception occurs only if both lines consist of equally many numbers.
                None => equal = None,
                Some(_) => {}
            },
            _ => return Some(false),
        }
    }
}

/// Whether two lines differ only in floats that are close to each other. In a line of numbers alone any white space
/// separates them.
fn line_is_close(line: &str, wanted: &str, tolerance: Tolerance) -> bool {
    let (mut tokens, mut wanted_tokens) = (tokens(line), tokens(wanted));
    let mut has_words = false;
    loop {
        match (tokens.next(), wanted_tokens.next()) {
            (None, None) => break,
            (Some(token), Some(wanted)) if token_is_close(token, wanted, tolerance) => {
                has_words |= Decimal::read(wanted).is_none();
            }
            _ => return false,
        }
    }
    !has_words || spaces(line).eq(spaces(wanted))
}

fn is_plain(token: &str) -> bool {
    token.is_ascii() && !token.contains('_')
}

fn token_is_close(token: &str, wanted: &str, tolerance: Tolerance) -> bool {
    if token == wanted {
        return true;
    }
    if !is_plain(token) {
        return false;
    }
    let (Some(found), Some(expected)) = (Decimal::read(token), Decimal::read(wanted)) else { return false };
    if found.equals(&expected) == Some(true) {
        return true;
    }
    let is_float = wanted.contains(['.', 'e', 'E']);
    match (found.as_float(), expected.as_float()) {
        (Some(found), Some(expected)) if is_float => tolerance.accepts(found, expected, written_decimals(wanted)),
        _ => false,
    }
}

/// Number of decimals of a token as it is written, with zeros at its end: those of `1.50e-3` are five.
fn written_decimals(token: &str) -> i64 {
    let (mantissa, exponent) = token.split_once(['e', 'E']).unwrap_or((token, "0"));
    let decimals = mantissa.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let exponent: i64 = exponent.parse().unwrap_or(0);
    i64::try_from(decimals).unwrap_or(i64::MAX).saturating_sub(exponent)
}

/// The white space of a line between its tokens.
fn spaces(line: &str) -> impl Iterator<Item = &str> {
    line.split(|character| !is_space(character)).filter(|space| !space.is_empty())
}

fn tokens(line: &str) -> impl Iterator<Item = &str> {
    line.split(is_space).filter(|token| !token.is_empty())
}

/// The tokens of a line as numbers; `None` for tokens that are not numbers.
fn decimals(line: &str) -> impl Iterator<Item = Option<Decimal>> {
    tokens(line).map(Decimal::read)
}

/// Strips white space as Python's `str.strip` does.
fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// White space according to Python's `str`: that of Unicode and four ASCII separators.
fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\x1c'..='\x1f')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_an_output_are_written_in_ascii_digits_alone() {
        for written in ["1_000", "١٠٠٠", "1_000.0", "１０００"] {
            assert_eq!(compare(written, "1000"), Match::Equal, "{written}");
            assert_eq!(compare_within(written, "1000", Tolerance::default()), Match::Line(0), "{written}");
        }
        assert_eq!(compare_within("1_000", "1_000", Tolerance::default()), Match::Equal);
    }

    #[test]
    fn blank_lines_at_the_ends_do_not_count() {
        assert_eq!(compare("\n\n  6  \n\n", "6"), Match::Equal);
        assert_eq!(compare("", "\n"), Match::Equal);
    }

    #[test]
    fn a_blank_line_inside_counts() {
        assert_eq!(compare("1\n\n2", "1\n2"), Match::Lengths { written: 3, expected: 2 });
        assert_eq!(compare("1", "1\n2\n3"), Match::Lengths { written: 1, expected: 3 });
    }

    #[test]
    fn different_lengths_take_precedence_over_different_lines() {
        assert_eq!(compare("x\ny", "1\n2\n3"), Match::Lengths { written: 2, expected: 3 });
    }

    #[test]
    fn unicode_whitespace_and_separators_are_stripped_from_every_line() {
        assert_eq!(compare("1\r\n2\x0b\x0c\n3\x1c\n4\u{a0}", "1\n2\n3\n4"), Match::Equal);
    }

    #[test]
    fn spaces_inside_matter_for_words_and_not_for_numbers() {
        assert_eq!(compare("1   2  3.0", "1 2 3"), Match::Equal);
        assert_eq!(compare("a   b", "a b"), Match::Line(0));
        assert_eq!(compare("1 2 x", "1 2  x"), Match::Line(0));
    }

    #[test]
    fn floats_may_differ_by_the_tolerance() {
        let close = |written: &str, expected: &str| compare_within(written, expected, Tolerance::default());
        for (written, expected) in [
            ("0.666667", "0.6666666667"),
            ("1.4142135623730951", "1.4142135624"),
            ("0.6666666666666666 0.3333333333333333", "0.666666667 0.333333333"),
            ("Case 1: 0.333333", "Case 1: 0.33333333333"),
            ("1\n2.0000001\nYES", "1\n2.0\nYES"),
            ("1.4999999999999998e-3", "0.0015"),
            ("0.123457  7", "0.1234567 7.0"),
        ] {
            assert_eq!(close(written, expected), Match::Close, "{written} for {expected}");
            assert_ne!(compare(written, expected), Match::Equal, "{written} for {expected}");
        }
        assert_eq!(close("2.50", "2.5"), Match::Equal);
    }

    #[test]
    fn integers_words_and_everything_else_stay_exact() {
        for (written, expected) in [
            ("3.0000001", "3"),
            ("1000000", "1000001"),
            ("0.67", "0.6666667"),
            ("Case  1: 0.333333", "Case 1: 0.3333333"),
            ("case 1: 0.333333", "Case 1: 0.3333333"),
            ("0.3333333 x", "0.3333333"),
            ("nan", "0.5"),
            ("inf", "1e400"),
            ("1e999999999999", "1.5"),
            ("-0.5", "0.5"),
        ] {
            assert_eq!(
                compare_within(written, expected, Tolerance::default()),
                Match::Line(0),
                "{written} for {expected}"
            );
        }
        assert_eq!(compare_within("0.666667", "0.6666666667", Tolerance::EXACT), Match::Line(0));
    }

    #[test]
    fn a_signalling_nan_raises_only_if_it_is_compared() {
        assert_eq!(compare("1 sNaN", "1 2"), Match::Raises(0));
        assert_eq!(compare("7 sNaN", "1 2"), Match::Line(0));
        assert_eq!(compare("sNaN 7", "1 2"), Match::Raises(0));
        assert_eq!(compare("sNaN 7", "1 x"), Match::Line(0));
        assert_eq!(compare("sNaN 7", "1 2 3"), Match::Line(0));
        assert_eq!(compare("sNaN", "sNaN"), Match::Equal);
        assert_eq!(compare("1\nsNaN", "2\n1"), Match::Line(0));
    }
}
