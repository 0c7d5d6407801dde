//! Messages of serde and figment in plain words.

use figment::Error;
use figment::error::{Actual, Kind};

/// Least similarity of a known key that is suggested for an unknown one.
const MIN_SIMILARITY: f64 = 0.6;

/// Similarity from which on a key is misspelt and not another one.
const MISSPELT: f64 = 0.9;

/// The candidate most similar to `name`. `None` if none is similar enough.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    most_similar(name, candidates, MIN_SIMILARITY)
}

/// The candidate that `name` is a misspelling of, if it is one.
pub fn misspelt<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    most_similar(name, candidates, MISSPELT)
}

fn most_similar<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>, least: f64) -> Option<&'a str> {
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        let score = strsim::jaro_winkler(name, candidate).max(strsim::normalized_damerau_levenshtein(name, candidate));
        if score >= least && best.is_none_or(|(top, _)| score > top) {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// What is allowed in place of a refused value. `None` if the error is about something else.
pub(super) fn allowed(kind: &Kind) -> Option<String> {
    match kind {
        // A value that is no integer gets no bounds: the setting may have narrower ones than its type.
        Kind::InvalidType(found, expected) if is_unsigned(expected) && !matches!(found, Actual::Signed(_)) => {
            Some("an integer".to_owned())
        }
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) => Some(type_in_words(expected)),
        Kind::InvalidLength(length, expected) => {
            Some(format!("{} instead of {length} entries", type_in_words(expected)))
        }
        Kind::UnknownVariant(name, variants) => {
            let list = variants.join(", ");
            Some(match nearest(name, variants.iter().copied()) {
                Some(variant) => format!("one of {list} (nearest: {variant})"),
                None => format!("one of {list}"),
            })
        }
        // A part that is read from a text says itself what is wrong with it, in the same form: `aggregation is 'x',
        // allowed: token`.
        Kind::Message(message) => Some(match message.split_once(", allowed: ") {
            Some((_, allowed)) => allowed.to_owned(),
            None => message.clone(),
        }),
        Kind::ISizeOutOfRange(_) | Kind::USizeOutOfRange(_) => Some("a number that fits".to_owned()),
        _ => None,
    }
}

/// Where a refused value is, or the list that it is in; empty for what is missing.
pub(super) fn path(error: &Error) -> Vec<String> {
    let name = match &error.kind {
        Kind::MissingField(_) => return Vec::new(),
        // figment sometimes includes the refused key in the path.
        Kind::UnknownField(name, _) if error.path.last() != Some(name) => Some(name),
        _ => None,
    };
    error.path.iter().chain(name).take_while(|part| part.parse::<usize>().is_err()).cloned().collect()
}

/// Whether the setting is a text and the value is not: `5` was meant as a text.
pub(super) fn wants_text(error: &Error) -> bool {
    match &error.kind {
        Kind::InvalidType(actual, expected) => !matches!(actual, Actual::Str(_)) && expected.contains("string"),
        _ => false,
    }
}

/// Whether the setting is a table and the value is not.
pub(super) fn wants_table(error: &Error) -> bool {
    match &error.kind {
        Kind::InvalidType(actual, expected) => {
            !matches!(actual, Actual::Map) && (expected == "a map" || expected.starts_with("struct "))
        }
        _ => false,
    }
}

/// Whether the setting is a list and the value is a text.
pub(super) fn wants_list(error: &Error) -> bool {
    matches!(&error.kind, Kind::InvalidType(Actual::Str(_), expected) if expected.contains("sequence"))
}

fn is_unsigned(expected: &str) -> bool {
    matches!(expected, "u8" | "u16" | "u32" | "u64" | "usize")
}

fn type_in_words(expected: &str) -> String {
    let bounded = |max: u64| format!("an integer from 0 to {max}");
    match expected {
        "u8" => bounded(u8::MAX.into()),
        "u16" => bounded(u16::MAX.into()),
        "u32" => bounded(u32::MAX.into()),
        "u64" | "usize" => "an integer, at least 0".to_owned(),
        "i8" | "i16" | "i32" | "i64" | "isize" => "an integer".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        _ if expected.starts_with("struct ") => "a table".to_owned(),
        _ if expected.starts_with("a nonzero ") => "an integer, at least 1".to_owned(),
        _ => expected.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_of_a_misspelt_one_is_suggested() {
        let keys = ["listen", "max_message_bytes", "drain_ms"];
        assert_eq!(nearest("lisen", keys), Some("listen"));
        assert_eq!(nearest("max_mesage_byte", keys), Some("max_message_bytes"));
        assert_eq!(nearest("drain_timeout_ms", keys), Some("drain_ms"));
    }

    #[test]
    fn what_a_part_says_is_allowed_is_said_once() {
        let message = "aggregation is 'grpo2', allowed: token, balanced";
        assert_eq!(allowed(&Kind::Message(message.to_owned())).unwrap(), "token, balanced");
        assert_eq!(allowed(&Kind::Message("no such day".to_owned())).unwrap(), "no such day");
    }

    #[test]
    fn nothing_is_suggested_for_a_key_like_no_other() {
        assert_eq!(nearest("qqqq", ["listen", "drain_ms"]), None);
    }
}
