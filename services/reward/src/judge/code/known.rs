//! Tests that this worker has seen: sent once, named by their digest afterwards.

use std::sync::Arc;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::code_task::TestsSource;
use evenkeel_proto::v1::{CodeTask, CodeTestKind, CodeTests, InvalidReason, LiveCodeBenchCases, Verdict};
use evenkeel_rpc::admission::{Admission, ClientId, Reservation, Unit};
use evenkeel_rpc::error::ServiceError;
use evenkeel_sandbox::rows::{BadRow, BadTests, Kind, Row, Test, Tests};
use prost::Message;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use sha2::{Digest, Sha256};

use crate::settings::CodeConfig;

/// Tests that come as such and are no longer than this are read at once.
const SMALL_BYTES: usize = 256 << 10;
/// What tables hold beside a problem.
const OVERHEAD_BYTES: u64 = 1024;
/// What unpacking may hold for each byte that it comes to: the text of a test twice while it grows.
const UNPACKING: usize = 2;

/// Problems that are expected to be held at once; more may be.
const PROBLEMS: usize = 1000;

pub(super) struct KnownTests {
    /// By their digest, and once more by the hash of the columns that they came in.
    known: Cache<String, Arc<Tests>, Bytes>,
    max_private_bytes: usize,
    /// Bytes of all tests that are held: known, in work, or being unpacked.
    held: Admission,
}

/// What tests weigh: the memory that they hold.
#[derive(Clone)]
struct Bytes;

impl Weighter<String, Arc<Tests>> for Bytes {
    fn weight(&self, _: &String, tests: &Arc<Tests>) -> u64 {
        tests.held_bytes() as u64 + OVERHEAD_BYTES
    }
}

impl KnownTests {
    pub(super) fn new(config: &CodeConfig) -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(PROBLEMS)
            .weight_capacity(config.tests_cache_bytes)
            // One, so that a single problem may take all of it.
            .shards(1)
            .build()
            .expect("both capacities are given");
        let known = Cache::with_options(options, Bytes, DefaultHashBuilder::default(), DefaultLifecycle::default());
        let held = Admission::new("tests", Unit::Bytes, config.max_tests_bytes);
        Self { known, max_private_bytes: config.max_private_bytes, held }
    }

    /// Whether the tests of a task are here, so that nothing has to be read.
    pub(super) fn are_here(&self, task: &CodeTask) -> bool {
        match &task.tests_source {
            None | Some(TestsSource::TestsDigest(_)) => true,
            Some(TestsSource::Tests(tests)) => tests.encoded_len() <= SMALL_BYTES,
            Some(TestsSource::LiveCodeBench(row)) => self.known.peek(&columns(row)).is_some(),
        }
    }

    /// The tests of a task. `stop` says whether nobody waits for them any more.
    pub(super) fn of(
        &self,
        id: &str,
        task: CodeTask,
        max_field_bytes: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Arc<Tests>, Box<Verdict>> {
        super::super::fits(id, "code.question_id", task.question_id.len(), max_field_bytes)?;
        match task.tests_source {
            None => {
                let error = FieldError::missing("code.tests_source", "tests, live_code_bench or tests_digest");
                Err(Box::new(Verdict::refused(id, error)))
            }
            Some(TestsSource::TestsDigest(digest)) => self.known.get(&digest).ok_or_else(|| {
                let detail = format!("the tests {} are not known here: send them", super::super::cut(digest, 128));
                Box::new(Verdict::invalid(id, InvalidReason::UnknownTests, detail))
            }),
            Some(TestsSource::Tests(tests)) => self.sent(tests).map_err(|failed| failed.verdict(id, "code.tests")),
            Some(TestsSource::LiveCodeBench(row)) => {
                self.row(&row, stop).map_err(|failed| failed.verdict(id, "code.live_code_bench"))
            }
        }
    }

    /// Tests that came as such. Their message is counted until they are read, so that only what they add is.
    fn sent(&self, tests: CodeTests) -> Result<Arc<Tests>, Failed> {
        let held = self.held.empty(ClientId::anonymous());
        let tests = read(tests, self.max_private_bytes).map_err(Failed::Bad)?;
        self.keep(tests, held)
    }

    /// The tests of a row, unpacked once however many programs come with it.
    fn row(&self, row: &LiveCodeBenchCases, stop: &(dyn Fn() -> bool + Sync)) -> Result<Arc<Tests>, Failed> {
        let key = columns(row);
        if let Some(tests) = self.known.get(&key) {
            return Ok(tests);
        }
        let LiveCodeBenchCases { public_test_cases, private_test_cases, metadata } = row;
        let row = Row {
            public: public_test_cases,
            private: private_test_cases,
            metadata,
            max_private_bytes: self.max_private_bytes,
            stop,
        };
        let bad = |error: BadRow| Failed::Bad(error.to_string());
        let bytes = row.unpacked_bytes().map_err(bad)?.saturating_mul(UNPACKING);
        let held = self.held.try_reserve(ClientId::anonymous(), bytes).map_err(Failed::Full)?;
        let tests = self.keep(row.read().map_err(bad)?, held)?;
        self.known.insert(key, Arc::clone(&tests));
        Ok(tests)
    }

    /// Keeps tests under their digest; they are counted as long as anybody has them.
    fn keep(&self, tests: Tests, mut held: Reservation) -> Result<Arc<Tests>, Failed> {
        let bytes = tests.held_bytes() as u64;
        held.try_grow(bytes.saturating_sub(held.amount())).map_err(Failed::Full)?;
        held.resize(bytes);
        let tests = Arc::new(tests.with(held));
        self.known.insert(tests.digest().to_owned(), Arc::clone(&tests));
        Ok(tests)
    }
}

/// Why there are no tests.
enum Failed {
    /// They cannot be read.
    Bad(String),
    /// There is no room for them.
    Full(ServiceError),
}

impl Failed {
    fn verdict(self, id: &str, field: &str) -> Box<Verdict> {
        Box::new(match self {
            Self::Bad(problem) => Verdict::invalid(id, InvalidReason::BadTests, format!("{field}: {problem}")),
            Self::Full(full) => Verdict::invalid(id, InvalidReason::Overloaded, format!("{field}: {full}")),
        })
    }
}

/// Names the columns of a row.
fn columns(row: &LiveCodeBenchCases) -> String {
    let mut hash = Sha256::new();
    for column in [&row.public_test_cases, &row.private_test_cases, &row.metadata] {
        hash.update((column.len() as u64).to_le_bytes());
        hash.update(column);
    }
    format!("columns:{:x}", hash.finalize())
}

/// Tests as the protocol has them.
fn read(tests: CodeTests, max_bytes: usize) -> Result<Tests, String> {
    let CodeTests { tests, function_name } = tests;
    let mut read = Vec::with_capacity(tests.len());
    for (index, test) in tests.into_iter().enumerate() {
        let kind = match test.kind() {
            CodeTestKind::Stdin => Kind::Stdin,
            CodeTestKind::Functional => Kind::Functional,
            CodeTestKind::Unspecified => {
                let kind = FieldError::new(format!("tests[{index}].kind"), test.kind, "STDIN or FUNCTIONAL");
                return Err(kind.to_string());
            }
        };
        read.push(Test { kind, input: test.input, output: test.output });
    }
    Tests::within(read, Some(function_name), max_bytes).map_err(|error: BadTests| error.to_string())
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::CodeTest;

    use super::*;

    fn stdin(output: &str) -> CodeTests {
        let test = CodeTest { kind: CodeTestKind::Stdin.into(), input: "1".into(), output: output.into() };
        CodeTests { tests: vec![test], function_name: String::new() }
    }

    fn source(source: TestsSource) -> CodeTask {
        CodeTask { tests_source: Some(source), ..CodeTask::default() }
    }

    fn known(bytes: u64) -> KnownTests {
        KnownTests::new(&CodeConfig { tests_cache_bytes: bytes, ..CodeConfig::default() })
    }

    #[test]
    fn the_digest_is_the_one_that_the_protocol_describes() {
        // No function, one test of kind 1, input and output of a byte each; lengths are little-endian.
        let hash = Sha256::digest(b"\0\0\0\0\0\0\0\0\x01\x01\0\0\0\0\0\0\x001\x01\0\0\0\0\0\0\x002");
        assert_eq!(read(stdin("2"), 1 << 20).unwrap().digest(), format!("sha256:{hash:x}"));
    }

    #[test]
    fn tests_that_came_once_are_found_by_their_digest() {
        let known = known(1 << 20);
        let first = known.of("a", source(TestsSource::Tests(stdin("2"))), 100, &|| false).unwrap();
        let digest = TestsSource::TestsDigest(first.digest().to_owned());
        assert!(Arc::ptr_eq(&first, &known.of("b", source(digest), 100, &|| false).unwrap()));
        let other = TestsSource::TestsDigest("sha256:00".into());
        let verdict = known.of("c", source(other), 100, &|| false).unwrap_err();
        assert_eq!(verdict.invalid_reason(), InvalidReason::UnknownTests);
    }

    #[test]
    fn what_is_held_has_a_bound() {
        let known = known(20_000);
        let digest = |number: usize| {
            let tests = source(TestsSource::Tests(stdin(&format!("{number:01000}"))));
            known.of("a", tests, 100, &|| false).unwrap().digest().to_owned()
        };
        let digests: Vec<_> = (0..100).map(digest).collect();
        let held = digests.iter().filter(|digest| known.known.get(*digest).is_some()).count();
        assert!((1..=9).contains(&held), "{held}");
    }

    #[test]
    fn tests_count_as_long_as_anybody_has_them() {
        let config = CodeConfig { tests_cache_bytes: 0, max_tests_bytes: 5_000, ..CodeConfig::default() };
        let known = KnownTests::new(&config);
        let of = |number: usize| {
            known.of("a", source(TestsSource::Tests(stdin(&format!("{number:01000}")))), 100, &|| false)
        };
        let in_work: Vec<_> = (0..4).map(|number| of(number).unwrap()).collect();
        let refused = of(4).unwrap_err();
        assert_eq!(refused.invalid_reason(), InvalidReason::Overloaded);
        assert_eq!(refused.detail, "code.tests: queue `tests` is full, its capacity is 5000 bytes");
        drop(in_work);
        assert!(of(4).is_ok());
    }

    #[test]
    fn a_row_of_livecodebench_is_decoded_once() {
        let known = known(1 << 20);
        let row = LiveCodeBenchCases {
            public_test_cases: r#"[{"input": "1", "output": "2", "testtype": "stdin"}]"#.into(),
            private_test_cases: "[]".into(),
            metadata: "{}".into(),
        };
        let first = known.of("a", source(TestsSource::LiveCodeBench(row.clone())), 100, &|| false).unwrap();
        assert!(Arc::ptr_eq(&first, &known.of("b", source(TestsSource::LiveCodeBench(row)), 100, &|| false).unwrap()));
        assert_eq!(first.digest(), read(stdin("2"), 1 << 20).unwrap().digest());
    }

    #[test]
    fn tests_that_are_none_are_a_defect_of_the_data() {
        let known = known(1 << 20);
        let mut kind = stdin("2");
        kind.tests[0].kind = 0;
        for (tests, problem) in [
            (CodeTests::default(), "code.tests: no tests"),
            (kind, "code.tests: tests[0].kind is 0, allowed: STDIN or FUNCTIONAL"),
            (CodeTests { function_name: "f".into(), ..stdin("2") }, "code.tests: test 0 is of another kind"),
        ] {
            let verdict = known.of("a", source(TestsSource::Tests(tests)), 100, &|| false).unwrap_err();
            assert_eq!(verdict.invalid_reason(), InvalidReason::BadTests);
            assert!(verdict.detail.starts_with(problem), "{}", verdict.detail);
        }
        let verdict = known.of("a", CodeTask::default(), 100, &|| false).unwrap_err();
        assert_eq!(verdict.invalid_reason(), InvalidReason::BadRequest);
    }
}
