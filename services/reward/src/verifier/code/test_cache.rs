//! Cache of tests: a client sends tests once and refers to them by their digest afterwards.

use std::sync::Arc;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::code_task::TestsSource;
use evenkeel_proto::v1::{CodeTask, CodeTestKind, CodeTests, InvalidReason, LiveCodeBenchCases, Verdict};
use evenkeel_rpc::admission::{Admission, ClientId, Reservation, Unit};
use evenkeel_rpc::error::ServiceError;
use evenkeel_sandbox::rows::{BadRow, BadTests, LiveCodeBenchRow, Test, TestKind, Tests};
use prost::Message;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::settings::CodeSettings;

/// Uncompressed tests up to this size are parsed immediately.
const SMALL_BYTES: usize = 256 << 10;
/// Memory of the cache per entry, in addition to the tests.
const OVERHEAD_BYTES: u64 = 1024;
/// Memory per byte of tests while they are decompressed: a growing buffer may exist twice.
const DECOMPRESSION_FACTOR: usize = 2;

/// Expected number of entries. There may be more.
const EXPECTED_ENTRIES: usize = 1000;

pub(super) struct TestCache {
    /// By the digest of the tests, and also by that of the columns of their row.
    cache: Cache<String, Arc<Tests>, Memory>,
    max_private_bytes: usize,
    /// Memory of all tests: cached, in use, or being decompressed.
    memory: Admission,
}

/// Weighs tests by their memory.
#[derive(Clone)]
struct Memory;

impl Weighter<String, Arc<Tests>> for Memory {
    fn weight(&self, _: &String, tests: &Arc<Tests>) -> u64 {
        tests.held_bytes() as u64 + OVERHEAD_BYTES
    }
}

impl TestCache {
    pub(super) fn new(settings: &CodeSettings) -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(EXPECTED_ENTRIES)
            .weight_capacity(settings.tests_cache.bytes())
            // A single shard, so that one entry may take the whole cache.
            .shards(1)
            .build()
            .expect("both capacities are set");
        let cache = Cache::with_options(options, Memory, DefaultHashBuilder::default(), DefaultLifecycle::default());
        let memory = Admission::new("tests", Unit::Bytes, settings.tests_memory.bytes_usize());
        Self { cache, max_private_bytes: settings.max_private_tests.bytes_usize(), memory }
    }

    /// Whether the tests of a task are cached or small, so that [`Self::get`] is fast.
    pub(super) fn is_fast(&self, task: &CodeTask) -> bool {
        match &task.tests_source {
            None | Some(TestsSource::TestsDigest(_)) => true,
            Some(TestsSource::Tests(tests)) => tests.encoded_len() <= SMALL_BYTES,
            Some(TestsSource::LiveCodeBench(row)) => self.cache.peek(&row.digest()).is_some(),
        }
    }

    /// The tests of a task, from the cache or parsed. `is_cancelled` is polled while they are decompressed.
    pub(super) fn get(
        &self,
        id: &str,
        task: CodeTask,
        max_field_bytes: usize,
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Arc<Tests>, Box<Verdict>> {
        super::super::fits(id, "code.question_id", task.question_id.len(), max_field_bytes)?;
        match task.tests_source {
            None => {
                let error = FieldError::missing("code.tests_source", "tests, live_code_bench or tests_digest");
                Err(Box::new(Verdict::refused(id, error)))
            }
            Some(TestsSource::TestsDigest(digest)) => self.cache.get(&digest).ok_or_else(|| {
                let detail = format!("the tests {} are not known here: send them", super::super::cut(digest, 128));
                Box::new(Verdict::invalid(id, InvalidReason::UnknownTests, detail))
            }),
            Some(TestsSource::Tests(tests)) => self.parse(tests).map_err(|failed| failed.verdict(id, "code.tests")),
            Some(TestsSource::LiveCodeBench(row)) => {
                self.row(&row, is_cancelled).map_err(|failed| failed.verdict(id, "code.live_code_bench"))
            }
        }
    }

    /// Parses tests of the protocol. Their message is accounted for elsewhere until then.
    fn parse(&self, tests: CodeTests) -> Result<Arc<Tests>, TestsError> {
        let reserved = self.memory.empty(ClientId::anonymous());
        self.insert(parse(tests, self.max_private_bytes)?, reserved)
    }

    /// The tests of a row, decompressed once however many programs come with it.
    fn row(
        &self,
        row: &LiveCodeBenchCases,
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Arc<Tests>, TestsError> {
        let key = row.digest();
        if let Some(tests) = self.cache.get(&key) {
            return Ok(tests);
        }
        let LiveCodeBenchCases { public_test_cases, private_test_cases, metadata } = row;
        let row = LiveCodeBenchRow {
            public: public_test_cases,
            private: private_test_cases,
            metadata,
            max_private_bytes: self.max_private_bytes,
            stop: is_cancelled,
        };
        let bytes = row.unpacked_bytes()?.saturating_mul(DECOMPRESSION_FACTOR);
        let reserved = self.memory.try_reserve(ClientId::anonymous(), bytes).map_err(TestsError::Full)?;
        let tests = self.insert(row.read()?, reserved)?;
        self.cache.insert(key, Arc::clone(&tests));
        Ok(tests)
    }

    /// Caches tests by their digest. Their memory stays reserved until the last reference is dropped.
    fn insert(&self, tests: Tests, mut reserved: Reservation) -> Result<Arc<Tests>, TestsError> {
        let bytes = tests.held_bytes() as u64;
        reserved.try_grow(bytes.saturating_sub(reserved.amount())).map_err(TestsError::Full)?;
        reserved.resize(bytes);
        let tests = Arc::new(tests.with(reserved));
        self.cache.insert(tests.digest().to_owned(), Arc::clone(&tests));
        Ok(tests)
    }
}

/// Why tests are not available.
#[derive(Debug, thiserror::Error)]
enum TestsError {
    /// A field of a test has no allowed value.
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error(transparent)]
    Tests(#[from] BadTests),
    #[error(transparent)]
    Row(#[from] BadRow),
    /// There is not enough memory for them.
    #[error(transparent)]
    Full(ServiceError),
}

impl TestsError {
    fn verdict(&self, id: &str, field: &str) -> Box<Verdict> {
        let reason = match self {
            Self::Field(_) | Self::Tests(_) | Self::Row(_) => InvalidReason::BadTests,
            Self::Full(_) => InvalidReason::Overloaded,
        };
        Box::new(Verdict::invalid(id, reason, format!("{field}: {self}")))
    }
}

/// Converts tests of the protocol.
fn parse(tests: CodeTests, max_bytes: usize) -> Result<Tests, TestsError> {
    let CodeTests { tests, function_name } = tests;
    let mut parsed = Vec::with_capacity(tests.len());
    for (index, test) in tests.into_iter().enumerate() {
        let kind = match test.kind() {
            CodeTestKind::Stdin => TestKind::Stdin,
            CodeTestKind::Functional => TestKind::Functional,
            CodeTestKind::Unspecified => {
                return Err(FieldError::new(format!("tests[{index}].kind"), test.kind, "STDIN or FUNCTIONAL").into());
            }
        };
        parsed.push(Test::new(kind, test.input, test.output));
    }
    Ok(Tests::within(parsed, Some(function_name), max_bytes)?)
}

#[cfg(test)]
mod tests {
    use evenkeel_config::ByteSize;
    use evenkeel_proto::v1::CodeTest;
    use sha2::{Digest, Sha256};

    use super::*;

    fn stdin(output: &str) -> CodeTests {
        let test = CodeTest { kind: CodeTestKind::Stdin.into(), input: "1".into(), output: output.into() };
        CodeTests { tests: vec![test], function_name: String::new() }
    }

    fn source(source: TestsSource) -> CodeTask {
        CodeTask { tests_source: Some(source), ..CodeTask::default() }
    }

    fn cache(bytes: u64) -> TestCache {
        TestCache::new(&CodeSettings { tests_cache: ByteSize::b(bytes), ..CodeSettings::default() })
    }

    #[test]
    fn the_digest_is_that_of_the_protocol() {
        // No function, one test of kind 1, input and output of a byte each; lengths are little-endian.
        let hash = Sha256::digest(b"\0\0\0\0\0\0\0\0\x01\x01\0\0\0\0\0\0\x001\x01\0\0\0\0\0\0\x002");
        assert_eq!(parse(stdin("2"), 1 << 20).unwrap().digest(), format!("sha256:{hash:x}"));
        assert_eq!(stdin("2").digest(), format!("sha256:{hash:x}"), "of the message, as a client computes it");
    }

    #[test]
    fn tests_that_were_sent_once_are_found_by_their_digest() {
        let cache = cache(1 << 20);
        let first = cache.get("a", source(TestsSource::Tests(stdin("2"))), 100, &|| false).unwrap();
        let digest = TestsSource::TestsDigest(first.digest().to_owned());
        assert!(Arc::ptr_eq(&first, &cache.get("b", source(digest), 100, &|| false).unwrap()));
        let other = TestsSource::TestsDigest("sha256:00".into());
        let verdict = cache.get("c", source(other), 100, &|| false).unwrap_err();
        assert_eq!(verdict.invalid_reason(), InvalidReason::UnknownTests);
    }

    #[test]
    fn the_memory_of_cached_tests_is_limited() {
        let cache = cache(20_000);
        let digest = |number: usize| {
            let tests = source(TestsSource::Tests(stdin(&format!("{number:01000}"))));
            cache.get("a", tests, 100, &|| false).unwrap().digest().to_owned()
        };
        let digests: Vec<_> = (0..100).map(digest).collect();
        let cached = digests.iter().filter(|digest| cache.cache.get(*digest).is_some()).count();
        assert!((1..=9).contains(&cached), "{cached}");
    }

    #[test]
    fn tests_take_up_memory_until_nobody_uses_them() {
        let settings =
            CodeSettings { tests_cache: ByteSize::b(0), tests_memory: ByteSize::b(5_000), ..CodeSettings::default() };
        let cache = TestCache::new(&settings);
        let get = |number: usize| {
            cache.get("a", source(TestsSource::Tests(stdin(&format!("{number:01000}")))), 100, &|| false)
        };
        let in_work: Vec<_> = (0..4).map(|number| get(number).unwrap()).collect();
        let refused = get(4).unwrap_err();
        assert_eq!(refused.invalid_reason(), InvalidReason::Overloaded);
        assert_eq!(refused.detail, "code.tests: queue `tests` is full, its capacity is 5000 bytes");
        drop(in_work);
        assert!(get(4).is_ok());
    }

    #[test]
    fn a_row_of_livecodebench_is_decoded_once_and_found_by_the_digest_of_its_columns() {
        let cache = cache(1 << 20);
        let row = LiveCodeBenchCases {
            public_test_cases: r#"[{"input": "1", "output": "2", "testtype": "stdin"}]"#.into(),
            private_test_cases: "[]".into(),
            metadata: "{}".into(),
        };
        let first = cache.get("a", source(TestsSource::LiveCodeBench(row.clone())), 100, &|| false).unwrap();
        let digest = row.digest();
        let again = [TestsSource::LiveCodeBench(row), TestsSource::TestsDigest(digest)];
        for again in again {
            assert!(Arc::ptr_eq(&first, &cache.get("b", source(again), 100, &|| false).unwrap()));
        }
        assert_eq!(first.digest(), parse(stdin("2"), 1 << 20).unwrap().digest());
    }

    #[test]
    fn invalid_tests_are_a_defect_of_the_data() {
        let cache = cache(1 << 20);
        let mut kind = stdin("2");
        kind.tests[0].kind = 0;
        for (tests, problem) in [
            (CodeTests::default(), "code.tests: no tests"),
            (kind, "code.tests: tests[0].kind is 0, allowed: STDIN or FUNCTIONAL"),
            (CodeTests { function_name: "f".into(), ..stdin("2") }, "code.tests: test 0 is of another kind"),
        ] {
            let verdict = cache.get("a", source(TestsSource::Tests(tests)), 100, &|| false).unwrap_err();
            assert_eq!(verdict.invalid_reason(), InvalidReason::BadTests);
            assert!(verdict.detail.starts_with(problem), "{}", verdict.detail);
        }
        let verdict = cache.get("a", CodeTask::default(), 100, &|| false).unwrap_err();
        assert_eq!(verdict.invalid_reason(), InvalidReason::BadRequest);
    }
}
