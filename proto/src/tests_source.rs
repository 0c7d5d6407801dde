//! Names of tests: a client sends tests once and refers to them by their digest afterwards.

use evenkeel_host::{FieldsDigest, tests_digest};

use crate::v1::code_task::TestsSource;
use crate::v1::{CodeTests, LiveCodeBenchCases};

impl TestsSource {
    /// What these tests are called in [`TestsSource::TestsDigest`].
    pub fn digest(&self) -> String {
        match self {
            Self::Tests(tests) => tests.digest(),
            Self::LiveCodeBench(cases) => cases.digest(),
            Self::TestsDigest(digest) => digest.clone(),
        }
    }

    /// Size of the texts in bytes.
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Tests(tests) => tests.tests.iter().map(|test| test.input.len() + test.output.len()).sum(),
            Self::LiveCodeBench(cases) => cases.columns().map(str::len).iter().sum(),
            Self::TestsDigest(digest) => digest.len(),
        }
    }
}

impl CodeTests {
    /// `sha256:` and the digest that the protocol defines.
    pub fn digest(&self) -> String {
        // Kinds beyond a byte do not exist.
        let tests = self.tests.iter().map(|test| (test.kind as u8, test.input.as_str(), test.output.as_str()));
        tests_digest(&self.function_name, tests)
    }
}

impl LiveCodeBenchCases {
    /// `columns:` and the digest that the protocol defines.
    pub fn digest(&self) -> String {
        let mut hash = FieldsDigest::new();
        for column in self.columns() {
            hash.text(column);
        }
        format!("columns:{}", hash.finish_hex())
    }

    fn columns(&self) -> [&str; 3] {
        [&self.public_test_cases, &self.private_test_cases, &self.metadata]
    }
}
