//! What a process said last, for the message about its end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Longest line that is logged, in bytes.
const MAX_LOGGED: usize = 4096;
/// Lines that are kept by default.
const DEFAULT_LINES: usize = 8;

/// The last lines of an output. Clones keep their lines together.
#[derive(Debug, Clone)]
pub struct LastLines {
    lines: Arc<Mutex<VecDeque<String>>>,
    most: usize,
}

impl Default for LastLines {
    fn default() -> Self {
        Self::up_to(DEFAULT_LINES)
    }
}

impl LastLines {
    /// Keeps at most this number of lines.
    pub fn up_to(most: usize) -> Self {
        Self { lines: Arc::default(), most }
    }

    /// Logs lines under a name and keeps the last ones, until there are no more.
    pub async fn follow(self, output: impl AsyncRead + Unpin, name: String) {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            let bytes = match reader.fill_buf().await {
                Ok(bytes) if !bytes.is_empty() => bytes,
                _ => break,
            };
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(bytes.len(), |end| end + 1);
            let room = MAX_LOGGED.saturating_sub(line.len());
            line.extend_from_slice(&bytes[..end.unwrap_or(used).min(room)]);
            reader.consume(used);
            if end.is_some() {
                self.keep(&line, &name);
                line.clear();
            }
        }
        if !line.is_empty() {
            self.keep(&line, &name);
        }
    }

    fn keep(&self, line: &[u8], name: &str) {
        let text = String::from_utf8_lossy(line);
        let text = evenkeel_errors::shown::one_line(text.trim_end(), MAX_LOGGED).into_owned();
        tracing::info!("{name}: {text}");
        let mut lines = self.lock();
        if lines.len() == self.most {
            lines.pop_front();
        }
        lines.push_back(text);
    }

    /// A statement about a process, followed by what it said last.
    pub fn behind(&self, what: &str) -> String {
        let lines = self.lock();
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        if lines.is_empty() { what.to_owned() } else { format!("{what}: {}", lines.join(" | ")) }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_lines_are_kept_and_long_ones_are_cut() {
        let lines = LastLines::default();
        let said = format!("{}\n{}\nlast\n", "first\n".repeat(20), "x".repeat(100_000));
        lines.clone().follow(said.as_bytes(), "test".to_owned()).await;
        let said = lines.behind("it ended");
        assert!(said.starts_with("it ended: first | ") && said.ends_with("x | last"), "{said}");
        assert!(said.len() < 2 * MAX_LOGGED);
    }

    #[tokio::test]
    async fn a_last_line_without_an_end_counts() {
        let lines = LastLines::up_to(2);
        lines.clone().follow(&b"a\nb \r\nlast"[..], "test".to_owned()).await;
        assert_eq!(lines.behind("it ended"), "it ended: b | last");
        assert_eq!(LastLines::default().behind("it ended"), "it ended");
    }
}
