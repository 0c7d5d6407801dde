//! Whole numbers that 64 bits do not hold: JSON would be read with others in their place.

/// Longest part of a number that a message repeats, in characters.
const MAX_REPEATED: usize = 80;

/// Refuses JSON with such a number.
///
/// # Errors
/// The number and what is allowed, for the model.
pub(crate) fn require_exact(json: &str) -> Result<(), String> {
    let Some(number) = first(json) else { return Ok(()) };
    let shown: String = number.chars().take(MAX_REPEATED).collect();
    Err(format!("the number {shown} is too large, allowed: whole numbers from -2^63 to 2^64 - 1, and texts"))
}

/// The first such number outside of texts.
fn first(json: &str) -> Option<&str> {
    let bytes = json.as_bytes();
    let mut at = 0;
    let mut in_text = false;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if in_text => at += 1,
            b'"' => in_text = !in_text,
            b'-' | b'0'..=b'9' if !in_text => {
                let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
                let end = bytes[at..].iter().position(|byte| !is_part(byte)).map_or(bytes.len(), |length| at + length);
                let number = &json[at..end];
                let is_whole = number.bytes().skip(1).all(|byte| byte.is_ascii_digit());
                if is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                    return Some(number);
                }
                at = end - 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_64_bits_are_found_and_others_are_not() {
        for (json, found) in [
            (r#"{"id": 123456789012345678901}"#, Some("123456789012345678901")),
            (r#"[1, {"a": [-9223372036854775809]}]"#, Some("-9223372036854775809")),
            ("18446744073709551616", Some("18446744073709551616")),
            (r#"{"id": 18446744073709551615, "b": -9223372036854775808}"#, None),
            (r#"{"id": "123456789012345678901", "\"123456789012345678901": 1.5e300}"#, None),
            (r#"{"a": 1234567890123456789012.5, "b": 1E40, "c": "\\"}"#, None),
        ] {
            assert_eq!(first(json), found, "{json}");
        }
        let error = require_exact(r#"{"id": 123456789012345678901}"#).unwrap_err();
        assert!(error.starts_with("the number 123456789012345678901 is too large, allowed: whole numbers"), "{error}");
        assert!(require_exact(&"9".repeat(1000)).unwrap_err().len() < 200);
    }
}
