//! Verdicts on the rows of a file.

use std::io::Write;
use std::net::TcpListener;
use std::process::Output;

use crate::support::{Process, evenkeel, refused, succeed, wait_for};

const ROWS: &str = r#"{"id": "right", "gold": "\\frac12", "prediction": "0.5", "expected": true}
{"id": "wrong", "gold": "2", "completion": "so \\boxed{3}", "expected": true}
{"id": "silent", "gold": "2", "completion": "I do not know"}
{"id": "defect", "gold": "", "prediction": "2"}
"#;

fn lines(output: &Output) -> Vec<serde_json::Value> {
    let text = std::str::from_utf8(&output.stdout).expect("verdicts are text");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object on each line")).collect()
}

#[test]
fn each_row_has_its_verdict_in_order_and_a_line_sums_them_up() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("rows.jsonl");
    std::fs::write(&input, ROWS).unwrap();
    let mut command = evenkeel(&["verify", "math", "--input"]);
    command.arg(&input);
    let output = succeed(command);
    let found: Vec<_> = lines(&output).iter().map(|row| (row["id"].clone(), row["outcome"].clone())).collect();
    let wanted = [("right", "equal"), ("wrong", "not_equal"), ("silent", "no_answer"), ("defect", "bad_gold")];
    assert_eq!(found, wanted.map(|(id, outcome)| (id.into(), outcome.into())));
    assert_eq!(lines(&output)[0]["canonical"], "1/2");
    let summary = String::from_utf8(output.stderr).unwrap();
    assert!(summary.starts_with("4 checks, 1 bad_gold, 1 equal, 1 no_answer, 1 not_equal, "), "{summary}");
    assert!(summary.contains(" checks per second; 1 of 2 as expected, 0 wrongly equal"), "{summary}");
}

#[test]
fn a_running_service_gives_the_same_verdicts() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("rows.jsonl");
    std::fs::write(&input, ROWS.repeat(3000)).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("server.listen=127.0.0.1:{port}");
    let _service = Process::start(evenkeel(&["serve", "reward", "--set", &listen]));
    wait_for("the service", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    let endpoint = format!("http://127.0.0.1:{port}");
    let judged = |more: &[&str]| {
        let mut command = evenkeel(&["verify", "math", "--input"]);
        command.arg(&input).args(more);
        lines(&succeed(command))
    };
    assert_eq!(judged(&["--endpoint", &endpoint]), judged(&[]));
}

#[test]
fn a_row_that_is_none_is_named_and_stops_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("rows.jsonl");
    let output = dir.path().join("verdicts.jsonl");
    std::fs::write(&input, "{\"gold\": \"2\", \"prediction\": \"2\"}\nrubbish\n{\"gold\": \"2\"}\n").unwrap();
    let mut command = evenkeel(&["verify", "math", "--input"]);
    command.arg(&input).arg("--output").arg(&output);
    let said = refused(command);
    assert!(
        said.contains("rows.jsonl line 2: not JSON") && said.contains("line 3: the answer is absent, required:"),
        "{said}"
    );
    assert!(said.contains("1 checks, 1 equal") && said.contains("2 rows could not be read"), "{said}");
    assert_eq!(std::fs::read_to_string(&output).unwrap().lines().count(), 1);
}

#[test]
fn answers_in_any_script_have_their_verdicts() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("rows.jsonl");
    let rows = [
        (r#"{"gold": "5", "completion": "So √25 = \\boxed{5}"}"#, "equal"),
        (r#"{"gold": "3", "completion": "所以，x=\\boxed{3}"}"#, "equal"),
        (r#"{"gold": "\\frac12", "completion": "sin 30° = \\boxed{\\frac12}"}"#, "equal"),
        (r#"{"gold": "3", "completion": "\\boxed{\\sum_}"}"#, "undecided"),
        (r#"{"gold": "3", "completion": "\\boxed{\\binom{0}{0}}"}"#, "not_equal"),
        (r#"{"gold": "4", "completion": "\\boxed{٤}"}"#, "not_equal"),
        (r#"{"gold": "٤", "completion": "\\boxed{4}"}"#, "bad_gold"),
    ];
    std::fs::write(&input, rows.map(|(row, _)| row).join("\n")).unwrap();
    let mut command = evenkeel(&["verify", "math", "--input"]);
    command.arg(&input);
    let found: Vec<_> = lines(&succeed(command)).iter().map(|row| row["outcome"].clone()).collect();
    assert_eq!(found, rows.map(|(_, outcome)| outcome));
}

#[test]
fn a_line_that_is_no_text_or_too_long_stops_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("rows.jsonl");
    let output = dir.path().join("verdicts.jsonl");
    let row = b"{\"gold\": \"2\", \"prediction\": \"2\"}\n";
    let lines = [
        row,
        &b"{\"gold\": \"2\", \"prediction\": \"\xe6\x89\"}\n"[..],
        b"\xff\xfe\n",
        b"{\"gold\": \"\x1b[2J\"}\n",
        row,
    ];
    std::fs::write(&input, lines.concat()).unwrap();
    // A hole of the file, so that the longest line costs no disk.
    let mut file = std::fs::OpenOptions::new().append(true).open(&input).unwrap();
    file.set_len(file.metadata().unwrap().len() + (257 << 20)).unwrap();
    file.write_all(b"\n").and_then(|()| file.write_all(row)).unwrap();
    let mut command = evenkeel(&["verify", "math", "--input"]);
    command.arg(&input).arg("--output").arg(&output);
    let ended = command.output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    for words in [
        "line 2: byte 30 is not UTF-8",
        "line 3: byte 1 is not UTF-8",
        "line 4: not JSON",
        "line 6: longer than 268435456 bytes",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.contains("3 checks, 3 equal") && said.contains("; 4 rows could not be read"), "{said}");
    assert_eq!(std::fs::read_to_string(&output).unwrap().lines().count(), 3);
}

#[test]
fn an_unknown_profile_is_refused_with_those_that_are() {
    let said = refused(evenkeel(&["verify", "math", "--input", "rows.jsonl", "--profile", "aime"]));
    assert!(said.contains("--profile is \"aime\", allowed: default, exact"), "{said}");
}

#[test]
fn gold_answers_that_cannot_be_trained_with_are_named_before_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.jsonl");
    let rows = [
        r#"{"id": "sound", "problem": "1+1?", "answer": "2"}"#,
        r#"{"id": "empty", "problem": "1+2?", "answer": ""}"#,
        r#"{"id": "form", "problem": "Factor completely: $x^2-1$", "answer": "(x-1)(x+1)"}"#,
    ];
    std::fs::write(&data, rows.join("\n")).unwrap();
    let mut command = evenkeel(&["verify", "math", "--lint-golds"]);
    command.arg(&data);
    let output = command.output().unwrap();
    assert!(!output.status.success(), "a data set with defects fails the command");
    let found: Vec<_> = lines(&output).iter().map(|row| row["id"].clone()).collect();
    assert_eq!(found, ["empty", "form"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("3 gold answers, 2 unsound"));
}

#[test]
fn rows_that_cannot_be_read_are_named_among_the_gold_answers() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data.jsonl");
    std::fs::write(&data, b"\xff\n{\"answer\": \"2\"}\nrubbish\n{\"answer\": \"\xd9\xa2\"}\n{}\n").unwrap();
    let mut command = evenkeel(&["verify", "math", "--lint-golds"]);
    command.arg(&data);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let found: Vec<_> = lines(&output).iter().map(|row| (row["id"].clone(), row["finding"].clone())).collect();
    let wanted = [(1, "row_unreadable"), (3, "row_unreadable"), (4, "gold_unreadable_digits"), (5, "gold_missing")];
    assert_eq!(found, wanted.map(|(id, finding)| (id.into(), finding.into())));
    assert!(String::from_utf8_lossy(&output.stderr).contains("5 gold answers, 4 unsound"));
}
