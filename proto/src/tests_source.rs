//! Names of tests: a client sends tests once and refers to them by their digest afterwards.

use sha2::{Digest, Sha256};

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
        let mut hash = Sha256::new();
        text(&mut hash, &self.function_name);
        for test in &self.tests {
            // Kinds beyond a byte do not exist.
            hash.update([test.kind as u8]);
            text(&mut hash, &test.input);
            text(&mut hash, &test.output);
        }
        format!("sha256:{:x}", hash.finalize())
    }
}

impl LiveCodeBenchCases {
    /// `columns:` and the digest that the protocol defines.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for column in self.columns() {
            text(&mut hash, column);
        }
        format!("columns:{:x}", hash.finalize())
    }

    fn columns(&self) -> [&str; 3] {
        [&self.public_test_cases, &self.private_test_cases, &self.metadata]
    }
}

fn text(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_le_bytes());
    hash.update(text);
}
