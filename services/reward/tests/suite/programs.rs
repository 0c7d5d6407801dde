//! Judging programs, from the perspective of a client.

use std::time::{Duration, Instant};

use crate::support::{Stream, Worker, item, with_sandbox};
use evenkeel_proto::v1::code_task::TestsSource;
use evenkeel_proto::v1::verify_item::{Answer, Task};
use evenkeel_proto::v1::{
    CancelItem, CodeLimits, CodeMode, CodeReward, CodeTask, CodeTest, CodeTestKind, CodeTests, InvalidReason,
    LiveCodeBenchCases, Outcome, Verdict, VerifyItem,
};
use evenkeel_reward::{CodeSettings, RewardSettings, SandboxStart, UnsupportedSetting, bind};
use sha2::{Digest, Sha256};

const RIGHT: &str = "Here it is.\n```python\nprint(int(input()) * 2)\n```";

fn tests(pairs: &[(&str, &str)]) -> TestsSource {
    let kind = CodeTestKind::Stdin.into();
    let test = |&(input, output): &(&str, &str)| CodeTest { kind, input: input.into(), output: output.into() };
    TestsSource::Tests(CodeTests { tests: pairs.iter().map(test).collect(), function_name: String::new() })
}

fn doubles() -> CodeTask {
    CodeTask { tests_source: Some(tests(&[("1", "2"), ("4", "8")])), ..CodeTask::default() }
}

fn program(id: &str, completion: &str, task: CodeTask) -> VerifyItem {
    let answer = Some(Answer::Completion(completion.into()));
    VerifyItem { id: id.into(), answer, task: Some(Task::Code(task)), ..VerifyItem::default() }
}

/// A program that is already extracted.
fn bare(id: &str, code: &str, task: CodeTask) -> VerifyItem {
    VerifyItem { answer: Some(Answer::Extracted(code.into())), ..program(id, "", task) }
}

fn outcome_of(verdict: &Verdict) -> (Outcome, &str, Option<f64>) {
    (verdict.outcome(), verdict.reason_code.as_str(), verdict.reward)
}

#[test]
fn a_program_that_passes_every_test_earns_its_reward() {
    with_sandbox(async {
        let worker = Worker::start().await;
        let verdict = worker.one(program("a", RIGHT, doubles())).await;
        assert_eq!(outcome_of(&verdict), (Outcome::Correct, "pass", Some(1.0)), "{}", verdict.detail);
        assert_eq!((verdict.id.as_str(), verdict.worker.as_str()), ("a", "reward"));
        assert_eq!(verdict.extracted.as_deref(), Some("print(int(input()) * 2)\n"));
        let report = verdict.code.as_ref().unwrap();
        assert_eq!((report.passed_tests, report.run_tests, report.total_tests, report.failing_test), (2, 2, 2, None));
        assert!(report.cpu_us > 0);
        assert_eq!(verdict.validate(), Ok(()));
        let status = worker.status().await;
        assert!(status.code);
        assert_eq!(status.verdicts.get("correct"), Some(&1));
    });
}

#[test]
fn failures_of_programs_are_distinguished() {
    with_sandbox(async {
        let worker = Worker::start().await;
        let limits = CodeLimits {
            cpu_ms: Some(300),
            memory_bytes: Some(64 << 20),
            output_bytes: Some(1000),
            ..CodeLimits::default()
        };
        let limited = CodeTask { limits: Some(limits), ..doubles() };
        for (code, outcome) in [
            ("print(3)", Outcome::WrongAnswer),
            ("1 / 0", Outcome::RuntimeError),
            ("def f(:", Outcome::CompileError),
            ("while True: pass", Outcome::TimeLimit),
            ("x = bytearray(100 << 20)", Outcome::MemoryLimit),
            ("print('x' * 2000)", Outcome::OutputLimit),
        ] {
            let verdict = worker.one(bare("a", code, limited.clone())).await;
            assert_eq!((verdict.outcome(), verdict.reward), (outcome, Some(0.0)), "{code}: {}", verdict.detail);
            assert_eq!(verdict.code.as_ref().unwrap().failing_test, Some(0), "{code}");
            assert_eq!(verdict.validate(), Ok(()));
        }
        let none = worker.one(program("a", "I do not know.", doubles())).await;
        assert_eq!(outcome_of(&none), (Outcome::NoAnswer, "no_block", Some(0.0)));
        let error = worker.one(bare("a", "raise ValueError('no')", doubles())).await;
        assert_eq!(error.detail, "ValueError: no");
        assert!(error.code.unwrap().stderr_excerpt.contains("line 1"));
    });
}

#[test]
fn the_settings_decide_about_programs_that_need_what_the_sandbox_lacks() {
    with_sandbox(async {
        for (unsupported, outcome, reward) in [
            (UnsupportedSetting::Wrong, Outcome::RuntimeError, Some(0.0)),
            (UnsupportedSetting::Invalid, Outcome::Invalid, None),
        ] {
            let code = CodeSettings { unsupported, threads: 1, ..CodeSettings::default() };
            let worker = Worker::with(RewardSettings { code, ..RewardSettings::default() }).await;
            for program in ["import numpy", "len(range(10**10))"] {
                let verdict = worker.one(bare("a", program, doubles())).await;
                assert_eq!(outcome_of(&verdict), (outcome, "unsupported", reward), "{}", verdict.detail);
                assert!(verdict.detail.contains("[sandbox: "), "{}", verdict.detail);
                assert_eq!(verdict.validate(), Ok(()));
            }
            let own = worker.one(bare("b", "1 / 0", doubles())).await;
            assert_eq!(outcome_of(&own), (Outcome::RuntimeError, "exception", Some(0.0)));
        }
    });
}

#[test]
fn the_time_limit_over_all_tests_applies() {
    with_sandbox(async {
        let worker = Worker::start().await;
        let limits = CodeLimits { program_cpu_ms: Some(500), ..CodeLimits::default() };
        let slow = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nprint('x')";
        let tests = tests(&[("", "x"), ("", "x"), ("", "x")]);
        let task = CodeTask { limits: Some(limits), tests_source: Some(tests), ..CodeTask::default() };
        let verdict = worker.one(bare("a", slow, task)).await;
        assert_eq!((verdict.outcome(), verdict.code.unwrap().failing_test), (Outcome::TimeLimit, Some(1)));
    });
}

#[test]
fn a_task_chooses_mode_and_reward() {
    with_sandbox(async {
        let worker = Worker::start().await;
        let task = CodeTask { tests_source: Some(tests(&[("1", "2"), ("2", "5"), ("4", "8")])), ..CodeTask::default() };
        let fraction = CodeTask { reward: CodeReward::PassedFraction.into(), ..task.clone() };
        let verdict = worker.one(program("a", RIGHT, fraction)).await;
        assert_eq!(outcome_of(&verdict), (Outcome::WrongAnswer, "line_differs", Some(2.0 / 3.0)));
        let graded = CodeTask { mode: CodeMode::LiveCodeBench.into(), question_id: "abc311_c".into(), ..task };
        let report = worker.one(program("a", RIGHT, graded)).await.code.unwrap();
        assert_eq!((report.live_code_bench_results, report.live_code_bench_error), (vec![1, -2], Some(-2)));
        assert_eq!(report.erratum, "erratum: several answers are right, the tests know one");
    });
}

#[test]
fn tests_are_sent_once_and_identified_by_their_digest_afterwards() {
    with_sandbox(async {
        let worker = Worker::start().await;
        let input = "[1, 2]";
        let output = "3";
        let cases = LiveCodeBenchCases {
            public_test_cases: format!(r#"[{{"input": "{input}", "output": "{output}", "testtype": "functional"}}]"#),
            private_test_cases: "[]".into(),
            metadata: r#"{"func_name": "total"}"#.into(),
        };
        let test = CodeTest { kind: CodeTestKind::Functional.into(), input: input.into(), output: output.into() };
        let named = digest(&CodeTests { tests: vec![test], function_name: "total".into() });
        let code = "class Solution:\n    def total(self, a: List[int]) -> int:\n        return sum(a)";
        let row = CodeTask { tests_source: Some(TestsSource::LiveCodeBench(cases)), ..CodeTask::default() };
        let named = CodeTask { tests_source: Some(TestsSource::TestsDigest(named)), ..CodeTask::default() };
        let unknown = worker.one(bare("a", code, named.clone())).await;
        assert_eq!((unknown.outcome(), unknown.invalid_reason()), (Outcome::Invalid, InvalidReason::UnknownTests));
        assert_eq!(worker.one(bare("b", code, row)).await.outcome(), Outcome::Correct);
        assert_eq!(worker.one(bare("c", code, named)).await.outcome(), Outcome::Correct);
    });
}

/// The digest of tests, computed by the definition in the protocol.
fn digest(tests: &CodeTests) -> String {
    let mut hash = Sha256::new();
    let text = |hash: &mut Sha256, text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    text(&mut hash, &tests.function_name);
    for test in &tests.tests {
        let kind = [u8::try_from(test.kind).unwrap()];
        hash.update(kind);
        text(&mut hash, &test.input);
        text(&mut hash, &test.output);
    }
    format!("sha256:{:x}", hash.finalize())
}

#[test]
fn a_cancelled_program_frees_its_thread() {
    with_sandbox(async {
        let code = CodeSettings { threads: 1, ..CodeSettings::default() };
        let worker = Worker::with(RewardSettings { code, ..RewardSettings::default() }).await;
        worker.one(program("warm", RIGHT, doubles())).await;
        let limits = CodeLimits { cpu_ms: Some(60_000), ..CodeLimits::default() };
        let mut stream = Stream::open(&worker).await;
        let endless = bare("endless", "while True: pass", CodeTask { limits: Some(limits), ..doubles() });
        stream.send(endless.clone()).await;
        worker.running(1).await;
        let began = Instant::now();
        stream.send(CancelItem::new("endless")).await;
        assert_eq!(stream.verdict().await.invalid_reason(), InvalidReason::Cancelled);
        assert_eq!(worker.one(program("next", RIGHT, doubles())).await.outcome(), Outcome::Correct);
        assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
        // The end of a call cancels its items.
        stream.send(endless).await;
        worker.running(1).await;
        drop(stream);
        assert_eq!(worker.one(program("last", RIGHT, doubles())).await.outcome(), Outcome::Correct);
        assert!(began.elapsed() < Duration::from_secs(55), "{:?}", began.elapsed());
    });
}

#[test]
fn programs_do_not_delay_mathematical_answers() {
    with_sandbox(async {
        let code = CodeSettings { threads: 1, ..CodeSettings::default() };
        let worker = Worker::with(RewardSettings { threads: 1, code, ..RewardSettings::default() }).await;
        worker.one(program("warm", RIGHT, doubles())).await;
        let limits = CodeLimits { cpu_ms: Some(2000), ..CodeLimits::default() };
        let mut stream = Stream::open(&worker).await;
        for index in 0..3 {
            let task = CodeTask { limits: Some(limits), ..doubles() };
            stream.send(bare(&format!("endless {index}"), "while True: pass", task)).await;
        }
        stream.send(item("mathematics", "7", "\\boxed{7}")).await;
        let first = stream.verdict().await;
        assert_eq!((first.id.as_str(), first.outcome()), ("mathematics", Outcome::Correct));
    });
}

#[test]
fn an_invalid_task_is_refused_by_field_and_does_not_affect_others() {
    with_sandbox(async {
        let worker = Worker::start().await;
        let mut stream = Stream::open(&worker).await;
        let limits = CodeLimits { cpu_ms: Some(0), ..CodeLimits::default() };
        let rows = |private: &str| {
            let cases = LiveCodeBenchCases { private_test_cases: private.into(), ..LiveCodeBenchCases::default() };
            let public_test_cases = "[]".to_owned();
            let cases = LiveCodeBenchCases { public_test_cases, ..cases };
            CodeTask { tests_source: Some(TestsSource::LiveCodeBench(cases)), ..CodeTask::default() }
        };
        let broken = [
            (CodeTask::default(), "code.tests_source is absent, required: tests, live_code_bench or tests_digest"),
            (CodeTask { mode: 7, ..doubles() }, "code.mode is 7, allowed: a value of CodeMode"),
            (CodeTask { limits: Some(limits), ..doubles() }, "code.limits.cpu_ms is 0, allowed: 1 to 60000"),
            (CodeTask { tests_source: Some(tests(&[])), ..CodeTask::default() }, "code.tests: no tests"),
            (rows("[]"), "code.live_code_bench: public_test_cases: no tests"),
            // The pickle of os.system.
            (rows("eJxrYJmqwAAGPYmlJRn5RVM8VSdPYMitLCzPL+IHAGzVCKQ="), "code.live_code_bench: private_test_cases: "),
        ];
        for (task, _) in &broken {
            stream.send(program("broken", RIGHT, task.clone())).await;
            let verdict = stream.verdict().await;
            let reason = verdict.invalid_reason();
            assert!(matches!(reason, InvalidReason::BadRequest | InvalidReason::BadTests), "{reason:?}");
            assert_eq!((verdict.outcome(), verdict.reward), (Outcome::Invalid, None));
            let expected = broken.iter().find(|(other, _)| other == task).unwrap().1;
            assert!(verdict.detail.starts_with(expected), "{}", verdict.detail);
        }
        stream.send(program("good", RIGHT, doubles())).await;
        assert_eq!(stream.verdict().await.outcome(), Outcome::Correct);
    });
}

#[test]
fn a_worker_without_a_sandbox_reports_what_is_missing() {
    with_sandbox(async {
        let code = CodeSettings { sandbox: SandboxStart::Off, ..CodeSettings::default() };
        let worker = Worker::with(RewardSettings { code, ..RewardSettings::default() }).await;
        let verdict = worker.one(program("a", RIGHT, doubles())).await;
        assert_eq!((verdict.outcome(), verdict.invalid_reason()), (Outcome::Invalid, InvalidReason::Unimplemented));
        assert_eq!(verdict.detail, "this worker runs no programs: reward.code.sandbox is off");
        assert!(!worker.status().await.code);

        let nowhere = CodeSettings { guest_dir: Some("/proc/nowhere".into()), ..CodeSettings::default() };
        let worker = Worker::with(RewardSettings { code: nowhere.clone(), ..RewardSettings::default() }).await;
        let verdict = worker.one(program("a", RIGHT, doubles())).await;
        assert_eq!(verdict.invalid_reason(), InvalidReason::Unimplemented);
        assert!(verdict.detail.contains("/proc/nowhere"), "{}", verdict.detail);
        let at_start = CodeSettings { sandbox: SandboxStart::AtStart, ..nowhere };
        let refused = bind(RewardSettings { code: at_start, ..RewardSettings::default() }).await;
        let error = refused.err().unwrap().to_string();
        assert!(error.starts_with("reward.code: ") && error.contains("/proc/nowhere"), "{error}");
    });
}
