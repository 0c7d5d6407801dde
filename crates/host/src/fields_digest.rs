//! SHA-256 digests of several texts.

use sha2::{Digest, Sha256};

use crate::digest::named;
use crate::hex;

/// SHA-256 of a sequence of texts. Each is hashed after its length (64 bits, little-endian), so that no two sequences
/// are hashed alike.
///
/// Digests made so are part of the protocol and name files: what is hashed must not change.
#[derive(Clone, Default)]
pub struct FieldsDigest(Sha256);

impl FieldsDigest {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn text(&mut self, text: &str) -> &mut Self {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
        self
    }

    /// Adds the last text, without a length: nothing follows it.
    pub fn last(&mut self, text: &str) -> &mut Self {
        self.0.update(text);
        self
    }

    /// Adds one byte, without a length: a number that is always there.
    pub fn byte(&mut self, byte: u8) -> &mut Self {
        self.0.update([byte]);
        self
    }

    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    /// The digest in the protocol's format: `sha256:` and 64 lower-case hex digits.
    pub fn finish_named(self) -> String {
        named(&self.finish_hex())
    }

    /// The digest as 64 lower-case hex digits.
    pub fn finish_hex(self) -> String {
        hex(&self.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sha256;

    #[test]
    fn texts_are_hashed_after_their_lengths() {
        let mut digest = FieldsDigest::new();
        digest.text("é").byte(7).text("").text("abc");
        let hashed = b"\x02\0\0\0\0\0\0\0\xc3\xa9\x07\0\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0abc";
        assert_eq!(digest.clone().finish_named(), sha256(hashed));
        assert_eq!(digest.last("z").clone().finish_named(), sha256([hashed, &b"z"[..]].concat()));
    }
}
