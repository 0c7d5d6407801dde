//! Lines of a process, none longer than it may be.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, BufReader};

/// Longest answer of a process, in bytes: as many observations as a turn may have calls, each of a mebibyte, escaped.
const MAX_ANSWER: usize = 128 << 20;
/// Longest line of its error output that is logged, in bytes, and how many of the last are kept.
const MAX_LOGGED: usize = 4096;
const LAST_LINES: usize = 8;

/// The next line.
///
/// # Errors
/// The end, or a line that is too long.
pub(crate) async fn answer(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let bytes = reader.fill_buf().await?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(bytes.len(), |end| end + 1);
        line.extend_from_slice(&bytes[..used]);
        reader.consume(used);
        if end.is_some() {
            return Ok(line);
        }
        if line.len() > MAX_ANSWER {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("an answer of more than {MAX_ANSWER} bytes"),
            ));
        }
    }
}

/// The last lines of a process's error output.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastLines(Arc<Mutex<VecDeque<String>>>);

impl LastLines {
    /// Passes lines on to the log until there are no more.
    pub(crate) async fn follow(self, output: impl AsyncRead + Unpin, name: String) {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            let bytes = match reader.fill_buf().await {
                Ok(bytes) if !bytes.is_empty() => bytes,
                _ => return,
            };
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(bytes.len(), |end| end + 1);
            let room = MAX_LOGGED.saturating_sub(line.len());
            line.extend_from_slice(&bytes[..end.unwrap_or(used).min(room)]);
            reader.consume(used);
            if end.is_some() {
                let text = String::from_utf8_lossy(&line).into_owned();
                let text = evenkeel_proto::shown::one_line(&text, MAX_LOGGED);
                tracing::info!("{name}: {text}");
                self.keep(text.into_owned());
                line.clear();
            }
        }
    }

    fn keep(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Behind what is said of a process: what it said last.
    pub(crate) fn behind(&self, what: &str) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        if lines.is_empty() { what.to_owned() } else { format!("{what}: {}", lines.join(" | ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_are_lines_and_an_end_is_no_answer() {
        let mut reader = BufReader::with_capacity(3, &b"{\"a\": 1}\n{}\nhalf"[..]);
        assert_eq!(answer(&mut reader).await.unwrap(), b"{\"a\": 1}\n");
        assert_eq!(answer(&mut reader).await.unwrap(), b"{}\n");
        assert_eq!(answer(&mut reader).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn the_last_lines_are_kept_and_long_ones_are_cut() {
        let lines = LastLines::default();
        let said = format!("{}\n{}\nlast\n", "first\n".repeat(20), "x".repeat(100_000));
        lines.clone().follow(said.as_bytes(), "test".to_owned()).await;
        let said = lines.behind("it ended");
        assert!(said.starts_with("it ended: first | ") && said.ends_with("x | last"), "{said}");
        assert!(said.len() < 2 * MAX_LOGGED);
    }
}
