//! A pickle that holds one string, and nothing else: LiveCodeBench's private tests are such a one. Any other pickle is a program, and
//! refused.

/// Why a pickle is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAPickledString {
    /// An instruction that a pickled string does not need.
    #[error("the pickle has the opcode {opcode:#04x} at byte {at}, which is refused")]
    Opcode {
        /// The instruction.
        opcode: u8,
        /// Where.
        at: usize,
    },
    /// It ends in the middle, goes on after its end, or holds no string or two.
    #[error("the pickle is not one string: {0}")]
    Shape(&'static str),
}

/// Reads the string of a pickle.
///
/// # Errors
///
/// Refuses whatever is not one string.
pub fn pickled_string(bytes: &[u8]) -> Result<&str, NotAPickledString> {
    let mut at = 0;
    let mut found = None;
    loop {
        let opcode = *bytes.get(at).ok_or(NotAPickledString::Shape("it ends in the middle"))?;
        let start = at;
        at += 1;
        let length = match opcode {
            // PROTO, and the two forms of PUT, whose argument is of no interest; FRAME; MEMOIZE.
            0x80 | b'q' => skip(bytes, &mut at, 1)?,
            b'r' => skip(bytes, &mut at, 4)?,
            0x95 => skip(bytes, &mut at, 8)?,
            0x94 => continue,
            // SHORT_BINUNICODE, BINUNICODE, BINUNICODE8.
            0x8c => Some(number(bytes, &mut at, 1)?),
            b'X' => Some(number(bytes, &mut at, 4)?),
            0x8d => Some(number(bytes, &mut at, 8)?),
            b'.' if at == bytes.len() => return found.ok_or(NotAPickledString::Shape("it holds none")),
            b'.' => return Err(NotAPickledString::Shape("it goes on after its end")),
            _ => return Err(NotAPickledString::Opcode { opcode, at: start }),
        };
        let Some(length) = length else { continue };
        let text = bytes[at..].get(..length).ok_or(NotAPickledString::Shape("it ends in the middle"))?;
        at += length;
        let text = std::str::from_utf8(text).map_err(|_| NotAPickledString::Shape("it is not UTF-8"))?;
        if found.replace(text).is_some() {
            return Err(NotAPickledString::Shape("it holds several"));
        }
    }
}

fn skip(bytes: &[u8], at: &mut usize, width: usize) -> Result<Option<usize>, NotAPickledString> {
    number(bytes, at, width).map(|_| None)
}

/// A number of so many bytes, the least first.
fn number(bytes: &[u8], at: &mut usize, width: usize) -> Result<usize, NotAPickledString> {
    let digits = bytes[*at..].get(..width).ok_or(NotAPickledString::Shape("it ends in the middle"))?;
    *at += width;
    let value = digits.iter().rev().fold(0_u64, |value, digit| value << 8 | u64::from(*digit));
    // Longer than any memory: the read that follows finds no such bytes.
    Ok(usize::try_from(value).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_every_protocol_are_read() {
        for pickle in [
            &b"\x80\x04\x95\x06\0\0\0\0\0\0\0\x8c\x02hi\x94."[..],
            b"\x80\x03X\x02\0\0\0hiq\0.",
            b"\x80\x02X\x02\0\0\0hir\0\0\0\0.",
            b"\x80\x04\x8d\x02\0\0\0\0\0\0\0hi\x94.",
        ] {
            assert_eq!(pickled_string(pickle), Ok("hi"));
        }
    }

    #[test]
    fn every_opcode_that_a_string_does_not_need_is_refused() {
        let known = [0x80, b'q', b'r', 0x95, 0x94, 0x8c, b'X', 0x8d, b'.'];
        for opcode in (0..=u8::MAX).filter(|opcode| !known.contains(opcode)) {
            let pickle = [b"\x80\x04\x8c\x02hi\x94", &[opcode][..], b"."].concat();
            assert_eq!(pickled_string(&pickle), Err(NotAPickledString::Opcode { opcode, at: 7 }));
        }
    }

    #[test]
    fn a_pickle_that_calls_something_is_refused() {
        // pickle.dumps of an object whose __reduce__ is (os.system, ("true",))
        let pickle =
            b"\x80\x04\x95\x1d\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x94\x85\x94R\x94.";
        assert!(pickled_string(pickle).is_err());
        assert!(pickled_string(b"cposix\nsystem\n(S'true'\ntR.").is_err());
    }

    #[test]
    fn cut_forged_and_endless_lengths_are_refused() {
        for pickle in [
            &b""[..],
            b"\x80",
            b"\x8c\x05hi.",
            b"X\xff\xff\xff\xffhi.",
            b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffhi.",
            b".",
            b"\x8c\x02hi",
            b"\x8c\x01\xff.",
            b"\x8c\x01a\x8c\x01b.",
            b"\x8c\x01a..",
            b"\x95\x01",
        ] {
            assert!(matches!(pickled_string(pickle), Err(NotAPickledString::Shape(_))), "{pickle:?}");
        }
    }
}
