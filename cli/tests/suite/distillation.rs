//! Runs that a teacher teaches, in a folder or the model itself with hints: their steps are weighed again and recomputed,
//! and with another teacher they are refused.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::replay::{ALL_WEIGHTS, SIGNAL, edit, recorded, said};
use crate::support::{WORDS, evenkeel, refused, resume, small, succeed};

/// The settings of a run of two steps that begins with the fresh model.
const SHORT: [&str; 3] = ["run.steps=2", "warm_start.steps=0", ALL_WEIGHTS];

/// A fresh model of that seed in a folder, another one than that of the run.
fn fresh(folder: &Path, seed: u64) -> PathBuf {
    let model = folder.join(format!("seed-{seed}"));
    let mut command = evenkeel(&["model", "--set", &format!("run.seed={seed}"), "--recipe"]);
    command.arg(small()).arg("--out").arg(&model);
    succeed(command);
    model
}

fn weigh(run: &Path) -> Command {
    let mut command = evenkeel(&["replay", "--set", "learner.objective.aggregation=token"]);
    command.arg(run);
    command
}

fn check(run: &Path, step: u64) -> Command {
    let mut command = evenkeel(&["check", "--step", &step.to_string()]);
    command.arg(run);
    command
}

/// Weighs both steps of a run again and recomputes each, and requires the recorded bits.
fn assert_reproduced(run: &Path) {
    let (status, stdout, stderr) = said(weigh(run));
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    for step in [1, 2] {
        let equal =
            format!("step {step}: samples, loss, gradient and weights are equal to the recorded ones, to the bit");
        assert!(stdout.contains(&equal), "{stdout}");
        let (status, stdout, stderr) = said(check(run, step));
        assert_eq!(status, Some(0), "{stdout}{stderr}");
        assert!(stdout.ends_with(&format!("equal: step {step} is what the run recorded\n")), "{stdout}");
    }
}

#[test]
fn steps_that_a_teacher_taught_are_reproduced_and_refused_with_another_teacher() {
    let dir = tempfile::tempdir().unwrap();
    let [teacher, other] = [8, 9].map(|seed| fresh(dir.path(), seed).join("model.safetensors"));
    let out = dir.path().join("run");
    let folder = format!("learner.distillation.teacher={}", teacher.parent().unwrap().display());
    let settings = [folder.as_str(), "learner.distillation.reward_weight=0.5", SIGNAL];
    succeed(recorded(&out, &[&SHORT[..], &settings].concat()));
    assert_reproduced(&out);

    std::fs::copy(other, &teacher).unwrap();
    let (status, _, stderr) = said(weigh(&out));
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("was recorded with other files: weights of the teacher "), "{stderr}");
    let (status, stdout, _) = said(check(&out, 2));
    assert_eq!(status, Some(2), "{stdout}");
    let last = stdout.lines().last().unwrap_or_default();
    assert!(last.starts_with("cannot be recomputed because ") && last.contains("weights of the teacher "), "{stdout}");
    let mut longer = resume(&out);
    longer.args(["--steps", "3"]);
    let said = refused(longer);
    assert!(said.contains("inputs of the run have changed since it began: weights of the teacher "), "{said}");
}

#[test]
fn steps_that_a_model_taught_itself_are_reproduced_and_refused_with_another_hint() {
    let dir = tempfile::tempdir().unwrap();
    let row = |word: &&str| serde_json::json!({"prompt": format!("say {word}\n"), "hint": word}).to_string() + "\n";
    let rows = dir.path().join("rows.jsonl");
    std::fs::write(&rows, WORDS.iter().map(row).collect::<String>()).unwrap();
    let out = dir.path().join("run");
    let files = format!("data.files={}", rows.display());
    let hints = ["data.verifier=none", "data.hint=(write {hint})", "learner.distillation.hints=true"];
    succeed(recorded(&out, &[&SHORT[..], &hints, &[files.as_str()]].concat()));
    assert_reproduced(&out);

    edit(&out, 1, |rollouts| {
        for hinted in rollouts.iter_mut().filter_map(|rollout| rollout.hinted_prompt_token_ids.as_mut()) {
            hinted.swap(0, 1);
        }
    });
    let (status, stdout, stderr) = said(weigh(&out));
    assert_eq!(status, Some(1), "{stdout}{stderr}");
    assert!(stderr.contains("step 1 is not what was recorded: "), "{stderr}");
    let (status, stdout, _) = said(check(&out, 1));
    assert_eq!(status, Some(1), "{stdout}");
    assert!(stdout.lines().last().is_some_and(|last| last.starts_with("different in ")), "{stdout}");
}
