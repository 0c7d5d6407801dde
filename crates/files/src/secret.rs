//! Tokens and keys.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use subtle::ConstantTimeEq;

use crate::{ReadError, read};

/// Longest file with a secret, in bytes.
const MAX_BYTES: u64 = 4096;

/// A token or key from a file. Its debug output hides it.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Reads the only line of a file of at most 4096 bytes: visible ASCII characters, with or without a line end.
    ///
    /// # Errors
    /// A file that cannot be read or has other content.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let bytes = read(path, MAX_BYTES)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| ReadError::NotOneLine)?;
        let line = text.trim_end_matches(['\r', '\n']);
        match line.is_empty() || !line.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Err(ReadError::NotOneLine),
            false => Ok(Self(line.into())),
        }
    }

    /// The secret itself, for sending.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the value of an `authorization` header is this secret as a bearer token (RFC 6750). Takes the same time for all tokens
    /// of the same length.
    pub fn is_bearer(&self, authorization: &[u8]) -> bool {
        let Some((scheme, token)) = authorization.split_at_checked(b"Bearer ".len()) else { return false };
        scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(token.ct_eq(self.0.as_bytes()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Result<Secret, ReadError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Secret::read(file.path())
    }

    #[test]
    fn a_file_holds_one_secret() {
        assert_eq!(secret("abc").unwrap().expose(), "abc");
        assert_eq!(secret("abc\r\n").unwrap().expose(), "abc");
        for text in ["", "\n", "two words", "two\nlines", "schl\u{fc}ssel"] {
            assert!(matches!(secret(text), Err(ReadError::NotOneLine)), "{text:?}");
        }
        assert!(secret(&"x".repeat(4097)).is_err());
        assert!(Secret::read(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn only_the_whole_secret_is_the_bearer_token() {
        let secret = secret("secret\n").unwrap();
        assert!(secret.is_bearer(b"Bearer secret"));
        assert!(secret.is_bearer(b"bearer secret"));
        for header in
            ["", "secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret", "Bearer  secret"]
        {
            assert!(!secret.is_bearer(header.as_bytes()), "{header:?}");
        }
    }

    #[test]
    fn debug_output_hides_the_secret() {
        assert!(!format!("{:?}", secret("hunter2").unwrap()).contains("hunter2"));
    }
}
