//! Digits with a decimal point and thousands separators, as one token.

use std::borrow::Cow;

use crate::slicing::SafeSlice;

/// Unsigned digits as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numeral<'a> {
    /// Digits before the point, without separators.
    pub(super) integer: Cow<'a, str>,
    /// Digits after the point.
    pub(super) fraction: &'a str,
    /// Whether there is a point.
    pub(super) point: bool,
}

impl Numeral<'_> {
    /// Whether it is digits only, so that TeX may take single digits of it.
    pub(super) fn is_digits(&self) -> bool {
        !self.point && matches!(self.integer, Cow::Borrowed(_))
    }
}

/// Separators between groups of three digits, longest first.
const SEPARATORS: [&str; 18] = [
    "{,}\\! ", " , \\!", ",\\! ", ",\\!", "{,}", "{, }", "\\,", "\\;", "\\:", "\\!", "\\ ", ",", "~", " {,}", " {, }",
    " ", "_", "'",
];

/// The numeral at the start of the text, and its length. `None` if there is none. The text must not continue an earlier
/// numeral.
///
/// Within brackets a comma always separates items: `(12,102)` is a pair.
pub(super) fn numeral(text: &str, in_brackets: bool) -> Option<(Numeral<'_>, usize)> {
    let first = digits(text);
    let (integer, mut length) = match grouped(text, first, in_brackets) {
        Some((joined, length)) => (Cow::Owned(joined), length),
        None => (Cow::Borrowed(text.prefix_to(first)), first),
    };
    let rest = text.suffix_from(length);
    let fraction = rest.strip_prefix('.').map_or("", |fraction| fraction.prefix_to(digits(fraction)));
    // `-1./3` has a point without digits after it; `5.` ends a sentence.
    let bare_point = first > 0 && rest.starts_with("./");
    let point = !fraction.is_empty() || bare_point;
    if point {
        length += 1 + fraction.len();
    }
    (length > 0).then_some((Numeral { integer, fraction, point }, length))
}

/// Number of ASCII digits at the start of the text.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// The digits of all groups, and their length with separators. `None` if the first `first` digits are not a group of
/// thousands.
fn grouped(text: &str, first: usize, in_brackets: bool) -> Option<(String, usize)> {
    if !(1..=3).contains(&first) || text.starts_with('0') {
        return None;
    }
    let separator = *SEPARATORS.iter().find(|separator| text.suffix_from(first).starts_with(*separator))?;
    if separator == "," && in_brackets {
        return None;
    }
    let mut ends = vec![first];
    let mut end = first;
    while let Some(group) = text.suffix_from(end).strip_prefix(separator) {
        match digits(group) {
            3 => end += separator.len() + 3,
            // `1,234,5` and `1,2345` are lists; after a space something else may follow.
            1.. if separator == "," => return None,
            _ => break,
        }
        ends.push(end);
    }
    // In `5 123/456` the space belongs to a mixed number.
    if separator == " "
        && text.suffix_from(end).trim_start_matches(' ').starts_with('/')
        && !text.prefix_to(end).ends_with("000")
    {
        ends.pop();
    }
    let end = ends.pop().filter(|_| !ends.is_empty())?;
    let joined = text.prefix_to(end).chars().filter(char::is_ascii_digit).collect();
    Some((joined, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (String, usize) {
        let (numeral, length) = numeral(text, false).unwrap();
        let point = if numeral.point { "." } else { "" };
        (format!("{}{point}{}", numeral.integer, numeral.fraction), length)
    }

    #[test]
    fn digits_and_points() {
        assert_eq!(read("42x"), ("42".into(), 2));
        assert_eq!(read("4.20"), ("4.20".into(), 4));
        assert_eq!(read(".5"), (".5".into(), 2));
        assert_eq!(read("5."), ("5".into(), 1));
        assert_eq!(read("1./3"), ("1.".into(), 2));
        assert_eq!(numeral("x", false), None);
        assert_eq!(numeral(".", false), None);
    }

    #[test]
    fn thousands_are_joined() {
        for text in ["1,000", "1{,}000", "1\\,000", "1\\!000", "1 000", "1~000", "1,\\!000", "1,\\! 000"] {
            assert_eq!(read(text), ("1000".into(), text.len()), "{text}");
        }
        assert_eq!(read("12,345,678.90"), ("12345678.90".into(), 13));
        assert_eq!(read("1 000 4/9"), ("1000".into(), 5));
    }

    #[test]
    fn what_is_no_group_of_three_stays_apart() {
        assert_eq!(read("10,00"), ("10".into(), 2));
        assert_eq!(read("1,234,5"), ("1".into(), 1));
        assert_eq!(read("1, 000"), ("1".into(), 1));
        assert_eq!(read("0,123"), ("0".into(), 1));
        assert_eq!(read("1234,567"), ("1234".into(), 4));
        assert_eq!(read("5 123/456"), ("5".into(), 1));
    }
}
