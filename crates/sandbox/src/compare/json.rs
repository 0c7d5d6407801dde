//! JSON as parsed by Python's `json.loads`: integers of any size, `NaN` and infinities, lone surrogates in strings.

use super::int::Int;
use super::value::Value;

/// Maximum nesting depth of a document.
const MAX_DEPTH: usize = 1000;

const TOO_LARGE: &str = "it exceeds the memory limit";

/// Why a text is not JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not JSON at byte {at}: {problem}")]
pub struct NotJson {
    /// Offset of the fault in the text, in bytes.
    pub at: usize,
    /// What is wrong at the offset.
    pub problem: &'static str,
}

/// Parses a document.
///
/// # Errors
///
/// Where the text stops being JSON.
pub fn read(text: &str) -> Result<Value, NotJson> {
    let mut available = usize::MAX;
    read_within(text, &mut available)
}

/// Parses a document that may take `available` bytes of memory, from which the memory of the document is subtracted.
///
/// # Errors
///
/// Where the text stops being JSON, or exceeds the memory limit.
pub fn read_within(text: &str, available: &mut usize) -> Result<Value, NotJson> {
    let mut reader = JsonReader { bytes: text.as_bytes(), text, at: 0, available: *available };
    reader.space();
    let value = reader.value(0)?;
    reader.space();
    *available = reader.available;
    if reader.at < text.len() { Err(reader.wrong("more than one document")) } else { Ok(value) }
}

impl NotJson {
    /// Whether the document exceeds the memory limit.
    pub(crate) fn is_too_large(&self) -> bool {
        self.problem == TOO_LARGE
    }
}

struct JsonReader<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    /// Bytes of memory that the rest of the document may take.
    available: usize,
}

impl JsonReader<'_> {
    fn wrong(&self, problem: &'static str) -> NotJson {
        NotJson { at: self.at, problem }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.bytes[self.at..].starts_with(word.as_bytes());
        if found {
            self.at += word.len();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<Value, NotJson> {
        if depth > MAX_DEPTH {
            return Err(self.wrong("nested too deeply"));
        }
        let start = self.at;
        let value = self.any_value(depth)?;
        // Vectors grow by doubling.
        let held = 2 * size_of::<Value>()
            + match &value {
                Value::Text(_) | Value::Int(_) => self.at - start,
                // Names are stored twice while an object is parsed.
                Value::Dict(entries) => entries.len() * 4 * size_of::<Value>(),
                _ => 0,
            };
        self.available = self.available.checked_sub(held).ok_or_else(|| self.wrong(TOO_LARGE))?;
        Ok(value)
    }

    fn any_value(&mut self, depth: usize) -> Result<Value, NotJson> {
        match self.peek() {
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b'[') => self.array(depth),
            Some(b'{') => self.object(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.take("null") => Ok(Value::None),
            _ if self.take("true") => Ok(Value::Bool(true)),
            _ if self.take("false") => Ok(Value::Bool(false)),
            _ if self.take("NaN") => Ok(Value::Float(f64::NAN)),
            _ if self.take("Infinity") => Ok(Value::Float(f64::INFINITY)),
            _ => Err(self.wrong("a value was expected")),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, NotJson> {
        let mut parts = Vec::new();
        self.at += 1;
        self.space();
        if self.take("]") {
            return Ok(Value::List(parts));
        }
        loop {
            self.space();
            parts.push(self.value(depth + 1)?);
            self.space();
            if self.take("]") {
                return Ok(Value::List(parts));
            }
            if !self.take(",") {
                return Err(self.wrong("a comma or the end of the array was expected"));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, NotJson> {
        let mut entries: Vec<(Value, Value)> = Vec::new();
        let mut indices = std::collections::HashMap::new();
        self.at += 1;
        self.space();
        if self.take("}") {
            return Ok(Value::Dict(entries));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.wrong("a name in quotation marks was expected"));
            }
            let name = self.string()?;
            self.space();
            if !self.take(":") {
                return Err(self.wrong("a colon was expected"));
            }
            self.space();
            let value = self.value(depth + 1)?;
            // The last value of a repeated name counts.
            match indices.get(&name) {
                Some(index) => {
                    let entry: &mut (Value, Value) = &mut entries[*index];
                    entry.1 = value;
                }
                None => {
                    indices.insert(name.clone(), entries.len());
                    entries.push((Value::Text(name), value));
                }
            }
            self.space();
            if self.take("}") {
                return Ok(Value::Dict(entries));
            }
            if !self.take(",") {
                return Err(self.wrong("a comma or the end of the object was expected"));
            }
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<Value, NotJson> {
        let start = self.at;
        if self.take("-Infinity") {
            return Ok(Value::Float(f64::NEG_INFINITY));
        }
        self.take("-");
        if !self.take("0") && self.digits() == 0 {
            return Err(self.wrong("a digit was expected"));
        }
        let whole = self.at;
        // A decimal point or an exponent without digits is not part of the number.
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                self.at = whole;
            }
        }
        let mantissa = self.at;
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                self.at = mantissa;
            }
        }
        let text = &self.text[start..self.at];
        if self.at == whole {
            return Int::from_decimal(text).map(Value::Int).ok_or_else(|| self.wrong("an integer of too many digits"));
        }
        text.parse().map(Value::Float).map_err(|_| self.wrong("a number was expected"))
    }

    fn string(&mut self) -> Result<Vec<u8>, NotJson> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            let start = self.at;
            while self.peek().is_some_and(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
                self.at += 1;
            }
            text.extend_from_slice(&self.bytes[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => self.escape(&mut text)?,
                Some(_) => return Err(self.wrong("a control character in a string")),
                None => return Err(self.wrong("an unterminated string")),
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), NotJson> {
        self.at += 1;
        let plain = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => return self.code_point(text),
            _ => return Err(self.wrong("an unknown escape sequence")),
        };
        self.at += 1;
        text.push(plain);
        Ok(())
    }

    fn code_point(&mut self, text: &mut Vec<u8>) -> Result<(), NotJson> {
        let mut code = self.hex()?;
        if (0xd800..0xdc00).contains(&code) && self.bytes[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 1;
            let low = self.hex()?;
            if (0xdc00..0xe000).contains(&low) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            } else {
                self.at = before;
            }
        }
        match char::from_u32(code) {
            Some(character) => text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            // A lone surrogate, encoded as UTF-8 would encode it.
            None => text.extend([0xe0 | byte(code >> 12), 0x80 | byte(code >> 6 & 63), 0x80 | byte(code & 63)]),
        }
        Ok(())
    }

    /// Four hex digits after the `u` at the current position.
    fn hex(&mut self) -> Result<u32, NotJson> {
        let digits = self.bytes.get(self.at + 1..self.at + 5).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += 5;
        code.ok_or(NotJson { at: self.at - 5, problem: "four hex digits were expected" })
    }
}

fn byte(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_python_accepts_is_accepted() {
        assert_eq!(
            read(" [1, -2.5e3, \"a\\u00e9\\n\", null, true] ").unwrap(),
            Value::List(vec![
                Value::Int(Int::from(1)),
                Value::Float(-2500.0),
                Value::Text("aé\n".into()),
                Value::None,
                Value::Bool(true),
            ])
        );
        assert_eq!(read(r#""\ud83d\ude00""#).unwrap(), Value::Text("😀".into()));
        assert_eq!(read(r#""\ud83d""#).unwrap(), Value::Text(vec![0xed, 0xa0, 0xbd]));
        assert_eq!(read("-Infinity").unwrap(), Value::Float(f64::NEG_INFINITY));
        assert_eq!(read("1e999").unwrap(), Value::Float(f64::INFINITY));
        assert_eq!(
            read(r#"{"a": 1, "a": 2}"#).unwrap(),
            Value::Dict(vec![(Value::Text("a".into()), Value::Int(Int::from(2)))])
        );
    }

    #[test]
    fn everything_that_python_refuses_is_refused() {
        for text in [
            "",
            "[1,]",
            "{1: 2}",
            "01",
            "1.",
            ".5",
            "'a'",
            "\"a\nb\"",
            "tru",
            "1 2",
            "[",
            "\"\\x\"",
            "\"\\u12\"",
            "+1",
            "- 1",
            "{\"a\" 1}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read(&"[".repeat(100_000)).is_err());
    }
}
