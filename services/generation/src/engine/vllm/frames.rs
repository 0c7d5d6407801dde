//! Server-sent events as engines write them: the `data` of each, however the bytes are split.

/// Splits a stream into its events.
#[derive(Debug, Default)]
pub(super) struct Frames {
    buffer: Vec<u8>,
    /// End of the bytes that were returned.
    consumed: usize,
    /// End of the bytes that were searched for an end of line.
    searched: usize,
}

impl Frames {
    /// Adds received bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.consumed > 0 {
            self.buffer.drain(..self.consumed);
            self.searched -= self.consumed;
            self.consumed = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The data of the next complete line that has any. Engines write an event's data in one line.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        loop {
            let Some(length) = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n') else {
                self.searched = self.buffer.len();
                return None;
            };
            let from = self.consumed;
            let to = self.searched + length;
            self.consumed = to + 1;
            self.searched = self.consumed;
            let line = self.buffer[from..to].trim_ascii_end();
            let Some(data) = line.strip_prefix(b"data:") else { continue };
            let start = from + line.len() - data.trim_ascii_start().len();
            let end = from + line.len();
            if start < end {
                return Some(&self.buffer[start..end]);
            }
        }
    }

    /// Bytes of an incomplete line.
    pub(super) fn pending(&self) -> usize {
        self.buffer.len() - self.consumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b": comment\n\ndata: {\"a\":1}\n\ndata:{\"b\":2}\r\n\r\nevent: x\ndata: [DONE]\n\ndata: half";

    fn frames(pieces: &[&[u8]]) -> (Vec<String>, usize) {
        let mut frames = Frames::default();
        let mut found = Vec::new();
        for piece in pieces {
            frames.push(piece);
            while let Some(data) = frames.next() {
                found.push(String::from_utf8(data.to_vec()).unwrap());
            }
        }
        (found, frames.pending())
    }

    #[test]
    fn frames_do_not_depend_on_how_the_bytes_are_split() {
        let expected = (vec!["{\"a\":1}".to_owned(), "{\"b\":2}".to_owned(), "[DONE]".to_owned()], b"data: half".len());
        assert_eq!(frames(&[STREAM]), expected);
        for cut in 0..STREAM.len() {
            assert_eq!(frames(&[&STREAM[..cut], &STREAM[cut..]]), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(frames(&single), expected);
    }
}
