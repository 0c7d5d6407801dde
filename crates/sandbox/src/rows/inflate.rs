//! Streaming decoder of base64 over zlib with a size limit.

use std::io::{self, Read};

use base64::engine::general_purpose::{GeneralPurpose, STANDARD};
use base64::read::DecoderReader;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

/// Bytes of compressed data per read.
const CHUNK_BYTES: usize = 16 << 10;

/// A reader of the inflated data.
pub(super) struct Inflated<'a> {
    packed: DecoderReader<'a, GeneralPurpose, Dense<'a>>,
    chunk: Box<[u8]>,
    begin: usize,
    end: usize,
    state: Box<InflateState>,
    ended: bool,
    bytes: usize,
    max_bytes: usize,
    stop: &'a (dyn Fn() -> bool + Sync),
}

/// A reader of text that skips white space.
struct Dense<'a>(&'a [u8]);

impl Read for Dense<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut bytes = 0;
        while bytes < buffer.len()
            && let Some((first, rest)) = self.0.split_first()
        {
            self.0 = rest;
            if !first.is_ascii_whitespace() {
                buffer[bytes] = *first;
                bytes += 1;
            }
        }
        Ok(bytes)
    }
}

impl<'a> Inflated<'a> {
    /// Inflates `text` as it is read. Fails after `max_bytes`, and once `stop` returns true.
    pub(super) fn new(text: &'a str, max_bytes: usize, stop: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self {
            packed: DecoderReader::new(Dense(text.as_bytes()), &STANDARD),
            chunk: vec![0; CHUNK_BYTES].into(),
            begin: 0,
            end: 0,
            state: InflateState::new_boxed(DataFormat::Zlib),
            ended: false,
            bytes: 0,
            max_bytes,
            stop,
        }
    }

    /// Counts the inflated bytes without keeping them.
    pub(super) fn count(mut self) -> io::Result<usize> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(self.bytes)
    }

    fn refill(&mut self) -> io::Result<()> {
        if (self.stop)() {
            return Err(io::Error::other("cancelled"));
        }
        let read = self.packed.read(&mut self.chunk);
        (self.begin, self.end) = (0, read.map_err(|error| wrong(format!("neither a JSON array nor base64: {error}")))?);
        Ok(())
    }
}

fn wrong(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

impl Read for Inflated<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !buffer.is_empty() {
            if self.begin == self.end {
                self.refill()?;
            }
            let result = inflate(&mut self.state, &self.chunk[self.begin..self.end], buffer, MZFlush::None);
            self.begin += result.bytes_consumed;
            self.bytes += result.bytes_written;
            if self.bytes > self.max_bytes {
                return Err(wrong(format!("inflates to more than {} bytes", self.max_bytes)));
            }
            match result.status {
                Ok(MZStatus::StreamEnd) => self.ended = true,
                Ok(_) => {}
                // No progress: more input may be needed.
                Err(MZError::Buf) if self.begin == self.end && self.end > 0 => {}
                Err(error) => return Err(wrong(format!("not a zlib stream: {error:?}"))),
            }
            if result.bytes_written > 0 {
                return Ok(result.bytes_written);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    fn packed(bytes: &[u8]) -> String {
        STANDARD.encode(miniz_oxide::deflate::compress_to_vec_zlib(bytes, 6))
    }

    #[test]
    fn data_survives_a_round_trip_whatever_the_sizes_of_the_reads() {
        let bytes: Vec<u8> = (0..300_000_u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        let text = packed(&bytes);
        let spaced: String =
            text.as_bytes().chunks(76).map(|line| str::from_utf8(line).unwrap().to_owned() + "\r\n").collect();
        for text in [text, spaced] {
            assert_eq!(Inflated::new(&text, bytes.len(), &|| false).count().unwrap(), bytes.len());
            let mut found = Vec::new();
            Inflated::new(&text, bytes.len(), &|| false).read_to_end(&mut found).unwrap();
            assert!(found == bytes);
        }
    }

    #[test]
    fn a_bomb_fails_at_the_size_limit_and_a_truncated_stream_at_its_end() {
        let text = packed(&vec![0; 50 << 20]);
        let error = Inflated::new(&text, 1 << 20, &|| false).count().unwrap_err();
        assert_eq!(error.to_string(), "inflates to more than 1048576 bytes");
        let cut = &text[..text.len() / 2 / 4 * 4];
        assert!(Inflated::new(cut, 1 << 30, &|| false).count().is_err());
        assert!(Inflated::new("", 1 << 30, &|| false).count().is_err());
    }

    #[test]
    fn inflating_can_be_cancelled() {
        let text = packed(&vec![0; 50 << 20]);
        assert!(Inflated::new(&text, 1 << 30, &|| true).count().is_err());
    }
}
