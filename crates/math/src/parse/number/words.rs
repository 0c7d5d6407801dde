//! Words behind a number that multiply it: `million`, `dozen`, `thirds`.

/// The power of ten that a word multiplies by.
pub(in crate::parse) fn magnitude(word: &str) -> Option<i64> {
    let singular = word.strip_suffix('s').unwrap_or(word);
    Some(match singular {
        "hundred" => 2,
        "thousand" => 3,
        "lakh" => 5,
        "million" => 6,
        "crore" => 7,
        "billion" => 9,
        "trillion" => 12,
        _ => return None,
    })
}

/// What a word for a part or a multiple multiplies by: `3 fourths`, `7 dozen`.
pub(super) fn factor(word: &str) -> Option<(u8, u8)> {
    let part = |below| Some((1, below));
    match word.strip_suffix('s').unwrap_or(word) {
        "half" | "halve" => part(2),
        "third" => part(3),
        "fourth" | "quarter" => part(4),
        "fifth" => part(5),
        "sixth" => part(6),
        "seventh" => part(7),
        "eighth" => part(8),
        "ninth" => part(9),
        "tenth" => part(10),
        "eleventh" => part(11),
        "twelfth" => part(12),
        "twentieth" => part(20),
        "hundredth" => part(100),
        "dozen" => Some((12, 1)),
        "gross" => Some((144, 1)),
        _ => None,
    }
}
