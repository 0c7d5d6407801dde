//! `str` and `repr` of template values.

use std::fmt::Write;

use minijinja::Error;
use minijinja::value::{Value, ValueKind};

use super::limits::{MAX_WRITTEN_DEPTH, check_length, too_deep};
use super::number;

/// What a template prints for a value.
///
/// # Errors
/// A value that is nested too deep, or a text that would be too long.
pub(crate) fn str_of(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_str(&mut out, value)?;
    Ok(out)
}

/// What is shown of a value in an error.
pub(super) fn shown(value: &Value) -> String {
    str_of(value).unwrap_or_else(|_| "a value".to_owned())
}

/// Appends what a template prints for a value.
fn write_str(out: &mut String, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => out.push_str(text),
        None if value.is_undefined() => {}
        None => write_repr(out, value, 0)?,
    }
    check_length(out.len())
}

/// Appends a value as Python code would have it: strings in quotes.
fn write_repr(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_WRITTEN_DEPTH {
        return Err(too_deep());
    }
    check_length(out.len())?;
    if value.is_undefined() {
        out.push_str("Undefined");
        return Ok(());
    }
    match value.kind() {
        ValueKind::String => write_quoted(out, value.as_str().unwrap_or_default()),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(float) => out.push_str(&number::float(float)),
            Err(_) => push_display(out, value),
        },
        ValueKind::Map => write_dict(out, value, depth)?,
        ValueKind::Seq | ValueKind::Iterable => write_list(out, value, depth)?,
        _ => push_display(out, value),
    }
    Ok(())
}

fn push_display(out: &mut String, value: &Value) {
    // Writing to a string does not fail.
    let _ = write!(out, "{value}");
}

fn write_dict(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    out.push('{');
    let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
    for (index, (key, value)) in pairs.into_iter().flatten().enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        write_repr(out, &key, depth + 1)?;
        out.push_str(": ");
        write_repr(out, &value, depth + 1)?;
    }
    out.push('}');
    Ok(())
}

fn write_list(out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
    let is_tuple = value.is_tuple();
    let mut count = 0;
    out.push(if is_tuple { '(' } else { '[' });
    for item in value.try_iter().into_iter().flatten() {
        out.push_str(if count == 0 { "" } else { ", " });
        write_repr(out, &item, depth + 1)?;
        count += 1;
    }
    out.push_str(match (is_tuple, count) {
        (true, 1) => ",)",
        (true, _) => ")",
        (false, _) => "]",
    });
    Ok(())
}

fn write_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if character == quote => out.extend(['\\', quote]),
            _ if is_printable(character) => out.push(character),
            _ => {
                let code = u32::from(character);
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02x}"),
                    0x100..=0xffff => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
}

/// As Python's `str.isprintable`. The standard library escapes the same characters when it formats a string for
/// debugging, and behind another character it leaves combining marks as they are.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    let mut pair = [b'a'; 5];
    let end = 1 + character.encode_utf8(&mut pair[1..]).len();
    std::str::from_utf8(&pair[..end]).is_ok_and(|pair| pair.escape_debug().nth(1) == Some(character))
}

#[cfg(test)]
mod tests {
    use minijinja::value::{Tuple, Value};

    use super::*;
    use crate::value::TemplateValue;

    fn printed(json: &str) -> String {
        str_of(TemplateValue::parse(json).unwrap().inner()).unwrap()
    }

    #[test]
    fn values_print_as_in_python() {
        assert_eq!(printed("\"it's\""), "it's");
        assert_eq!(printed("[true, false, null, 1, 1.0, 1e22]"), "[True, False, None, 1, 1.0, 1e+22]");
        assert_eq!(printed(r#"{"b": {"x": []}, "a": "y"}"#), "{'b': {'x': []}, 'a': 'y'}");
        assert_eq!(printed("1180591620717411303424"), "1180591620717411303424");
        assert_eq!(str_of(&Value::UNDEFINED).unwrap(), "");
        assert_eq!(str_of(&Value::from(Tuple::from([Value::from(1)]))).unwrap(), "(1,)");
    }

    #[test]
    fn strings_in_containers_are_quoted_as_in_python() {
        let text = r#"["it's", "\"", "it's \"", "a\\b\n\u0007\u007f", "\u00e9\u0301\u200b\u00a0\ud83d\ude42\ue000", "\udb80\udc00"]"#;
        let expected = r#"["it's", '"', 'it\'s "', 'a\\b\n\x07\x7f', 'é́\u200b\xa0🙂\ue000', '\U000f0000']"#;
        assert_eq!(printed(text), expected);
    }
}
