//! Parquet files as pyarrow, polars and DuckDB write them (see golden/make_parquet.py), and files that are none.

use std::path::{Path, PathBuf};

use evenkeel_chat::Prompt;
use evenkeel_data::read::{Columns, ReadLimits, rows};
use evenkeel_data::{Collector, DataReport, Fields, Problem, Purpose, RowRules, Verifiers};
use evenkeel_proto::v1::verify_item::Task;
use serde_json::Value;

fn golden(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden")).join(path)
}

fn collect_within(path: &Path, limits: &ReadLimits) -> Result<(Vec<Problem>, DataReport), String> {
    let cancel = || false;
    let mut collector = Collector::new(limits, &cancel, false);
    let read = collector.read_file(path, (0, "golden"), Purpose::Training, &RowRules::default());
    read.map_err(|error| error.to_string())?;
    Ok(collector.finish())
}

fn collect(path: &Path) -> Result<(Vec<Problem>, DataReport), String> {
    collect_within(path, &ReadLimits::default())
}

fn prompt(problem: &Problem) -> Value {
    match &problem.prompt {
        Prompt::Text(text) => text.as_str().into(),
        Prompt::Messages(messages) | Prompt::Either { messages, .. } => {
            messages.iter().map(|message| Value::Object(message.fields().clone())).collect()
        }
    }
}

fn gold(problem: &Problem) -> Value {
    let golds: Vec<_> = problem.task.golds().collect();
    if let [gold] = golds[..] { gold.into() } else { golds.into() }
}

#[test]
fn files_of_every_writer_type_and_compression_give_the_rows_that_were_written() {
    let expected = std::fs::read_to_string(golden("parquet.jsonl")).unwrap();
    let mut files = 0;
    for line in expected.lines() {
        let expected: Value = serde_json::from_str(line).unwrap();
        let file = expected["file"].as_str().unwrap();
        let (problems, report) = collect(&golden("parquet").join(file)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(problems.iter().map(prompt).collect::<Value>(), expected["prompts"], "{file}: {report:?}");
        assert_eq!(problems.iter().map(gold).collect::<Value>(), expected["golds"], "{file}");
        files += 1;
    }
    assert_eq!(files, std::fs::read_dir(golden("parquet")).unwrap().count(), "every file has its line");
}

/// The rows of a file in a run whose reward function is called `own`.
fn rows_for_a_function(path: &Path) -> Vec<Problem> {
    let fields = Fields::default().with_verifiers(Verifiers::new([("own", Vec::<String>::new())], "own"));
    let rules = RowRules { fields, ..RowRules::default() };
    let (limits, cancel) = (ReadLimits::default(), || false);
    let mut collector = Collector::new(&limits, &cancel, false);
    collector.read_file(path, (0, "golden"), Purpose::Training, &rules).unwrap();
    collector.finish().0
}

#[test]
fn a_function_gets_the_same_of_parquet_and_of_json_lines_whatever_keys_each_row_has() {
    let payloads = |name: &str| -> Vec<Value> {
        let payload = |problem: &Problem| match problem.task.message() {
            Task::Custom(task) => serde_json::from_slice(&task.payload).unwrap(),
            other => panic!("{other:?}"),
        };
        rows_for_a_function(&golden(name)).iter().map(payload).collect()
    };
    let lines = payloads("nulls.jsonl");
    assert_eq!(payloads("nulls.parquet"), lines);
    assert_eq!(lines[0]["meta"], serde_json::json!({"unit": "m", "limits": {"low": 1}}));
    assert_eq!(
        (&lines[0]["steps"], &lines[0]["seen"]),
        (&serde_json::json!([{"x": 1}, {}]), &serde_json::json!([1, null]))
    );
    assert_eq!(lines[3], serde_json::json!({"prompt": "d", "answer": "4", "note": "x"}));
}

#[test]
fn a_function_gets_every_column_with_its_type_and_the_model_no_argument_without_a_value() {
    let problems = rows_for_a_function(&golden("whole.parquet"));
    let Task::Custom(task) = problems[0].task.message() else { panic!("{:?}", problems[0].task) };
    let mut columns: serde_json::Map<String, Value> = serde_json::from_slice(&task.payload).unwrap();
    columns.remove("prompt");
    let expected = serde_json::json!({
        "answer": "1", "big": 9_007_199_254_740_993_u64, "unsigned": u64::MAX, "share": 0.1, "items": [1, 2, 3],
        "meta": {"unit": "m", "level": 4, "tags": ["x", "y"], "open": true}, "price": "12.50", "day": "2026-11-28",
        "at": "2026-11-28 09:05:07.250 +00:00",
    });
    assert_eq!(Value::Object(columns.clone()), expected);
    let calls = &prompt(&problems[0])[1]["tool_calls"];
    assert_eq!(calls[0]["function"]["arguments"], serde_json::json!({"city": "Paris"}));
    assert_eq!(calls[1]["function"]["arguments"], serde_json::json!({"ticker": "A"}));
    // The function cannot tell these rows from equal rows as lines of JSON.
    let dir = tempfile::tempdir().unwrap();
    let lines = dir.path().join("whole.jsonl");
    columns.insert("prompt".to_owned(), prompt(&problems[0]));
    std::fs::write(&lines, Value::Object(columns.clone()).to_string()).unwrap();
    let Task::Custom(task) = rows_for_a_function(&lines)[0].task.message() else { panic!("{lines:?}") };
    assert_eq!(serde_json::from_slice::<Value>(&task.payload).unwrap(), Value::Object(columns));
}

#[test]
fn only_the_columns_that_are_asked_for_are_read() {
    let (limits, cancel, path) = (ReadLimits::default(), || false, golden("parquet/verl.parquet"));
    let columns = Columns::new(["reward_model.ground_truth", "extra_info.split"]);
    let row = rows(&path, &columns, &limits, &cancel).unwrap().next().unwrap().unwrap();
    assert_eq!(row.get("reward_model"), Some(&serde_json::json!({"ground_truth": "2"})));
    assert_eq!(row.get("extra_info"), Some(&serde_json::json!({"split": "train"})));
    assert_eq!(row.get("prompt"), None);
}

#[test]
fn files_that_cannot_be_read_are_refused_by_what_is_wrong() {
    for (file, words) in [
        ("parquet-refused/encrypted.parquet", "is encrypted, allowed: a parquet file without encryption"),
        ("parquet-refused/brotli.parquet", "is compressed by Brotli, allowed: Snappy, gzip, zstd, LZ4, or none"),
        (
            "parquet-refused/encrypted-columns.parquet",
            "cannot be decoded, so it is damaged or its columns are encrypted",
        ),
    ] {
        let error = collect(&golden(file)).unwrap_err();
        assert!(error.contains(words), "{file}: {error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let whole = std::fs::read(golden("parquet/verl.parquet")).unwrap();
    let refused = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        collect(&path).unwrap_err()
    };
    let error = refused("cut.parquet", &whole[..whole.len() - 5]);
    assert!(error.contains("cut.parquet: is cut off"), "{error}");
    // The magic number is enough where the name says nothing.
    assert!(refused("cut", &whole[..whole.len() / 2]).contains("is cut off"));
    assert!(refused("empty.parquet", b"").contains("is empty"));
    assert!(refused("short.parquet", b"PAR1PAR1").contains("has 8 bytes, too few for a parquet file"));
    assert!(refused("text.parquet", b"{\"prompt\": \"a\"}\n").contains("is not a parquet file"));
    let mut lost_start = whole.clone();
    lost_start.drain(4..200);
    assert!(refused("lost.parquet", &lost_start).contains("lost.parquet: "));
}

#[test]
fn a_table_without_rows_is_read_and_gives_no_prompt() {
    let (limits, cancel, path) = (ReadLimits::default(), || false, golden("parquet-refused/no-rows.parquet"));
    let mut collector = Collector::new(&limits, &cancel, false);
    collector.read_file(&path, (0, "golden"), Purpose::Training, &RowRules::default()).unwrap();
    assert_eq!(collector.report().files[0].rows, 0);
    let error = collector.require_prompts().unwrap_err().to_string();
    assert!(error.ends_with("no-rows.parquet: has no rows, allowed: at least one"), "{error}");
}

#[test]
fn of_a_file_that_cannot_be_read_at_all_the_report_has_nothing() {
    let (limits, cancel) = (ReadLimits::default(), || false);
    let mut collector = Collector::new(&limits, &cancel, false);
    for file in ["parquet-refused/encrypted.parquet", "none.parquet"] {
        collector.read_file(&golden(file), (0, "golden"), Purpose::Training, &RowRules::default()).unwrap_err();
        assert_eq!(collector.report().files, []);
    }
}

#[test]
fn no_damaged_byte_ends_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.parquet");
    for file in ["parquet/verl.parquet", "parquet/compressed-zstd.parquet"] {
        let whole = std::fs::read(golden(file)).unwrap();
        for at in (4..whole.len()).step_by(7) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            std::fs::write(&path, &damaged).unwrap();
            if let Err(error) = collect(&path) {
                assert!(error.contains("damaged.parquet: "), "byte {at}: {error}");
            }
        }
    }
}

#[test]
fn limits_hold_for_tables() {
    let path = golden("parquet/verl.parquet");
    let error = collect_within(&path, &ReadLimits { max_rows: 2, ..ReadLimits::default() }).unwrap_err();
    assert!(error.contains("row 3: exceeds the limit of 2 rows (limits.max_rows)"), "{error}");
    let error = collect_within(&path, &ReadLimits { max_bytes: 100, ..ReadLimits::default() }).unwrap_err();
    assert!(error.contains("allowed: at most 100"), "{error}");
    let (problems, report) = collect_within(&path, &ReadLimits { max_row_bytes: 60, ..ReadLimits::default() }).unwrap();
    assert!(problems.len() < 3 && report.examples["invalid-row"][0].message.starts_with("longer than 60 bytes"));
}

#[test]
fn a_table_without_a_column_says_which_it_has() {
    let fields = Fields::named("extra_info.text", "", "", "");
    let (limits, cancel, path) = (ReadLimits::default(), || false, golden("parquet/verl.parquet"));
    let mut collector = Collector::new(&limits, &cancel, false);
    let rules = RowRules { fields, ..RowRules::default() };
    collector.read_file(&path, (0, "golden"), Purpose::Training, &rules).unwrap();
    let error = collector.require_prompts().unwrap_err().to_string();
    let words = "yields no prompts: 3 rows, 0 prompts, 3 missing-prompt; row 1: has no field `extra_info.text`, it \
                 has: data_source, prompt, ability, reward_model, extra_info";
    assert!(error.ends_with(words), "{error}");
}
