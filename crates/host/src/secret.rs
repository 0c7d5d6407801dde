//! Tokens and keys that are read from files.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use subtle::ConstantTimeEq;

use crate::{ReadError, hex, read};

/// Longest file with secrets, in bytes.
const MAX_BYTES: u64 = 4096;
/// Shortest secret, in characters: a shorter one can be guessed.
const MIN_LENGTH: usize = 16;
/// Random bytes of a secret that this process makes.
const RANDOM_BYTES: usize = 32;

/// A token or key. The debug output hides it.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Reads the secrets of a file of at most 4096 bytes, one on each line: 16 or more visible ASCII characters. There
    /// may be several, so that one can be replaced by another while both are accepted; the first is the one to send.
    ///
    /// # Errors
    /// A file that cannot be read or has other content. The error does not contain any of it.
    pub fn read_all(path: &Path) -> Result<Vec<Self>, ReadError> {
        let bytes = read(path, MAX_BYTES)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| ReadError::NotSecrets)?;
        let secrets: Vec<Self> = text.lines().map(Self::from_line).collect::<Result<_, _>>()?;
        if secrets.is_empty() { Err(ReadError::NotSecrets) } else { Ok(secrets) }
    }

    /// The secret in a text of one line, such as the value of an environment variable.
    ///
    /// # Errors
    /// A text that is none: empty, of several words, or shorter than 16 characters. The error does not contain it.
    pub fn parse(text: &str) -> Result<Self, ReadError> {
        Self::from_line(text.trim_end_matches(['\r', '\n']))
    }

    /// A secret that nobody has: 64 hexadecimal digits.
    ///
    /// # Panics
    /// On a system without random numbers.
    pub fn random() -> Self {
        let mut bytes = [0; RANDOM_BYTES];
        getrandom::fill(&mut bytes).expect("the system has random numbers");
        Self(hex(&bytes).into())
    }

    fn from_line(line: &str) -> Result<Self, ReadError> {
        match line.len() {
            _ if line.is_empty() || !line.bytes().all(|byte| byte.is_ascii_graphic()) => Err(ReadError::NotSecrets),
            length if length < MIN_LENGTH => Err(ReadError::ShortSecret { length, least: MIN_LENGTH }),
            _ => Ok(Self(line.into())),
        }
    }

    /// The secret itself, for sending.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether the value of an `authorization` header is this secret as a bearer token (RFC 6750). Takes the same time
    /// for all tokens of the same length.
    pub fn is_bearer(&self, authorization: &[u8]) -> bool {
        let Some((scheme, token)) = authorization.split_at_checked(b"Bearer ".len()) else { return false };
        scheme.eq_ignore_ascii_case(b"Bearer ") && self.is(token)
    }

    /// Whether the bytes equal the secret, compared in constant time for a given length.
    pub fn is(&self, given: &[u8]) -> bool {
        bool::from(given.ct_eq(self.0.as_bytes()))
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

    const LONG: &str = "0123456789abcdef";

    fn secrets(text: &str) -> Result<Vec<Secret>, ReadError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Secret::read_all(file.path())
    }

    #[test]
    fn each_line_of_a_file_is_a_secret() {
        for text in [LONG.to_owned(), format!("{LONG}\r\n")] {
            let read = secrets(&text).unwrap();
            assert_eq!(read.iter().map(Secret::expose).collect::<Vec<_>>(), [LONG]);
        }
        let read = secrets(&format!("{LONG}-old\n{LONG}-new\n")).unwrap();
        assert_eq!(read.iter().map(Secret::expose).collect::<Vec<_>>(), [format!("{LONG}-old"), format!("{LONG}-new")]);
    }

    #[test]
    fn what_is_not_a_secret_is_refused() {
        for text in ["", "\n", "two words of some length", "0123456789abcdef\n\n", "schl\u{fc}ssel-schl\u{fc}ssel"] {
            assert!(matches!(secrets(text), Err(ReadError::NotSecrets)), "{text:?}");
        }
        assert!(secrets(&"x".repeat(4097)).is_err());
        assert!(Secret::read_all(Path::new("/dev/zero")).is_err());
    }

    #[test]
    fn a_secret_that_can_be_guessed_is_refused_without_being_shown() {
        let error = secrets("hunter2-hunter2").unwrap_err().to_string();
        assert_eq!(error, "contains a token of 15 characters, allowed: 16 or more");
        assert!(secrets(&format!("{LONG}\nhunter2\n")).is_err(), "every line counts");
    }

    #[test]
    fn the_value_of_a_variable_is_a_secret_as_a_line_is() {
        assert_eq!(Secret::parse(&format!("{LONG}\n")).unwrap().expose(), LONG);
        assert!(matches!(Secret::parse(""), Err(ReadError::NotSecrets)));
        let error = Secret::parse("hunter2-hunter2").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn only_the_whole_secret_is_the_bearer_token() {
        let secret = secrets(LONG).unwrap().remove(0);
        assert!(secret.is_bearer(format!("Bearer {LONG}").as_bytes()));
        assert!(secret.is_bearer(format!("bearer {LONG}").as_bytes()));
        for header in ["", LONG, "Bearer", "Bearer ", "Bearer 0123456789abcde", "Bearer 0123456789abcdef0"] {
            assert!(!secret.is_bearer(header.as_bytes()), "{header:?}");
        }
        for scheme in ["Basic ", "Bearer  "] {
            assert!(!secret.is_bearer(format!("{scheme}{LONG}").as_bytes()), "{scheme:?}");
        }
    }

    #[test]
    fn a_random_secret_is_long_and_never_the_same() {
        let [first, second] = [Secret::random(), Secret::random()];
        assert_eq!(first.expose().len(), 2 * RANDOM_BYTES);
        assert_ne!(first.expose(), second.expose());
    }

    #[test]
    fn debug_output_hides_the_secret() {
        assert!(!format!("{:?}", secrets(LONG).unwrap()).contains("0123"));
    }
}
