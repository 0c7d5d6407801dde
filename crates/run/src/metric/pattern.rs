//! Names with braces: what stands in them differs from line to line.

use std::fmt::{Display, Write};

/// What a pattern begins with: text, or braces.
enum PatternPart<'a> {
    Text(&'a str),
    Braces(&'a str),
}

fn split(pattern: &str) -> Option<(PatternPart<'_>, &str)> {
    if pattern.is_empty() {
        return None;
    }
    match pattern.find('{') {
        Some(0) => pattern[1..].split_once('}').map(|(inside, rest)| (PatternPart::Braces(inside), rest)),
        Some(begin) => Some((PatternPart::Text(&pattern[..begin]), &pattern[begin..])),
        None => Some((PatternPart::Text(pattern), "")),
    }
}

/// The pattern with these in its braces; braces beyond them stay.
pub(crate) fn filled(pattern: &str, parts: &[&dyn Display]) -> String {
    let mut name = String::new();
    let mut rest = pattern;
    let mut parts = parts.iter();
    while let Some((part, behind)) = split(rest) {
        let _ = match part {
            PatternPart::Text(text) => name.write_str(text),
            PatternPart::Braces(inside) => match parts.next() {
                Some(value) => write!(name, "{value}"),
                None => write!(name, "{{{inside}}}"),
            },
        };
        rest = behind;
    }
    name
}

/// What stands in the braces of a pattern in this name, where it fits. A word in braces stands for any text but none,
/// choices for one of them.
pub(crate) fn matches<'a>(pattern: &str, name: &'a str) -> Option<Vec<&'a str>> {
    let Some((part, behind)) = split(pattern) else {
        return name.is_empty().then(Vec::new);
    };
    let parts_with = |value: &'a str, rest: &'a str| {
        let mut parts = matches(behind, rest)?;
        parts.insert(0, value);
        Some(parts)
    };
    match part {
        PatternPart::Text(text) => matches(behind, name.strip_prefix(text)?),
        PatternPart::Braces(inside) if inside.contains(',') => inside.split(',').find_map(|choice| {
            let rest = name.strip_prefix(choice)?;
            parts_with(&name[..choice.len()], rest)
        }),
        // The shortest that fits; names are short.
        PatternPart::Braces(_) => {
            let ends = name.char_indices().map(|(at, _)| at).skip(1).chain([name.len()]);
            ends.filter(|end| *end > 0).find_map(|end| parts_with(&name[..end], &name[end..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart_where_it_was_put_together() {
        let pattern = "data_source/{name}/{score,rewards}/mean";
        let name = filled(pattern, &[&"openai/gsm8k", &"score"]);
        assert_eq!(name, "data_source/openai/gsm8k/score/mean");
        assert_eq!(matches(pattern, &name), Some(vec!["openai/gsm8k", "score"]));
        assert_eq!(matches(pattern, "data_source/a/score"), None);
        assert_eq!(matches(pattern, "data_source//score/mean"), None);
        assert_eq!(matches("lag/mean", "lag/mean"), Some(vec![]));
        assert_eq!(matches("a/q{1,2}", "a/q3"), None);
        assert_eq!(matches("a/{x}", "a/é"), Some(vec!["é"]));
        assert_eq!(matches("a/{x,yz}", "a/é"), None);
    }
}
