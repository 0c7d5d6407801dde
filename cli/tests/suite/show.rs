//! `evenkeel show` on the samples of training steps, and that they are what the learner trained on.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{evenkeel, lines, refused, succeed, train};

fn show(run: &Path, more: &[&str]) -> Command {
    let mut command = evenkeel(&["show"]);
    command.arg(run).args(more);
    command
}

fn text(command: Command) -> String {
    String::from_utf8(succeed(command).stdout).unwrap()
}

fn rows(command: Command) -> Vec<Value> {
    text(command).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_training_step_is_shown_as_an_evaluation_is() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let said = String::from_utf8(succeed(train(&run)).stderr).unwrap();
    assert!(said.contains("samples of every step are kept in rollouts/ in the run directory"), "{said}");

    let shown = text(show(&run, &["--step", "2"]));
    assert_eq!((shown.matches("════ step 2 · problem ").count(), shown.matches("──── sample ").count()), (4, 32));
    assert!(shown.contains("\nlearner   trained on, advantage ") && shown.contains("\nweights   version "), "{shown}");

    // Step 6 was evaluated as well.
    let evaluation = succeed(show(&run, &["--step", "6"]));
    assert!(String::from_utf8(evaluation.stdout).unwrap().starts_with("════ arithmetic · problem 1"));
    assert!(String::from_utf8(evaluation.stderr).unwrap().contains("add --train for the samples that step 6"));
    let sixth = rows(show(&run, &["--step", "6", "--train", "--json"]));
    assert!(sixth.len() == 32 && sixth.iter().all(|row| row["step"] == 6));
    assert_eq!(rows(show(&run, &["--train", "--json"])), sixth, "the newest step");

    let longest = rows(show(&run, &["--train", "--longest", "3", "--json"]));
    let length = |row: &Value| row["tokens"].as_u64().unwrap();
    let most = sixth.iter().map(length).max();
    assert!(
        longest.len() == 3
            && Some(length(&longest[0])) == most
            && longest.is_sorted_by_key(|row| -(length(row) as i64))
    );
    let count = |filter: &str| rows(show(&run, &["--train", filter, "--json"])).len();
    assert_eq!(count("--right") + count("--wrong") + count("--invalid"), 32);
    assert!(rows(show(&run, &["--train", "--no-answer", "--json"])).iter().all(|row| row["verdict"] == "no_answer"));

    let name = sixth[0]["problem"].as_str().unwrap();
    let number = (sixth[0]["index"].as_u64().unwrap() + 1).to_string();
    let by_name = rows(show(&run, &["--train", "--problem", name, "--json"]));
    assert_eq!(by_name, rows(show(&run, &["--train", "--problem", &number, "--json"])));
    assert!(by_name.len() >= 8 && by_name.iter().all(|row| row["problem"] == name));

    let refusal = refused(show(&run, &["--step", "99"]));
    assert!(
        refusal.contains("a step that was evaluated: 0, 6; or one whose training samples are kept: 1-6"),
        "{refusal}"
    );
    let one = run.join("rollouts/step-3.jsonl.zst");
    assert_eq!(text(show(&one, &[])).matches("──── sample ").count(), 32, "a file that is named");
}

/// What is kept is what the learner computed with: the loss of the step is the sum over its tokens.
#[test]
fn samples_add_up_to_the_loss_of_their_step() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let mut command = train(&run);
    // Under balanced aggregation the loss is 0.
    command.args(["--set", "learner.objective.aggregation=token"]);
    succeed(command);
    let losses: Vec<f64> = lines(&run).iter().filter_map(|line| line.get("actor/pg_loss")?.as_f64()).collect();
    assert_eq!(losses.len(), 6);
    let mut all = 0.0;
    for (step, loss) in (1..).zip(losses) {
        let rows = rows(show(&run, &["--train", "--step", &step.to_string(), "--json"]));
        let mut sum = 0.0;
        let mut size = 0.0;
        for row in &rows {
            let value = |name: &str| row[name].as_f64();
            assert_eq!(row["not_trained"].is_null(), value("ratio").is_some(), "{row}");
            let gap = value("log_probability").map(|learner| learner - value("rollout_log_probability").unwrap());
            assert!(gap.is_none_or(|gap| gap.abs() < 1e-3), "engine and learner have the same weights: {row}");
            let term = value("weight").unwrap() * value("advantage").unwrap() * value("ratio").unwrap_or(1.0);
            sum -= term * value("tokens").unwrap();
            size += (term * value("tokens").unwrap()).abs();
        }
        assert!((sum - loss).abs() <= 1e-3 * size + 1e-12, "step {step}: {sum} is not {loss}");
        all += loss.abs();
    }
    assert!(all > 1e-3, "some steps have groups that disagree");
}
