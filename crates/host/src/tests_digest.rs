//! The digest of the tests of a program.

use crate::FieldsDigest;

/// The digest by which services name the tests of a program: of the function to call (empty for a program that reads
/// and prints), then of each test its kind, its input and its output. It is defined in `reward.proto`.
pub fn tests_digest<'a>(function: &str, tests: impl IntoIterator<Item = (u8, &'a str, &'a str)>) -> String {
    let mut digest = FieldsDigest::new();
    digest.text(function);
    for (kind, input, output) in tests {
        digest.byte(kind).text(input).text(output);
    }
    digest.finish_named()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_and_every_part_of_a_test_count() {
        let digest = tests_digest("f", [(2, "1", "2")]);
        assert_eq!(digest, tests_digest("f", [(2, "1", "2")]));
        for other in [
            tests_digest("", [(2, "1", "2")]),
            tests_digest("f", [(1, "1", "2")]),
            tests_digest("f", [(2, "12", "")]),
            tests_digest("f", [(2, "1", "2"), (2, "1", "2")]),
        ] {
            assert_ne!(digest, other);
        }
        let mut fields = FieldsDigest::new();
        fields.text("f").byte(2).text("1").text("2");
        assert_eq!(digest, fields.finish_named());
    }
}
