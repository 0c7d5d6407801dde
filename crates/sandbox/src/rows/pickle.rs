//! Streaming reader of pickles that contain a single string, as LiveCodeBench's private tests do. Any other pickle is a
//! program and is refused.

use std::io::{self, Read};

/// Why a pickle is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAPickledString {
    /// An opcode that a pickled string does not need.
    #[error("the pickle has the opcode {opcode:#04x} at byte {at}, which is refused")]
    Opcode {
        /// Opcode in the pickle's bytes.
        opcode: u8,
        /// Offset of the opcode in bytes.
        at: u64,
    },
    /// The pickle is truncated, continues after its end, or does not contain exactly one string.
    #[error("the pickle is not one string: {0}")]
    Shape(&'static str),
}

impl From<NotAPickledString> for io::Error {
    fn from(error: NotAPickledString) -> Self {
        Self::new(io::ErrorKind::InvalidData, error)
    }
}

const TRUNCATED: NotAPickledString = NotAPickledString::Shape("it is truncated");

/// Reads the bytes of a pickled string. What follows the string is checked when its end is reached.
pub struct PickledString<R> {
    pickle: R,
    at: u64,
    /// Bytes of the string that are still to be read.
    left: u64,
    ended: bool,
}

impl<R: Read> PickledString<R> {
    /// Reads up to the start of the string.
    ///
    /// # Errors
    ///
    /// A pickle of anything else, and errors of the reader.
    pub fn open(pickle: R) -> io::Result<Self> {
        let mut string = Self { pickle, at: 0, left: 0, ended: false };
        string.left = string.next_string()?.ok_or(NotAPickledString::Shape("it contains none"))?;
        Ok(string)
    }

    /// The length of the next string. `None` at the end of the pickle.
    fn next_string(&mut self) -> io::Result<Option<u64>> {
        loop {
            let start = self.at;
            let [opcode] = self.bytes()?;
            match opcode {
                // PROTO, both forms of PUT (whose argument does not matter), FRAME, MEMOIZE.
                0x80 | b'q' => drop(self.bytes::<1>()?),
                b'r' => drop(self.bytes::<4>()?),
                0x95 => drop(self.bytes::<8>()?),
                0x94 => {}
                // SHORT_BINUNICODE, BINUNICODE, BINUNICODE8.
                0x8c => return Ok(Some(u8::from_le_bytes(self.bytes()?).into())),
                b'X' => return Ok(Some(u32::from_le_bytes(self.bytes()?).into())),
                0x8d => return Ok(Some(u64::from_le_bytes(self.bytes()?))),
                b'.' => {
                    let more = self.pickle.read(&mut [0])?;
                    return if more == 0 {
                        Ok(None)
                    } else {
                        Err(NotAPickledString::Shape("it continues after its end").into())
                    };
                }
                _ => return Err(NotAPickledString::Opcode { opcode, at: start }.into()),
            }
        }
    }

    fn bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.pickle.read_exact(&mut bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => TRUNCATED.into(),
            _ => error,
        })?;
        self.at += N as u64;
        Ok(bytes)
    }
}

impl<R: Read> Read for PickledString<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            if self.next_string()?.is_some() {
                return Err(NotAPickledString::Shape("it contains several").into());
            }
            self.ended = true;
            return Ok(0);
        }
        let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.pickle.read(&mut buffer[..length])?;
        if read == 0 {
            return Err(TRUNCATED.into());
        }
        self.at += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(pickle: &[u8]) -> Result<String, NotAPickledString> {
        let mut text = String::new();
        let read = PickledString::open(pickle).and_then(|mut string| string.read_to_string(&mut text));
        match read {
            Ok(_) => Ok(text),
            Err(error) => Err(error.into_inner().unwrap().downcast_ref::<NotAPickledString>().unwrap().clone()),
        }
    }

    #[test]
    fn strings_of_every_protocol_are_read() {
        for pickle in [
            &b"\x80\x04\x95\x06\0\0\0\0\0\0\0\x8c\x02hi\x94."[..],
            b"\x80\x03X\x02\0\0\0hiq\0.",
            b"\x80\x02X\x02\0\0\0hir\0\0\0\0.",
            b"\x80\x04\x8d\x02\0\0\0\0\0\0\0hi\x94.",
        ] {
            assert_eq!(string(pickle).as_deref(), Ok("hi"));
        }
    }

    #[test]
    fn every_opcode_that_a_string_does_not_need_is_refused() {
        let known = [0x80, b'q', b'r', 0x95, 0x94, 0x8c, b'X', 0x8d, b'.'];
        for opcode in (0..=u8::MAX).filter(|opcode| !known.contains(opcode)) {
            let pickle = [b"\x80\x04\x8c\x02hi\x94", &[opcode][..], b"."].concat();
            assert_eq!(string(&pickle), Err(NotAPickledString::Opcode { opcode, at: 7 }));
        }
    }

    #[test]
    fn a_pickle_that_calls_something_is_refused() {
        // pickle.dumps of an object whose __reduce__ is (os.system, ("true",))
        let pickle =
            b"\x80\x04\x95\x1d\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94.";
        assert!(string(pickle).is_err());
        assert!(string(b"cposix\nsystem\n(S'true'\ntR.").is_err());
    }

    #[test]
    fn truncated_and_forged_pickles_are_refused() {
        for pickle in [
            &b""[..],
            b"\x80",
            b"\x8c\x05hi.",
            b"X\xff\xff\xff\xffhi.",
            b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffhi.",
            b".",
            b"\x8c\x02hi",
            b"\x8c\x01a\x8c\x01b.",
            b"\x8c\x01a..",
            b"\x95\x01",
        ] {
            assert!(matches!(string(pickle), Err(NotAPickledString::Shape(_))), "{pickle:?}");
        }
    }
}
