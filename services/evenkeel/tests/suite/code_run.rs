//! A run on programs: sampled by the embedded engine, judged by the code verifier, trained on.

use serde_json::{Value, json};

use crate::support::{evenkeel, lines, succeed, summary, train};

/// Four rows: two questions, each with a demonstration that passes its tests and one that does not.
fn rows() -> String {
    let question = |name: &str, tests: [(&str, &str); 2], programs: [&str; 2]| {
        let tests: Vec<Value> = tests.map(|(input, output)| json!({"input": input, "output": output})).to_vec();
        programs.map(|program| {
            let demonstration = format!("```python\nprint({program})\n```");
            let prompt = format!("{name}\n");
            json!({"question_id": name, "prompt": prompt, "public_test_cases": tests, "demonstration": demonstration})
                .to_string()
        })
    };
    let rows = [
        question("double", [("1", "2"), ("4", "8")], ["int(input())*2", "int(input())*3"]),
        question("square", [("3", "9"), ("5", "25")], ["int(input())**2", "int(input())**3"]),
    ];
    rows.concat().join("\n")
}

#[test]
fn a_run_on_programs_samples_judges_and_trains() {
    let dir = tempfile::tempdir().unwrap();
    let (data, out) = (dir.path().join("programs.jsonl"), dir.path().join("run"));
    std::fs::write(&data, rows()).unwrap();
    // The interpreter is built before anything has a deadline.
    succeed(evenkeel(&["guest"]));
    let mut command = train(&out);
    let path = format!("data.files={}", data.display());
    let settings = [
        &path,
        "evaluation.problems=0",
        "warm_start.steps=150",
        "learner.supervised.total_updates=150",
        "sampling.prompts_per_step=2",
    ];
    command.args(settings.iter().flat_map(|setting| ["--set", setting])).args(["--steps", "3"]);
    succeed(command);
    let summary = summary(&out).unwrap();
    assert_eq!(
        (&summary["state"], &summary["steps"], &summary["invalid_samples"]),
        (&"completed".into(), &3.into(), &0.into())
    );
    let lines = lines(&out);
    let sum = |name: &str| lines.iter().filter_map(|line| line.get(name)?.as_f64()).sum::<f64>();
    assert_eq!(sum("rollout/samples"), 48.0);
    let (passed, failed) = (sum("rollout/outcome/correct"), sum("rollout/outcome/wrong_answer"));
    assert!(passed > 0.0 && failed > 0.0, "{passed} programs passed, {failed} gave a wrong answer: {lines:?}");
    assert!(sum("actor/grad_norm") > 0.0, "programs of unequal worth teach something");
}
