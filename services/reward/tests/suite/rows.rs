//! Compressed LiveCodeBench rows: a small message must neither exhaust the memory of the worker nor delay others.

use crate::support::{Stream, Worker, item, with_sandbox};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_proto::v1::code_task::TestsSource;
use evenkeel_proto::v1::verify_item::{Answer, Task};
use evenkeel_proto::v1::{CodeTask, InvalidReason, LiveCodeBenchCases, VerifyItem};
use evenkeel_reward::RewardSettings;

/// A row with this text as its compressed private tests.
fn row(id: &str, json: &str) -> VerifyItem {
    let pickle =
        [b"\x80\x03X", &u32::try_from(json.len()).unwrap().to_le_bytes()[..], json.as_bytes(), b"q\0."].concat();
    let cases = LiveCodeBenchCases {
        public_test_cases: r#"[{"input": "1", "output": "2", "testtype": "stdin"}]"#.into(),
        private_test_cases: STANDARD.encode(miniz_oxide::deflate::compress_to_vec_zlib(&pickle, 1)),
        metadata: format!(r#"{{"row": "{id}"}}"#),
    };
    let task = CodeTask { tests_source: Some(TestsSource::LiveCodeBench(cases)), ..CodeTask::default() };
    VerifyItem {
        id: id.into(),
        answer: Some(Answer::Extracted("print(2)".into())),
        task: Some(Task::Code(task)),
        ..VerifyItem::default()
    }
}

/// Peak memory of this process in bytes. `None` if the system does not tell.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[test]
fn bombs_neither_delay_mathematics_nor_take_much_memory() {
    with_sandbox(async {
        let worker = Worker::with(RewardSettings { threads: 1, ..RewardSettings::default() }).await;
        let mut bombs = Vec::new();
        for bomb in 0..4 {
            let test = r#"{"input":"","output":""}"#;
            let json = format!("[{}{test}]", format!("{test},").repeat(10_000_000));
            bombs.push(row(&format!("bomb{bomb}"), &json));
        }
        // Building the rows takes more memory than judging them: reset the peak if the system supports it.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let before = peak_memory();
        let mut stream = Stream::open(&worker).await;
        for bomb in bombs {
            stream.send(bomb).await;
        }
        for id in 0..20 {
            stream.send(item(format!("honest{id}"), "4", "\\boxed{4}")).await;
        }
        let mut order = Vec::new();
        for _ in 0..24 {
            let verdict = stream.verdict().await;
            if verdict.id.starts_with("bomb") {
                assert_eq!(verdict.invalid_reason(), InvalidReason::BadTests, "{}", verdict.detail);
                assert!(verdict.detail.contains("the tests hold more than"), "{}", verdict.detail);
            } else {
                assert!(verdict.is_valid());
            }
            order.push(verdict.id);
        }
        assert!(order[23].starts_with("bomb"), "rows wait, mathematics does not: {order:?}");
        assert!(order[22].starts_with("bomb"), "rows wait, mathematics does not: {order:?}");
        if let (Some(before), Some(after)) = (before, peak_memory()) {
            let most = after.saturating_sub(before) >> 20;
            assert!(most < 1_500, "four rows of 260 MB cost {most} MiB");
        }
    });
}
