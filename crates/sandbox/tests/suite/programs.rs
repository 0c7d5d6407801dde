//! The committed programs, `golden/programs.jsonl`: verdict and failing test as in a native process.

use std::time::Duration;

use crate::support::{functional, judge_all, stdin, task};
use evenkeel_sandbox::ProgramTask;
use serde_json::Value;

fn rows() -> Vec<Value> {
    let text = include_str!("../golden/programs.jsonl");
    text.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect()
}

fn task_of(row: &Value) -> ProgramTask {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let tests = row["tests"].as_array().expect("tests");
    let cases: Vec<_> = tests.iter().map(|test| (text(&test[0]), text(&test[1]))).collect();
    let cases: Vec<_> = cases.iter().map(|(input, output)| (input.as_str(), output.as_str())).collect();
    let tests = match row["function"].as_str() {
        Some(name) => functional(name, &cases),
        None => stdin(&cases),
    };
    let mut task = task(row["program"].as_str().expect("a program"), &tests);
    // Endless programs may be stopped early; the others get enough time for a slow machine.
    task.limits.cpu = Duration::from_secs(if row["outcome"] == "time_limit" { 1 } else { 60 });
    task
}

#[test]
fn committed_programs_have_their_verdicts_and_failing_tests() {
    let rows = rows();
    let verdicts = judge_all(rows.iter().map(task_of).collect());
    let mut wrong = Vec::new();
    for (row, verdict) in rows.iter().zip(&verdicts) {
        let failing = row["failing_test"].as_u64().map(|test| test as usize);
        let same_test = failing.is_none() || verdict.failing_test == failing;
        if verdict.outcome.name() != row["outcome"] || !same_test {
            wrong.push(format!(
                "{}: {} at test {:?} ({}), and not {} at {failing:?}:\n{}",
                row["problem"],
                verdict.outcome.name(),
                verdict.failing_test,
                verdict.detail,
                row["outcome"],
                row["program"].as_str().unwrap_or_default()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
