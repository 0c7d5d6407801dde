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
    let data = dir.path().join("programs.jsonl");
    let out = dir.path().join("run");
    std::fs::write(&data, rows()).unwrap();
    // The interpreter is built before anything has a deadline.
    succeed(evenkeel(&["guest"]));
    let mut command = train(&out);
    let path = format!("data.files={}", data.display());
    let settings = [
        &path,
        "data.program_prompt=plain",
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
    let passed = sum("rollout/outcome/correct");
    let failed = sum("rollout/outcome/wrong_answer");
    assert!(passed > 0.0 && failed > 0.0, "{passed} programs passed, {failed} gave a wrong answer: {lines:?}");
    assert!(sum("actor/grad_norm") > 0.0, "programs of unequal worth teach something");
}

#[test]
fn the_recipe_code_asks_for_programs_of_its_own_and_runs_them() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    succeed(evenkeel(&["guest"]));
    let mut command = evenkeel(&["train", "--recipe", "code", "--steps", "2", "--out"]);
    let settings = [
        "warm_start.steps=150",
        "learner.supervised.total_updates=150",
        "sampling.prompts_per_step=4",
        "evaluation.problems=8",
    ];
    command.arg(&out).args(settings.iter().flat_map(|setting| ["--set", setting]));
    succeed(command);
    let lines = lines(&out);
    let sum = |name: &str| lines.iter().filter_map(|line| line.get(name)?.as_f64()).sum::<f64>();
    assert_eq!((sum("rollout/samples"), sum("rollout/invalid_samples")), (128.0, 0.0));
    let judged: f64 = lines
        .iter()
        .flatten()
        .filter(|(name, _)| name.starts_with("rollout/outcome/"))
        .filter_map(|(_, count)| count.as_f64())
        .sum();
    assert_eq!(judged, 128.0, "every program has an outcome: {lines:?}");
    assert!(sum("val-aux/programs/problems") > 0.0, "{lines:?}");
}

#[test]
fn mathematics_and_programs_in_one_run_have_metrics_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let programs = dir.path().join("programs.jsonl");
    let sums = dir.path().join("sums.jsonl");
    let out = dir.path().join("run");
    std::fs::write(&programs, rows()).unwrap();
    let sum = |n: u32| {
        json!({"prompt": format!("{n}+1=\n"), "answer": n + 1, "demonstration": format!("\\boxed{{{}}}", n + 1 + n % 2)}).to_string()
    };
    std::fs::write(&sums, (10..14).map(sum).collect::<Vec<_>>().join("\n")).unwrap();
    succeed(evenkeel(&["guest"]));
    let mut command = train(&out);
    let sources = format!("data.sources=[{{files=[{programs:?}]}}, {{files=[{sums:?}]}}]");
    let settings = [
        &sources,
        "data.program_prompt=plain",
        "evaluation.problems=0",
        "warm_start.steps=100",
        "learner.supervised.total_updates=100",
    ];
    command.args(settings.iter().flat_map(|setting| ["--set", setting])).args(["--steps", "3"]);
    succeed(command);
    let lines = lines(&out);
    let sum = |name: &str| lines.iter().filter_map(|line| line.get(name)?.as_f64()).sum::<f64>();
    assert_eq!((sum("rollout/samples"), sum("rollout/invalid_samples")), (96.0, 0.0));
    for source in ["programs", "sums"] {
        let source_sum = |name: &str| sum(&format!("data_source/{source}/{name}"));
        assert_eq!(source_sum("groups"), 6.0, "half of the prompts of each step: {lines:?}");
        assert!(source_sum("response_length/mean") > 0.0, "{lines:?}");
    }
    let trained: Vec<_> = lines.iter().filter(|line| line["kind"] == "train").collect();
    for line in trained {
        let value = |name: &str| line[name].as_f64().unwrap();
        let mean = (value("data_source/programs/score/mean") + value("data_source/sums/score/mean")) / 2.0;
        assert!((value("critic/score/mean") - mean).abs() < 1e-9, "{line:?}");
    }
}
