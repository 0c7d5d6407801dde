//! The bytes that name a set of tests.

use crate::v1::CodeTests;

/// The hash of [`CodeTests::write_digest_input`] that the protocol takes, as it is written before the hex digits.
pub const CODE_TESTS_DIGEST_ALGORITHM: &str = "sha256";

impl CodeTests {
    /// Gives `write` the bytes whose hash is `CodeTask.tests_digest`, piece by piece. Written out in the protocol, since a
    /// protobuf encoding is not the same bytes in every language.
    pub fn write_digest_input(&self, mut write: impl FnMut(&[u8])) {
        let text = |text: &str, write: &mut dyn FnMut(&[u8])| {
            write(&(text.len() as u64).to_le_bytes());
            write(text.as_bytes());
        };
        text(&self.function_name, &mut write);
        for test in &self.tests {
            // Every known kind fits one byte; an unknown one is refused before tests are hashed.
            write(&[u8::try_from(test.kind).unwrap_or(u8::MAX)]);
            text(&test.input, &mut write);
            text(&test.output, &mut write);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{CodeTest, CodeTestKind};

    fn input(function_name: &str, tests: &[(&str, &str)]) -> Vec<u8> {
        let test = |&(input, output): &(&str, &str)| CodeTest {
            kind: CodeTestKind::Stdin.into(),
            input: input.into(),
            output: output.into(),
        };
        let tests = CodeTests { tests: tests.iter().map(test).collect(), function_name: function_name.into() };
        let mut bytes = Vec::new();
        tests.write_digest_input(|piece| bytes.extend_from_slice(piece));
        bytes
    }

    #[test]
    fn the_bytes_are_those_of_the_protocol() {
        let expected = b"\x01\0\0\0\0\0\0\0f\x01\x02\0\0\0\0\0\0\x001\n\x01\0\0\0\0\0\0\x002";
        assert_eq!(input("f", &[("1\n", "2")]), expected);
    }

    #[test]
    fn moving_a_character_changes_the_bytes() {
        assert_ne!(input("", &[("ab", "c")]), input("", &[("a", "bc")]));
        assert_ne!(input("", &[("a", "b"), ("c", "d")]), input("", &[("a", "bc")]));
    }
}
