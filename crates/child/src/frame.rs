//! Frames between a run and a process of its own: each has the id of its request and a checksum, so that what anybody
//! else writes to the pipe is no answer, and no answer is that to another request.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const MAGIC: [u8; 4] = *b"EvKl";
/// Magic, id, length and checksum.
const HEADER_BYTES: usize = 28;
/// Longest frame, in bytes: as many observations as a turn may have calls, each of a mebibyte, escaped.
const MAX_BYTES: usize = 128 << 20;

/// Belongs to a request and to the answer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameId([u8; 16]);

/// A request or an answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    pub id: FrameId,
    pub json: Vec<u8>,
}

impl FrameId {
    /// What a process says first has this id.
    pub(crate) const HELLO: Self = Self([0; 16]);

    /// An id that nobody has used.
    ///
    /// # Errors
    /// A system without random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(bytes))
    }
}

/// Writes a frame.
///
/// # Errors
/// A closed pipe.
pub async fn write_frame(sink: &mut (impl AsyncWrite + Unpin), id: FrameId, json: &[u8]) -> io::Result<()> {
    let length = u32::try_from(json.len()).ok().filter(|length| *length as usize <= MAX_BYTES);
    let length = length.ok_or_else(|| invalid(&format!("a frame of {} bytes", json.len())))?;
    let mut frame = Vec::with_capacity(HEADER_BYTES + json.len());
    frame.extend(MAGIC);
    frame.extend(id.0);
    frame.extend(length.to_le_bytes());
    frame.extend(checksum(id, json).to_le_bytes());
    frame.extend(json);
    sink.write_all(&frame).await?;
    sink.flush().await
}

/// Reads a frame.
///
/// # Errors
/// The end; [`io::ErrorKind::InvalidData`] for anything that is no frame.
pub async fn read_frame(source: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let mut magic = [0; 4];
    let mut id = [0; 16];
    source.read_exact(&mut magic).await?;
    source.read_exact(&mut id).await?;
    let length = source.read_u32_le().await? as usize;
    let sum = source.read_u32_le().await?;
    if magic != MAGIC || length > MAX_BYTES {
        return Err(invalid("bytes that are no answer: something else writes to its pipe"));
    }
    let id = FrameId(id);
    let mut json = vec![0; length];
    source.read_exact(&mut json).await?;
    if checksum(id, &json) != sum {
        return Err(invalid("an answer that is damaged: something else writes to its pipe"));
    }
    Ok(Frame { id, json })
}

fn checksum(id: FrameId, json: &[u8]) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(&id.0);
    hash.update(json);
    hash.finalize()
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn written(json: &[u8]) -> (FrameId, Vec<u8>) {
        let id = FrameId::random().unwrap();
        let mut bytes = Vec::new();
        write_frame(&mut bytes, id, json).await.unwrap();
        (id, bytes)
    }

    #[tokio::test]
    async fn frames_are_read_as_they_were_written() {
        let (id, bytes) = written(b"{\"a\": 1}").await;
        assert_eq!(read_frame(&mut &bytes[..]).await.unwrap(), Frame { id, json: b"{\"a\": 1}".to_vec() });
        let error = read_frame(&mut &bytes[..bytes.len() - 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn no_changed_byte_and_no_line_before_it_is_taken_for_an_answer() {
        let (id, bytes) = written(b"[0.5, 1]").await;
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let read = read_frame(&mut &changed[..]).await;
            assert!(read.is_err(), "byte {at}: {read:?}");
        }
        for printed in ["x", "a line that a file prints\n"] {
            let mixed = [printed.as_bytes(), &bytes].concat();
            assert!(read_frame(&mut &mixed[..]).await.is_err(), "{printed:?}");
        }
        assert_ne!(id, FrameId::random().unwrap());
    }
}
