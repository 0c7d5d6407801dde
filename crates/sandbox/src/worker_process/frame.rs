//! Messages between a pool thread and its worker process: a kind and length-prefixed parts.

use std::io::{self, Read, Write};

/// Largest part in bytes: above any limit on what a program reads and writes.
const MAX_PART_BYTES: u64 = 1 << 32;
/// Most parts in a message.
const MAX_PARTS: u32 = 8;

/// Messages up to this many bytes are written with one system call.
const SHORT_BYTES: usize = 64 << 10;

/// A message of a kind, with parts of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub kind: u32,
    pub parts: Vec<Vec<u8>>,
}

impl Frame {
    /// Writes a message: a short one at once, so that the reader wakes up once; a long one without copying its parts.
    pub(super) fn write(to: &mut impl Write, kind: u32, parts: &[&[u8]]) -> io::Result<()> {
        let mut head = Vec::with_capacity(8 + 8 * parts.len());
        head.extend_from_slice(&kind.to_le_bytes());
        head.extend_from_slice(&u32::try_from(parts.len()).unwrap_or(u32::MAX).to_le_bytes());
        for part in parts {
            head.extend_from_slice(&(part.len() as u64).to_le_bytes());
        }
        if parts.iter().map(|part| part.len()).sum::<usize>() <= SHORT_BYTES {
            for part in parts {
                head.extend_from_slice(part);
            }
            to.write_all(&head)?;
        } else {
            to.write_all(&head)?;
            for part in parts {
                to.write_all(part)?;
            }
        }
        to.flush()
    }

    /// The next message; `None` at the end of the stream.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; 8];
        match from.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let kind = word(&head[..4]);
        let count = word(&head[4..]);
        if count > MAX_PARTS {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {count} parts")));
        }
        let mut lengths = vec![0; 8 * count as usize];
        from.read_exact(&mut lengths)?;
        let mut parts = Vec::with_capacity(count as usize);
        for length in lengths.chunks_exact(8) {
            let length = numbers(length).next().unwrap_or(0);
            if length > MAX_PART_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a part of {length} bytes")));
            }
            let mut part = Vec::new();
            if from.take(length).read_to_end(&mut part)? as u64 != length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            parts.push(part);
        }
        Ok(Some(Self { kind, parts }))
    }

    /// Takes a part; empty if absent.
    pub(super) fn part(&mut self, index: usize) -> Vec<u8> {
        self.parts.get_mut(index).map(std::mem::take).unwrap_or_default()
    }
}

/// Encodes numbers into a part.
pub(super) fn pack(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Decodes the numbers of a part.
pub(super) fn numbers(part: &[u8]) -> impl Iterator<Item = u64> {
    part.chunks_exact(8).map(|bytes| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_a_round_trip() {
        let mut bytes = Vec::new();
        Frame::write(&mut bytes, 3, &[b"abc", b"", &pack(&[7, u64::MAX])]).unwrap();
        Frame::write(&mut bytes, 4, &[]).unwrap();
        let mut from = bytes.as_slice();
        let mut first = Frame::read(&mut from).unwrap().unwrap();
        assert_eq!((first.kind, first.part(0), first.part(1)), (3, b"abc".to_vec(), Vec::new()));
        assert_eq!(numbers(&first.part(2)).collect::<Vec<_>>(), [7, u64::MAX]);
        assert_eq!(first.part(9), Vec::<u8>::new());
        assert_eq!(Frame::read(&mut from).unwrap(), Some(Frame { kind: 4, parts: Vec::new() }));
        assert_eq!(Frame::read(&mut from).unwrap(), None);
    }

    #[test]
    fn truncated_and_forged_messages_are_errors() {
        let mut bytes = Vec::new();
        Frame::write(&mut bytes, 3, &[b"abc"]).unwrap();
        assert!(Frame::read(&mut &bytes[..bytes.len() - 1]).is_err());
        assert!(Frame::read(&mut &[1, 0, 0, 0, 9, 0, 0, 0][..]).is_err());
        let endless = [&[1, 0, 0, 0, 1, 0, 0, 0][..], &[0xff; 8]].concat();
        assert!(Frame::read(&mut endless.as_slice()).is_err());
    }
}
