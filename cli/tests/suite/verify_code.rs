//! Verdicts on the programs of a file.

use std::net::TcpListener;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::{Process, evenkeel, succeed, wait_for};

/// A question that asks for twice the input, as LiveCodeBench publishes it.
fn question(id: &str) -> Value {
    let tests =
        r#"[{"input": "1", "output": "2", "testtype": "stdin"}, {"input": "4", "output": "8", "testtype": "stdin"}]"#;
    json!({"question_id": id, "public_test_cases": tests, "private_test_cases": "[]", "metadata": "{}"})
}

fn fenced(code: &str) -> String {
    format!("```python\n{code}\n```")
}

fn lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).expect("verdicts are text");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object on each line")).collect()
}

fn verify(input: &std::path::Path, more: &[&str]) -> Command {
    let mut command = evenkeel(&["verify", "code", "--input"]);
    command.arg(input).args(more);
    command
}

#[test]
fn each_program_has_its_verdict_in_order_and_a_line_sums_them_up() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("rows.jsonl");
    let programs = json!([
        {"label": "right", "completion": fenced("print(2 * int(input()))"), "passed": true, "lcb_results": [true, true]},
        {"label": "wrong", "program": "print(2)", "passed": false, "lcb_results": [true, -2]},
        {"label": "broken", "program": "def f(:", "passed": true, "lcb_results": [-4]},
    ]);
    let rows = [
        json!({"question": question("doubles"), "programs": programs}).to_string(),
        json!({"question": question("abc311_c"), "completion": "I do not know"}).to_string(),
    ];
    std::fs::write(&input, rows.join("\n")).unwrap();
    let output = succeed(verify(&input, &["--mode", "livecodebench"]));
    let verdicts = lines(&output);
    let found: Vec<_> = verdicts.iter().map(|row| (row["program"].clone(), row["outcome"].clone())).collect();
    let expected = [("right", "pass"), ("wrong", "wrong_answer"), ("broken", "compile_error")];
    assert_eq!(found[..3], expected.map(|(name, outcome)| (name.into(), outcome.into())));
    assert_eq!(found[3], (0.into(), "no_code".into()));
    assert_eq!((&verdicts[1]["failing_test"], &verdicts[1]["lcb_results"]), (&json!(1), &json!([true, -2])));
    assert!(verdicts[3]["erratum"].as_str().unwrap().starts_with("erratum: "), "{}", verdicts[3]);
    let summary = String::from_utf8(output.stderr).unwrap();
    let summary = summary.lines().last().unwrap();
    assert!(summary.starts_with("4 programs, "), "{summary}");
    let agreement =
        "; 2 of 3 as expected, 0 wrongly passed; 3 of 3 lists as LiveCodeBench's grader has them (100.00 %)";
    assert!(summary.ends_with(agreement), "{summary}");
}

#[test]
fn a_row_that_is_none_is_named_and_stops_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("rows.jsonl");
    let good = json!({"question": question("q"), "program": "print(2 * int(input()))"}).to_string();
    let none =
        json!({"question": {"question_id": "empty", "public_test_cases": "[]"}, "program": "print(1)"}).to_string();
    std::fs::write(&input, format!("rubbish\n{none}\n{good}\n")).unwrap();
    let output = verify(&input, &[]).output().unwrap();
    assert!(!output.status.success());
    assert_eq!(lines(&output).len(), 1);
    assert_eq!(lines(&output)[0]["passed"], true);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("line 1: not JSON"), "{said}");
    assert!(
        said.contains("line 2: question `empty`: `public_test_cases` is empty, allowed: at least one test"),
        "{said}"
    );
    assert!(said.ends_with("; 2 rows could not be read\n"), "{said}");
}

#[test]
fn a_line_that_is_no_text_stops_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("rows.jsonl");
    let good = json!({"question": question("q"), "program": "print(2 * int(input()))"}).to_string();
    let broken = good.replace("question_id", "\u{fffd}").into_bytes();
    let broken: Vec<u8> = broken.into_iter().filter(|byte| *byte != 0xef).collect();
    std::fs::write(&input, [good.as_bytes(), &broken, b"\xff", b"{\"question\":", good.as_bytes()].join(&b'\n'))
        .unwrap();
    let output = verify(&input, &[]).output().unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(lines(&output).iter().filter(|row| row["passed"] == true).count(), 2, "{said}");
    for words in ["line 2: byte ", "line 3: byte 1 is not UTF-8", "line 4: not JSON", "; 3 rows could not be read"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_worker_that_is_killed_loses_no_verdict_of_a_client_with_two() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("rows.jsonl");
    let output = dir.path().join("verdicts.jsonl");
    let programs: Vec<_> = (0..40)
        .map(|number| match number % 3 {
            0 => json!({"program": "print(2 * int(input()))", "passed": true}),
            1 => json!({"program": "print(sum(range(10 ** 6)))", "passed": false}),
            _ => json!({"program": "1 / 0", "passed": false}),
        })
        .collect();
    let rows: Vec<_> =
        (0..12).map(|n| json!({"question": question(&format!("q{n}")), "programs": programs}).to_string()).collect();
    std::fs::write(&input, rows.join("\n")).unwrap();
    // The interpreter is built before anything is timed or killed.
    succeed(evenkeel(&["guest"]));
    let worker = || {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listen = format!("server.listen=127.0.0.1:{port}");
        let process =
            Process::start(evenkeel(&["serve", "reward", "--set", &listen, "--set", "code.sandbox=at_start"]));
        wait_for("the worker", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        (process, format!("http://127.0.0.1:{port}"))
    };
    let (doomed, first) = worker();
    let (_survivor, second) = worker();
    let mut command = verify(&input, &["--endpoint", &first, "--endpoint", &second, "--output"]);
    let mut client = command.arg(&output).spawn().unwrap();
    wait_for("the first verdicts", || std::fs::metadata(&output).is_ok_and(|file| file.len() > 0));
    assert!(client.try_wait().unwrap().is_none(), "the client is in the middle of its work");
    doomed.kill();
    let ended = client.wait_with_output().unwrap();
    let summary = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{summary}");
    let verdicts = std::fs::read_to_string(&output).unwrap();
    assert_eq!(verdicts.lines().count(), 480);
    assert!(summary.contains("480 programs, ") && summary.contains("; 480 of 480 as expected"), "{summary}");
}
