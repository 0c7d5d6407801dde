//! The formula at the beginning of a text, between its delimiters.

/// Delimiters, the longer of two with a common beginning first, and whether the formula may run over several lines.
const DELIMITERS: [(&str, &str, bool); 4] =
    [("$$", "$$", true), ("\\[", "\\]", true), ("\\(", "\\)", true), ("$", "$", false)];

/// A formula.
pub(super) struct Formula<'a> {
    /// What stands between the delimiters.
    pub(super) inner: &'a str,
    /// What follows them.
    pub(super) rest: &'a str,
}

/// The formula that the text begins with. `None` where it begins with something else, or the formula does not end.
pub(super) fn formula_at_start(text: &str) -> Option<Formula<'_>> {
    let (opener, closer, lines) = DELIMITERS.iter().find(|(opener, ..)| text.starts_with(opener))?;
    let body = &text[opener.len()..];
    let scope = if *lines { body } else { body.lines().next().unwrap_or_default() };
    let end = scope.find(closer)?;
    Some(Formula { inner: &body[..end], rest: &body[end + closer.len()..] })
}

/// The formula that the text ends with, up to punctuation. `None` where it ends with something else.
pub(super) fn formula_at_end(text: &str) -> Option<&str> {
    let (opener, closer, _) = DELIMITERS.iter().find(|(_, closer, _)| text.ends_with(closer))?;
    let body = &text[..text.len() - closer.len()];
    let start = body.rfind(opener)?;
    Some(&body[start + opener.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_found_at_either_end() {
        let inner = |text| formula_at_start(text).map(|formula| formula.inner);
        assert_eq!(inner("$13$ apples"), Some("13"));
        assert_eq!(inner("\\[\n9\n\\] done"), Some("\n9\n"));
        assert_eq!(inner("$5 and\n$6"), None);
        assert_eq!(formula_at_end("it is $$ 9 $$"), Some(" 9 "));
        assert_eq!(formula_at_end("it is \\(x\\)"), Some("x"));
        assert_eq!(formula_at_end("it is 9"), None);
    }
}
