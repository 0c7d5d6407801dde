//! Values in version 2 of Python's marshal format, as sent by the guest. A program can send anything, so every length
//! is checked, and parsing stops once a value has more parts than the expected one: a byte of marshalled data may take
//! many bytes of memory.

use super::int::Int;
use super::value::Value;

/// Maximum nesting depth, above that of marshal itself.
const MAX_DEPTH: usize = 2500;

/// Parses a value of at most `max_parts` parts, including itself. `None` if it is invalid or larger: it is then not
/// equal to any value.
#[must_use]
pub fn read(bytes: &[u8], max_parts: usize) -> Option<Value> {
    let mut reader = MarshalReader { bytes, left: max_parts };
    reader.value(0).flatten()
}

struct MarshalReader<'a> {
    bytes: &'a [u8],
    /// Parts that may still be read.
    left: usize,
}

impl MarshalReader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.take()?)).ok()
    }

    fn slice(&mut self) -> Option<Vec<u8>> {
        let length = self.length()?;
        let (taken, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        Some(taken.to_vec())
    }

    fn float(&mut self) -> Option<f64> {
        self.take().map(f64::from_le_bytes)
    }

    /// The next value. `Some(None)` is the marker at the end of a dictionary.
    fn value(&mut self, depth: usize) -> Option<Option<Value>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let [kind] = self.take()?;
        if kind == b'0' {
            return Some(None);
        }
        self.left = self.left.checked_sub(1)?;
        Some(Some(match kind {
            b'N' => Value::None,
            b'F' => Value::Bool(false),
            b'T' => Value::Bool(true),
            b'i' => Value::Int(Int::from(i32::from_le_bytes(self.take()?))),
            b'l' => Value::Int(self.long()?),
            b'g' => Value::Float(self.float()?),
            b'y' => {
                let real = self.float()?;
                let imaginary = self.float()?;
                // A complex number without imaginary part equals a real one.
                if imaginary == 0.0 { Value::Float(real) } else { Value::Other("complex".to_owned()) }
            }
            b'u' | b't' => Value::Text(self.slice()?),
            b's' => {
                let text = String::from_utf8_lossy(&self.slice()?).into_owned();
                Value::Other(text.strip_prefix('?').map_or("bytes", |name| name).to_owned())
            }
            b'[' => Value::List(self.parts(depth)?),
            b'(' => Value::Tuple(self.parts(depth)?),
            b'<' | b'>' => {
                self.parts(depth)?;
                Value::Other("set".to_owned())
            }
            b'{' => Value::Dict(self.entries(depth)?),
            _ => return None,
        }))
    }

    fn long(&mut self) -> Option<Int> {
        let count = i32::from_le_bytes(self.take()?);
        let length = usize::try_from(count.unsigned_abs()).ok()?;
        if length.checked_mul(2)? > self.bytes.len() {
            return None;
        }
        let digits: Option<Vec<u16>> = (0..length).map(|_| self.take().map(u16::from_le_bytes)).collect();
        Some(Int::from_marshal(count < 0, &digits?))
    }

    fn parts(&mut self, depth: usize) -> Option<Vec<Value>> {
        let length = self.length()?;
        if length > self.left {
            return None;
        }
        (0..length).map(|_| self.value(depth + 1)?).collect()
    }

    fn entries(&mut self, depth: usize) -> Option<Vec<(Value, Value)>> {
        let mut entries = Vec::new();
        while let Some(key) = self.value(depth + 1)? {
            entries.push((key, self.value(depth + 1)??));
        }
        Some(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_value_is_read() {
        // marshal.dumps([1, (2.5, "é"), {"a": None}, True], 2)
        let bytes = b"[\x04\0\0\0i\x01\0\0\0(\x02\0\0\0g\0\0\0\0\0\0\x04@u\x02\0\0\0\xc3\xa9{t\x01\0\0\0aN0T";
        assert_eq!(
            read(bytes, 9),
            Some(Value::List(vec![
                Value::Int(Int::from(1)),
                Value::Tuple(vec![Value::Float(2.5), Value::Text("é".into())]),
                Value::Dict(vec![(Value::Text("a".into()), Value::None)]),
                Value::Bool(true),
            ]))
        );
    }

    #[test]
    fn a_value_of_more_parts_than_expected_is_refused() {
        let nothings = [&b"[\x03\0\0\0"[..], b"NNN"].concat();
        let nested = b"[\x01\0\0\0[\x01\0\0\0[\x01\0\0\0N";
        for (bytes, parts) in [(&nothings[..], 4), (nested, 4), (b"{t\x01\0\0\0aN0", 3), (b"N", 1)] {
            assert!(read(bytes, parts).is_some(), "{bytes:?}");
            assert_eq!(read(bytes, parts - 1), None, "{bytes:?}");
        }
        // The length alone takes no memory.
        assert_eq!(read(b"[\xff\xff\xff\x7f", 100), None);
    }

    #[test]
    fn truncated_and_forged_values_are_refused() {
        let deep = [b"[\x01\0\0\0".repeat(100_000), b"N".to_vec()].concat();
        for bytes in
            [&b""[..], b"[", b"[\xff\xff\xff\xff", b"u\x05\0\0\0a", b"l\0\0\0\x80", b"{N", b"c\0\0\0\0", b"0", &deep]
        {
            assert_eq!(read(bytes, usize::MAX), None, "{:?}", &bytes[..bytes.len().min(20)]);
        }
    }
}
