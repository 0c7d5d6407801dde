//! Written output: stripped lines, each equal as text or, token by token, as exact decimals.

use super::decimal::Decimal;

/// How two outputs compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Match {
    /// Every line is equal.
    Equal,
    /// They have different numbers of lines.
    Lengths {
        /// Lines that were written.
        written: usize,
        /// Lines that are expected.
        expected: usize,
    },
    /// This line differs, the first that does, from 0.
    Line(usize),
    /// The comparison itself fails in the reference grader (a signalling NaN): an error of its own there, a wrong answer elsewhere.
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
            // A different length is told before any line is looked at.
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
    // Pair by pair: all numbers of a line at once would take many times its length in memory.
    let (mut numbers, mut wanted) = (decimals(line), decimals(wanted));
    let mut equal = Some(true);
    loop {
        match (numbers.next(), wanted.next()) {
            (None, None) => return equal,
            (Some(Some(number)), Some(Some(wanted))) => match number.equals(&wanted) {
                Some(false) if equal.is_some() => return Some(false),
                // Raised only where both lines are numbers to their ends, and equally many.
                None => equal = None,
                Some(_) => {}
            },
            _ => return Some(false),
        }
    }
}

/// The tokens of a line as numbers; `None` for one that is no number.
fn decimals(line: &str) -> impl Iterator<Item = Option<Decimal>> {
    line.split(is_space).filter(|token| !token.is_empty()).map(Decimal::read)
}

/// What Python's `str.strip` takes away at both ends.
fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Whitespace as Python's `str` has it: Unicode's, and four separators of ASCII.
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
    fn lengths_are_told_before_lines() {
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
    fn a_signalling_nan_raises_only_where_it_is_reached() {
        assert_eq!(compare("1 sNaN", "1 2"), Match::Raises(0));
        assert_eq!(compare("7 sNaN", "1 2"), Match::Line(0));
        assert_eq!(compare("sNaN 7", "1 2"), Match::Raises(0));
        assert_eq!(compare("sNaN 7", "1 x"), Match::Line(0));
        assert_eq!(compare("sNaN 7", "1 2 3"), Match::Line(0));
        assert_eq!(compare("sNaN", "sNaN"), Match::Equal);
        assert_eq!(compare("1\nsNaN", "2\n1"), Match::Line(0));
    }
}
