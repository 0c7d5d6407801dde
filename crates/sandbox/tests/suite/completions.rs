//! Whole completions as models write them, `golden/completions.jsonl`: 289 variants of the ways in which graders were
//! reported to be wrong, each with the verdict that a thoughtful user expects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{functional, judge, judge_all, stdin};
use evenkeel_sandbox::compare::Tolerance;
use evenkeel_sandbox::rows::Tests;
use evenkeel_sandbox::{Mode, ProgramSubmission, ProgramTask, Reason};
use serde_json::Value;

const RIGHT: &str = "```python\nprint(2 * int(input()))\n```\n";

fn rows() -> Vec<Value> {
    let text = include_str!("../golden/completions.jsonl");
    text.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect()
}

fn tests_of(row: &Value) -> Arc<Tests> {
    let text = |value: &'_ Value| value.as_str().expect("text").to_owned();
    let tests = row["question"]["tests"].as_array().expect("tests");
    let cases: Vec<_> = tests.iter().map(|test| (text(&test[0]), text(&test[1]))).collect();
    let cases: Vec<_> = cases.iter().map(|(input, output)| (input.as_str(), output.as_str())).collect();
    match row["question"]["func_name"].as_str() {
        Some(name) => functional(name, &cases),
        None => stdin(&cases),
    }
}

fn completion(text: &str, tests: &Arc<Tests>) -> ProgramTask {
    let mut task = ProgramTask::new(ProgramSubmission::Completion(text.to_owned()), Arc::clone(tests));
    task.limits.cpu = Duration::from_secs(5);
    task
}

fn differing(deterministic: bool) -> BTreeMap<String, String> {
    let rows = rows();
    let task = |row: &Value| {
        let mut task = completion(row["input"].as_str().expect("a completion"), &tests_of(row));
        task.limits.deterministic = deterministic;
        task
    };
    let verdicts = judge_all(rows.iter().map(task).collect());
    let pairs = rows.iter().zip(verdicts);
    let differing = pairs.filter(|(row, verdict)| verdict.passed() != (row["expected"] == "pass"));
    let shown = |(row, verdict): (&Value, evenkeel_sandbox::ProgramVerdict)| {
        let text = format!("{} {}: {} {}", row["kind"], row["input"], verdict.reason.code(), verdict.detail);
        (row["id"].to_string(), text)
    };
    differing.map(shown).collect()
}

#[test]
fn completions_have_the_expected_verdicts() {
    let differing = differing(false);
    assert!(differing.is_empty(), "{differing:#?}");
}

#[test]
fn with_counted_instructions_they_have_the_same() {
    let differing = differing(true);
    assert!(differing.is_empty(), "{differing:#?}");
}

#[test]
fn every_missing_program_has_its_reason() {
    let tests = stdin(&[("3", "6")]);
    for (text, reason) in [
        ("I do not know.", Reason::NoBlock),
        ("```python\npip install x\n```", Reason::EmptyBlock),
        ("```cpp\nint main() {}\n```", Reason::OtherLanguage),
        (&format!("<think>\n{RIGHT}"), Reason::UnclosedThinking),
        ("```python\nprint(\n```", Reason::SyntaxError),
        (RIGHT, Reason::Passed),
    ] {
        let verdict = judge(completion(text, &tests));
        assert_eq!((verdict.reason, verdict.outcome), (reason, reason.outcome()), "{text}");
    }
}

#[test]
fn the_program_that_was_chosen_is_reported() {
    let tests = stdin(&[("3", "6"), ("4", "8"), ("5", "10")]);
    let verdict =
        judge(completion(&format!("{RIGHT}It is used like this:\n```python\nprint(double(3))\n```\n"), &tests));
    assert!(verdict.passed(), "{}", verdict.detail);
    assert_eq!(verdict.program.as_deref(), Some("print(2 * int(input()))\n"));
}

#[test]
fn livecodebench_mode_keeps_the_rules_of_the_grader() {
    let graded = |text: &str, tests: &Arc<Tests>| {
        let mut task = completion(text, tests);
        task.mode = Mode::LiveCodeBench;
        judge(task).reason
    };
    let tests = stdin(&[("3", "6")]);
    assert_eq!(graded(RIGHT, &tests), Reason::Passed);
    // The lines between the last two fences, whatever they are.
    assert_ne!(graded(&format!("{RIGHT}Output:\n```\n6\n```\n"), &tests), Reason::Passed);
    let third = stdin(&[("3", "0.3333333333")]);
    assert_eq!(graded("```python\nprint('0.333333')\n```", &third), Reason::LineDiffers);
    let nested = functional("f", &[("3", "[[1,2]]")]);
    assert_eq!(graded("```python\ndef f(n):\n    return [(1, 2)]\n```", &nested), Reason::ValueDiffers);
}

#[test]
fn the_tolerance_can_be_turned_off() {
    let tests = functional("f", &[("3", "0.3"), ("4", "0.3")]);
    let text = "```python\ndef f(n):\n    return 0.1 + 0.2\n```";
    let mut task = completion(text, &tests);
    assert_eq!(judge(task.clone()).reason, Reason::PassedWithinTolerance);
    task.tolerance = Tolerance::EXACT;
    assert_eq!(judge(task).reason, Reason::ValueDiffers);
}

#[test]
fn any_of_several_right_outputs_passes() {
    use evenkeel_sandbox::rows::{Test, TestKind};
    let one_test = |kind, output: &str, other: &str, name: Option<&str>| {
        let test = Test { alternatives: vec![other.to_owned()], ..Test::new(kind, "1", output) };
        Arc::new(Tests::new(vec![test], name.map(str::to_owned)).expect("the test is well formed"))
    };
    let functional = one_test(TestKind::Functional, "[4]", "4", Some("f"));
    let stdin = one_test(TestKind::Stdin, "yes", "YES", None);
    for (value, passes) in [("[4]", true), ("4", true), ("(4,)", true), ("[[4]]", false), ("'4'", false)] {
        let text = format!("```python\ndef f(n):\n    return {value}\n```");
        assert_eq!(judge(completion(&text, &functional)).passed(), passes, "{value}");
    }
    for (text, passes) in [("yes", true), ("YES", true), ("Yes", false)] {
        assert_eq!(judge(completion(&format!("```python\nprint('{text}')\n```"), &stdin)).passed(), passes, "{text}");
    }
}

#[test]
fn blocks_that_are_only_parsed_are_not_run() {
    let tests = stdin(&[("3", "6")]);
    let endless = "```python\nwhile True:\n    x = undefined\n```\n";
    let verdict = judge(completion(&format!("{RIGHT}{endless}"), &tests));
    assert!(verdict.passed(), "{}", verdict.detail);
    // A block that the interpreter can hardly parse ends the choice and no more.
    let deep = format!("```python\nx = {}1{}\n```\n", "(".repeat(50_000), ")".repeat(50_000));
    let verdict = judge(completion(&format!("{deep}{RIGHT}"), &tests));
    assert!(verdict.passed(), "{}", verdict.detail);
}
