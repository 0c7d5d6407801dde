//! `tojson` as transformers defines it: Python's `json.dumps`, without the HTML escapes of Jinja's own filter.

use std::fmt::Write;

use minijinja::Error;
use minijinja::value::{Value, ValueKind};

use super::call::{Call, type_name};
use super::exception::exception;
use super::limits::{MAX_WRITTEN_DEPTH, check_length, items, too_deep};
use super::{number, text};

/// Most spaces for one level: more are cut off, and no template has a use for them.
const MAX_INDENT: usize = 1024;

/// How it is laid out.
struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    item: String,
    key: String,
    sort_keys: bool,
}

/// `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn tojson(args: &[Value]) -> Result<Value, Error> {
    let mut call = Call::new("tojson", args);
    let value = call.required("x")?;
    let ensure_ascii = call.optional("ensure_ascii").is_some_and(|value| value.is_true());
    let indent = call.optional("indent").map(|value| indent(&value)).transpose()?.flatten();
    let separators = call.optional("separators").filter(|value| !value.is_none());
    let sort_keys = call.optional("sort_keys").is_some_and(|value| value.is_true());
    call.finish()?;
    let (item, key) = match separators {
        Some(pair) => separators_of(&pair)?,
        None if indent.is_some() => (",".into(), ": ".into()),
        None => (", ".into(), ": ".into()),
    };
    let style = Style { ensure_ascii, indent, item, key, sort_keys };
    let mut out = String::new();
    style.write(&mut out, &value, 0)?;
    check_length(out.len())?;
    Ok(Value::from(out))
}

/// The text of one level: this many spaces, or the text itself.
fn indent(value: &Value) -> Result<Option<String>, Error> {
    if value.is_none() {
        return Ok(None);
    }
    match value.as_str() {
        Some(text) => Ok(Some(text.to_owned())),
        None => i64::try_from(value.clone())
            .map(|spaces| Some(" ".repeat(usize::try_from(spaces).unwrap_or_default().min(MAX_INDENT))))
            .map_err(|_| exception("indent must be an integer or a string")),
    }
}

fn separators_of(pair: &Value) -> Result<(String, String), Error> {
    let texts: Vec<_> = pair.try_iter()?.filter_map(|value| value.as_str().map(str::to_owned)).collect();
    match <[String; 2]>::try_from(texts) {
        Ok([item, key]) => Ok((item, key)),
        Err(_) => Err(exception("separators must be a pair of strings")),
    }
}

impl Style {
    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > MAX_WRITTEN_DEPTH {
            return Err(too_deep());
        }
        check_length(out.len())?;
        if value.is_undefined() {
            return Err(exception("Object of type Undefined is not JSON serializable"));
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number_text(value)?),
            ValueKind::String => self.write_string(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = items(value)?;
                self.write_items(out, ['[', ']'], depth, items, |out, item| self.write(out, &item, depth + 1))?;
            }
            ValueKind::Map => {
                let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
                let mut pairs: Vec<_> = pairs.into_iter().flatten().collect();
                if self.sort_keys {
                    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
                }
                self.write_items(out, ['{', '}'], depth, pairs, |out, (key, value)| {
                    self.write_key(out, &key)?;
                    out.push_str(&self.key);
                    self.write(out, &value, depth + 1)
                })?;
            }
            _ => return Err(exception(format!("Object of type {} is not JSON serializable", type_name(value)))),
        }
        Ok(())
    }

    fn write_items<T>(
        &self,
        out: &mut String,
        [open, close]: [char; 2],
        depth: usize,
        items: Vec<T>,
        mut write: impl FnMut(&mut String, T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let is_empty = items.is_empty();
        out.push(open);
        for (index, item) in items.into_iter().enumerate() {
            out.push_str(if index == 0 { "" } else { &self.item });
            self.break_line(out, depth + 1);
            check_length(out.len())?;
            write(out, item)?;
        }
        if !is_empty {
            self.break_line(out, depth);
        }
        out.push(close);
        Ok(())
    }

    fn break_line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str(indent));
        }
    }

    fn write_key(&self, out: &mut String, key: &Value) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => self.write_string(out, key.as_str().unwrap_or_default()),
            ValueKind::None => out.push_str("\"null\""),
            ValueKind::Bool => out.push_str(if key.is_true() { "\"true\"" } else { "\"false\"" }),
            ValueKind::Number => {
                out.push('"');
                out.push_str(&number_text(key)?);
                out.push('"');
            }
            _ => {
                let message = format!("keys must be str, int, float, bool or None, not {}", type_name(key));
                return Err(exception(message));
            }
        }
        Ok(())
    }

    fn write_string(&self, out: &mut String, text: &str) {
        out.push('"');
        for character in text.chars() {
            match character {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                '\0'..='\u{1f}' => push_escape(out, character),
                '\u{7f}'.. if self.ensure_ascii => push_escape(out, character),
                _ => out.push(character),
            }
        }
        out.push('"');
    }
}

/// `\u` escapes of UTF-16.
fn push_escape(out: &mut String, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        // Writing to a string does not fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

fn number_text(value: &Value) -> Result<String, Error> {
    Ok(match f64::try_from(value.clone()) {
        Ok(float) if !value.is_integer() && !float.is_finite() => {
            if float.is_nan() {
                "NaN".into()
            } else {
                number::float(float).replace("inf", "Infinity")
            }
        }
        _ => text::str_of(value)?,
    })
}

#[cfg(test)]
mod tests {
    use minijinja::value::{Kwargs, Value};

    use super::tojson;
    use crate::value::TemplateValue;

    fn dumped(json: &str, options: &[(&str, Value)]) -> String {
        let value = TemplateValue::parse(json).unwrap().inner().clone();
        let options = Value::from(options.iter().cloned().collect::<Kwargs>());
        tojson(&[value, options]).unwrap().to_string()
    }

    #[test]
    fn json_is_what_python_dumps() {
        let text = r#"{"b": ["<a> & 'x'", "é\u0000\u007f\n\"\\"], "a": {}, "n": [1.0, 1e22, 12345678901234567890123, true, null]}"#;
        let expected = concat!(
            r#"{"b": ["<a> & 'x'", "é\u0000"#,
            "\u{7f}",
            r#"\n\"\\"], "a": {}, "n": [1.0, 1e+22, 12345678901234567890123, true, null]}"#
        );
        assert_eq!(dumped(text, &[]), expected);
    }

    #[test]
    fn layout_order_and_escapes_are_options() {
        let indent = ("indent", Value::from(2));
        assert_eq!(
            dumped(r#"{"b": [1, []], "a": {}}"#, &[indent]),
            "{\n  \"b\": [\n    1,\n    []\n  ],\n  \"a\": {}\n}"
        );
        let sorted = ("sort_keys", Value::from(true));
        let compact = ("separators", Value::from(vec![",", ":"]));
        assert_eq!(dumped(r#"{"b": 1, "a": [1, 2]}"#, &[sorted, compact]), r#"{"a":[1,2],"b":1}"#);
        let ascii = ("ensure_ascii", Value::from(true));
        assert_eq!(dumped("\"é🙂\\u007f\"", &[ascii]), r#""\u00e9\ud83d\ude42\u007f""#);
    }

    #[test]
    fn what_python_cannot_dump_is_an_error() {
        let error = tojson(&[Value::UNDEFINED]).unwrap_err().to_string();
        assert!(error.contains("Object of type Undefined is not JSON serializable"), "{error}");
    }
}
