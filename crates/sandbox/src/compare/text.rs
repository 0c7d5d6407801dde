//! Comparison of standard output: stripped lines, each equal as text or, token by token, as exact decimals.

use super::decimal::Decimal;

/// The result of comparing two outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// All lines are equal.
    Equal,
    /// The numbers of lines differ.
    Lengths {
        /// Number of lines written.
        written: usize,
        /// Number of lines expected.
        expected: usize,
    },
    /// Index of the first line that differs, from 0.
    Line(usize),
    /// Comparing this line (a signalling NaN) raises an exception in the reference grader: a separate error there, a wrong answer elsewhere.
    Raises(usize),
}

/// Compares an output with the expected one.
#[must_use]
pub fn compare(written: &str, expected: &str) -> Match {
    let (mut written_lines, mut expected_lines) = (lines(written), lines(expected));
    let mut index = 0;
    let mut found = Match::Equal;
    loop {
        match (written_lines.next(), expected_lines.next()) {
            (None, None) => return found,
            (Some(line), Some(wanted)) => {
                if found == Match::Equal {
                    found = match line_equals(strip(line), strip(wanted)) {
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
    let (mut numbers, mut wanted) = (decimals(line), decimals(wanted));
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

/// The tokens of a line as numbers; `None` for tokens that are not numbers.
fn decimals(line: &str) -> impl Iterator<Item = Option<Decimal>> {
    line.split(is_space).filter(|token| !token.is_empty()).map(Decimal::read)
}

/// Python's `str.strip`.
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
