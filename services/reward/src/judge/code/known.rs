//! Tests that this worker has seen: sent once, named by their digest afterwards.

use std::sync::Arc;

use evenkeel_code::rows::{BadTests, Kind, Test, Tests, tests_of_row};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::code_task::TestsSource;
use evenkeel_proto::v1::{CodeTask, CodeTestKind, CodeTests, InvalidReason, LiveCodeBenchCases, Verdict};
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use sha2::{Digest, Sha256};

use crate::settings::CodeConfig;

/// Problems that are expected to be held at once; more may be.
const PROBLEMS: usize = 1000;

pub(super) struct KnownTests {
    /// By their digest, and once more by the hash of the columns that they came in.
    known: Cache<String, Arc<Tests>, Bytes>,
    max_private_bytes: usize,
}

/// What tests weigh: their texts, and as much again for expected values and tables.
#[derive(Clone)]
struct Bytes;

impl Weighter<String, Arc<Tests>> for Bytes {
    fn weight(&self, _: &String, tests: &Arc<Tests>) -> u64 {
        2 * tests.bytes() as u64 + 1024
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
        Self { known, max_private_bytes: config.max_private_bytes }
    }

    /// The tests of a task.
    pub(super) fn of(&self, id: &str, task: CodeTask, max_field_bytes: usize) -> Result<Arc<Tests>, Box<Verdict>> {
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
            Some(TestsSource::Tests(tests)) => {
                let tests = Arc::new(read(tests).map_err(|error| bad(id, "code.tests", &error))?);
                self.known.insert(tests.digest().to_owned(), Arc::clone(&tests));
                Ok(tests)
            }
            Some(TestsSource::LiveCodeBench(row)) => {
                self.row(&row).map_err(|error| bad(id, "code.live_code_bench", &error))
            }
        }
    }

    /// The tests of a row, decoded once however many programs come with it.
    fn row(&self, row: &LiveCodeBenchCases) -> Result<Arc<Tests>, String> {
        self.known.get_or_insert_with(&columns(row), || {
            let LiveCodeBenchCases { public_test_cases, private_test_cases, metadata } = row;
            let tests = tests_of_row(public_test_cases, private_test_cases, metadata, self.max_private_bytes)
                .map_err(|error| error.to_string())?;
            let tests = Arc::new(tests);
            self.known.insert(tests.digest().to_owned(), Arc::clone(&tests));
            Ok(tests)
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
fn read(tests: CodeTests) -> Result<Tests, String> {
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
    Tests::new(read, Some(function_name)).map_err(|error: BadTests| error.to_string())
}

fn bad(id: &str, field: &str, problem: &str) -> Box<Verdict> {
    Box::new(Verdict::invalid(id, InvalidReason::BadTests, format!("{field}: {problem}")))
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
        let mut hash = Sha256::new();
        stdin("2").write_digest_input(|piece| hash.update(piece));
        assert_eq!(read(stdin("2")).unwrap().digest(), format!("sha256:{:x}", hash.finalize()));
    }

    #[test]
    fn tests_that_came_once_are_found_by_their_digest() {
        let known = known(1 << 20);
        let first = known.of("a", source(TestsSource::Tests(stdin("2"))), 100).unwrap();
        let digest = TestsSource::TestsDigest(first.digest().to_owned());
        assert!(Arc::ptr_eq(&first, &known.of("b", source(digest), 100).unwrap()));
        let other = TestsSource::TestsDigest("sha256:00".into());
        let verdict = known.of("c", source(other), 100).unwrap_err();
        assert_eq!(verdict.invalid_reason(), InvalidReason::UnknownTests);
    }

    #[test]
    fn what_is_held_has_a_bound() {
        let known = known(20_000);
        let digest = |number: usize| {
            let tests = source(TestsSource::Tests(stdin(&format!("{number:01000}"))));
            known.of("a", tests, 100).unwrap().digest().to_owned()
        };
        let digests: Vec<_> = (0..100).map(digest).collect();
        let held = digests.iter().filter(|digest| known.known.get(*digest).is_some()).count();
        assert!((1..=7).contains(&held), "{held}");
    }

    #[test]
    fn a_row_of_livecodebench_is_decoded_once() {
        let known = known(1 << 20);
        let row = LiveCodeBenchCases {
            public_test_cases: r#"[{"input": "1", "output": "2", "testtype": "stdin"}]"#.into(),
            private_test_cases: "[]".into(),
            metadata: "{}".into(),
        };
        let first = known.of("a", source(TestsSource::LiveCodeBench(row.clone())), 100).unwrap();
        assert!(Arc::ptr_eq(&first, &known.of("b", source(TestsSource::LiveCodeBench(row)), 100).unwrap()));
        assert_eq!(first.digest(), read(stdin("2")).unwrap().digest());
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
            let verdict = known.of("a", source(TestsSource::Tests(tests)), 100).unwrap_err();
            assert_eq!(verdict.invalid_reason(), InvalidReason::BadTests);
            assert!(verdict.detail.starts_with(problem), "{}", verdict.detail);
        }
        let verdict = known.of("a", CodeTask::default(), 100).unwrap_err();
        assert_eq!(verdict.invalid_reason(), InvalidReason::BadRequest);
    }
}
