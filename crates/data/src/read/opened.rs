//! The text of a file of lines: plain, or compressed with gzip or zstd, in UTF-8 with or without a byte order mark.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};

/// Memory that a zstd file may ask for, as a power of two: what the tool's `--ultra` needs, without `--long`.
const MAX_ZSTD_WINDOW: u32 = 27;

/// Text of any of these.
pub(super) type Text = Box<dyn BufRead>;

/// Why a file is no text that is read here.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("seems to be UTF-16, allowed: UTF-8 (iconv -f UTF-16 -t UTF-8 FILE)")]
    Utf16,
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Opens the text of a file. A compressed file gives at most `max_bytes` and one more byte, however small it is.
///
/// # Errors
/// A file that cannot be read, or in another encoding.
pub(super) fn text_of(mut file: File, max_bytes: u64) -> Result<Text, OpenError> {
    let mut first = [0; 4];
    let read = read_up_to(&mut file, &mut first)?;
    file.rewind()?;
    let most = max_bytes.saturating_add(1);
    let mut text: Text = match &first[..read] {
        [0x1f, 0x8b, ..] => {
            Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(BufReader::new(file)).take(most)))
        }
        [0x28, 0xb5, 0x2f, 0xfd] => {
            let mut decoder = zstd::stream::read::Decoder::new(file)?;
            decoder.window_log_max(MAX_ZSTD_WINDOW)?;
            Box::new(BufReader::new(decoder.take(most)))
        }
        // One more than may be: a file that grows while it is read is noticed.
        _ => Box::new(BufReader::new(file.take(most))),
    };
    let begin = text.fill_buf()?;
    match begin {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => return Err(OpenError::Utf16),
        [0xef, 0xbb, 0xbf, ..] => text.consume(3),
        _ => {}
    }
    Ok(text)
}

/// The bytes of a text, one after the other, and how many there were.
pub(super) struct Bytes<R> {
    text: R,
    read: u64,
}

impl<R: BufRead> Bytes<R> {
    pub(super) fn of(text: R) -> Self {
        Self { text, read: 0 }
    }

    /// The next byte; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<u8>> {
        let next = loop {
            match self.text.fill_buf() {
                Ok(bytes) => break bytes.first().copied(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        if next.is_some() {
            self.text.consume(1);
            self.read += 1;
        }
        Ok(next)
    }

    /// The bytes that come next, as many as are there.
    pub(super) fn peek(&mut self) -> io::Result<&[u8]> {
        self.text.fill_buf()
    }

    /// Bytes that were read.
    pub(super) fn read(&self) -> u64 {
        self.read
    }
}

/// The first byte of a text that is no white space, within what is read of a file at first. The file is at its
/// beginning afterwards.
///
/// # Errors
/// As [`text_of`].
pub(super) fn first_mark(file: &File) -> Result<Option<u8>, OpenError> {
    let mut text = text_of(file.try_clone()?, u64::MAX)?;
    let first = text.fill_buf()?.iter().copied().find(|byte| !byte.is_ascii_whitespace());
    drop(text);
    let mut file = file;
    file.rewind()?;
    Ok(first)
}

/// What a text seems to be whose first line is not JSON; `None` if that is unknown.
pub(super) fn seems(first_line: &str) -> Option<&'static str> {
    let line = first_line.trim();
    let inner = first_line.trim_end_matches('\r');
    match line.chars().next()? {
        _ if inner.contains('\r') => Some("text whose lines end in CR alone, allowed: LF or CR LF"),
        '{' if line == "{" => Some("JSON on several lines, allowed: one JSON object on each line (jq -c . FILE)"),
        '{' if line.ends_with("},") => Some("lines of a JSON array, allowed: JSON objects without commas between them"),
        '{' => None,
        _ if line.contains(',') || line.contains('\t') => {
            Some("CSV, allowed: a name that ends in .csv or .tsv for CSV; one JSON object on each line; parquet")
        }
        _ => None,
    }
}

/// Fills the buffer as far as the file goes.
fn read_up_to(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}
