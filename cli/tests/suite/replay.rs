//! Replay of a recorded run: answers judged again, steps reproduced and weighed again, edited files named.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use evenkeel_proto::v1::FinishReason;
use evenkeel_run::{Rollout, encode_rollouts, read_rollouts, rollout_file};
use serde_json::Value;

use crate::support::{Process, WORDS, count_lines, evenkeel, resume, succeed, train, wait_for, write_rows};

const RULES: &str = "learner.objective.aggregation=token,sequence,balanced,dr-grpo";

/// Rewards that depend on length: a model that is always wrong has advantages as well.
pub(crate) const SIGNAL: &str = "shaping.overlong_buffer_tokens=60";

/// Every checkpoint stays, that before the first step among them.
pub(crate) const ALL_WEIGHTS: &str = "checkpoint.keep=0";

/// A run of the small recipe that keeps tokens, with whatever else is set.
pub(crate) fn recorded(out: &Path, set: &[&str]) -> Command {
    let mut command = train(out);
    let kept = ["run.rollout_tokens=true", "evaluation.problems=0"];
    command.args(kept.iter().chain(set).flat_map(|setting| ["--set", setting]));
    command
}

fn replay(run: &Path, arguments: &[&str]) -> Command {
    let mut command = evenkeel(&["replay"]);
    command.arg(run).args(arguments);
    command
}

/// The exit status, stdout and stderr of a command.
pub(crate) fn said(mut command: Command) -> (Option<i32>, String, String) {
    let output = command.output().expect("the binary starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("messages are text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The objects of a kind in lines of JSON.
fn objects(text: &str, kind: Option<&str>) -> Vec<Value> {
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    all.filter(|value| value.get("kind").and_then(Value::as_str) == kind).collect()
}

/// Rewrites the samples of a step.
pub(crate) fn edit(run: &Path, step: u64, change: impl FnOnce(&mut Vec<Rollout>)) {
    let mut rollouts = read_rollouts(run, step).unwrap();
    change(&mut rollouts);
    std::fs::write(rollout_file(run, step), encode_rollouts(&rollouts).unwrap()).unwrap();
}

/// Every file below a folder, with its size and the time of its last change.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            all.extend(files(&entry.path()));
        } else {
            all.insert(entry.path(), (metadata.len(), metadata.modified().unwrap()));
        }
    }
    all
}

#[test]
fn the_same_verifier_changes_nothing_and_a_stricter_policy_changes_the_planted_answers() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    succeed(recorded(&out, &["run.steps=2", "data.math_copied=accept"]));
    // Equal to the gold answer, and copied from the prompt.
    let mut planted = Vec::new();
    edit(&out, 2, |rollouts| {
        for rollout in rollouts.iter_mut().step_by(9) {
            rollout.text = format!("\\boxed{{{}}}", rollout.problem);
            (rollout.verdict, rollout.reason) = ("correct".to_owned().into(), "equal".to_owned());
            (rollout.reward, rollout.shaped_reward) = (Some(1.0), Some(1.0));
            planted.push((rollout.group, rollout.sample));
        }
    });
    let before = files(&out);
    let (status, stdout, stderr) = said(replay(&out, &[]));
    assert_eq!((status, stdout.as_str()), (Some(0), "0 of 64 verdicts changed\n"), "{stderr}");
    assert!(!stderr.contains("WARN") && !stderr.contains("127.0.0.1:1"), "nobody else is connected to: {stderr}");

    let stricter = ["--set", "data.math_copied=refuse", "--json"];
    let (status, stdout, stderr) = said(replay(&out, &stricter));
    assert_eq!(status, Some(1), "{stderr}");
    let changed = objects(&stdout, Some("verdict"));
    let found: Vec<_> = changed.iter().map(|line| (line["group"].clone(), line["sample"].clone())).collect();
    let expected: Vec<_> = planted.iter().map(|(group, sample)| ((*group).into(), (*sample).into())).collect();
    assert_eq!(found, expected, "{stdout}");
    for line in &changed {
        assert_eq!((&line["recorded"]["verdict"], &line["now"]["verdict"]), (&"correct".into(), &"incorrect".into()));
        assert_eq!((&line["now"]["reason"], &line["now"]["reward"]), (&"copied".into(), &0.0.into()));
    }
    let steps = objects(&stdout, Some("step"));
    let lost = steps[1]["recorded_reward"].as_f64().unwrap() - steps[1]["reward"].as_f64().unwrap();
    assert!((lost - planted.len() as f64 / 32.0).abs() < 1e-12, "{stdout}");
    assert_eq!(steps[0]["recorded_reward"], steps[0]["reward"]);

    let (status, stdout, _) = said(replay(&out, &["--set", "data.math_copied=refuse", "--steps", "2"]));
    assert_eq!(status, Some(1));
    assert!(stdout.contains("copied") && stdout.ends_with(&format!("{} of 32 verdicts changed\n", planted.len())));
    assert_eq!(said(replay(&out, &["--set", "data.math_copied=refuse", "--steps", "1"])).0, Some(0));
    assert_eq!(files(&out), before, "nothing of the run is written");

    // A sample without an answer has no reward, and one without a verdict is not compared.
    edit(&out, 1, |rollouts| {
        rollouts[0].finish_reason = FinishReason::Failed.into();
        (rollouts[0].reward, rollouts[0].shaped_reward) = (Some(1.0), Some(1.0));
        rollouts[1].finish_reason = FinishReason::Failed.into();
        rollouts[1].verdict = "failed".to_owned().into();
        rollouts[2].verdict = "invalid".to_owned().into();
        rollouts[1..3].iter_mut().for_each(|rollout| (rollout.reward, rollout.shaped_reward) = (None, None));
    });
    let (status, stdout, stderr) = said(replay(&out, &["--steps", "1"]));
    assert_eq!(status, Some(1), "{stderr}");
    assert!(
        stdout.contains("\n2 samples were not compared: ") && stdout.ends_with("1 of 32 verdicts changed\n"),
        "{stdout}"
    );
}

#[test]
fn a_reward_file_is_replaced_by_another_and_what_was_not_recorded_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    write_rows(dir.path(), &WORDS);
    let file = |name: &str, reward: &str| {
        let text = format!("def reward(completion, row):\n    return {reward}\n");
        std::fs::write(dir.path().join(name), text).unwrap();
    };
    file("reward.py", "1.0 / (1 + len(completion.token_ids))");
    file("nothing.py", "0.0");
    let mut command = recorded(Path::new("run"), &["run.steps=1", "data.files=rows.jsonl", "data.verifier=words"]);
    command.args(["--set", "data.verifiers.words.path=reward.py"]).current_dir(dir.path());
    succeed(command);
    let replayed = |arguments: &[&str]| {
        let mut command = replay(Path::new("run"), arguments);
        command.current_dir(dir.path());
        said(command)
    };
    let (status, stdout, stderr) = replayed(&[]);
    assert_eq!((status, stdout.as_str()), (Some(0), "0 of 32 verdicts changed\n"), "{stderr}");
    let (status, stdout, stderr) = replayed(&["--verifier", "nothing.py"]);
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stdout.ends_with("32 of 32 verdicts changed\n") && stderr.contains("nothing.py"), "{stdout}{stderr}");

    let absent = "data.verifiers.judge.endpoints=[\"http://127.0.0.1:1\"]";
    let (status, _, stderr) = replayed(&["--verifier", "judge", "--set", absent]);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("`judge` (http://127.0.0.1:1), which does not answer"), "{stderr}");
    let (status, _, stderr) = replayed(&["--set", "data.environment=guess-number"]);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(stderr.contains("data.environment is \"guess-number\"") && stderr.contains("was not recorded"), "{stderr}");
    write_rows(dir.path(), &["perhaps"]);
    let (status, _, stderr) = replayed(&[]);
    assert_eq!(status, Some(2), "{stderr}");
    assert!(
        stderr.contains("was recorded with other files: data file ") && stderr.contains("rows.jsonl has"),
        "{stderr}"
    );
}

/// Prompt, sample, advantage and weight of each sample of a weighed step.
fn samples_of(line: &Value) -> Vec<[Value; 4]> {
    let samples = line["samples"].as_array().unwrap().iter();
    samples.map(|sample| ["group", "sample", "advantage", "weight"].map(|name| sample[name].clone())).collect()
}

/// What the run recorded of them.
fn recorded_samples(run: &Path, line: &Value) -> Vec<[Value; 4]> {
    let rollouts = read_rollouts(run, line["step"].as_u64().unwrap()).unwrap().into_iter();
    let sent = rollouts.filter(|rollout| rollout.advantage.is_some());
    sent.map(|sent| [sent.group.into(), sent.sample.into(), sent.advantage.into(), sent.weight.into()]).collect()
}

#[test]
fn every_step_is_reproduced_to_the_bit_after_a_kill_and_weighed_by_every_rule() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let process = Process::start(recorded(&out, &[SIGNAL, ALL_WEIGHTS]));
    wait_for("step 3", || count_lines(&out.join("metrics.jsonl")) >= 3);
    process.kill();
    succeed(resume(&out));
    let before = files(&out);
    let (status, stdout, stderr) = said(replay(&out, &["--set", RULES, "--json"]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    let weighed = objects(&stdout, None);
    assert_eq!(weighed.len(), 6 * 4, "{stdout}");
    let metrics = std::fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let recorded = objects(&metrics, Some("train"));
    for line in &weighed {
        assert_eq!((&line["equal"], &line["equal_weights"]), (&true.into(), &true.into()));
        let number = |name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name} of {line}"));
        let shares: f64 = line["share_by_length"].as_array().unwrap().iter().filter_map(Value::as_f64).sum();
        assert!((shares - 1.0).abs() < 1e-9 && number("positive") > 0.0 && number("negative") > 0.0, "{line}");
        if line["recorded"] == true {
            let of_step = &recorded[line["step"].as_u64().unwrap() as usize - 1];
            let norm = of_step["actor/grad_norm"].as_f64().unwrap();
            assert!((number("gradient_norm") / norm - 1.0).abs() < 1e-5, "{line}");
            assert!((number("cosine") - 1.0).abs() < 1e-9, "{line}");
            assert_eq!(samples_of(line), recorded_samples(&out, line), "{line}");
        } else {
            assert!(number("cosine") < 1.0, "{line}");
            assert_ne!(samples_of(line), recorded_samples(&out, line), "other rules have other weights: {line}");
        }
    }
    let of_rule = |rule: &str| weighed.iter().filter(|line| line["rule"] == rule && line["recorded"] == true).count();
    assert_eq!([of_rule("balanced"), of_rule("token"), of_rule("sequence-sum")], [6, 0, 0]);
    let (status, stdout, _) = said(replay(&out, &["--set", RULES, "--steps", "4"]));
    assert_eq!(status, Some(0));
    let equal = "step 4: samples, loss, gradient and weights are equal to the recorded ones, to the bit\n";
    assert!(stdout.starts_with(equal), "{stdout}");
    for steps in ["4..9", "9", "9.."] {
        for settings in [RULES, "data.math_copied=refuse"] {
            let (status, _, stderr) = said(replay(&out, &["--set", settings, "--steps", steps]));
            assert_eq!(status, Some(2), "{steps}: {stderr}");
            assert!(stderr.contains("--steps is ") && stderr.contains("steps that the run has"), "{stderr}");
        }
    }
    assert_eq!(files(&out), before, "nothing of the run is written");
}

#[test]
fn a_dial_that_turns_is_reproduced_and_weighed_beside_others() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let dial = [
        "run.steps=3",
        "learner.objective.aggregation=sides",
        "learner.objective.length_exponent=0.5",
        "learner.objective.side_ratio=[[1, 1.0], [3, 0.0]]",
    ];
    succeed(recorded(&out, &[&dial[..], &[SIGNAL, ALL_WEIGHTS]].concat()));
    let metrics = objects(&std::fs::read_to_string(out.join("metrics.jsonl")).unwrap(), Some("train"));
    let ratios: Vec<_> = metrics.iter().map(|line| line["aggregation/side_ratio"].as_f64()).collect();
    assert_eq!(ratios, [Some(1.0), Some(0.5), Some(0.0)]);
    let asked = ["learner.objective.aggregation=sides,balanced", "learner.objective.length_exponent=0,1"];
    let (status, stdout, stderr) = said(replay(&out, &["--set", asked[0], "--set", asked[1], "--json"]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    let weighed = objects(&stdout, None);
    assert_eq!(weighed.len(), 3 * 4, "balanced, the recorded dial and two others at each step: {stdout}");
    for (of_step, ratio) in weighed.chunks(4).zip(ratios) {
        let number = |line: &Value, name: &str| line[name].as_f64().unwrap_or_else(|| panic!("{name} of {line}"));
        let of_exponent = |exponent: f64| of_step.iter().find(|line| line["length_exponent"] == exponent).unwrap();
        let balanced = of_step.iter().find(|line| line["rule"] == "balanced").unwrap();
        let recorded = of_exponent(0.5);
        assert!(recorded["recorded"] == true && recorded["side_ratio"].as_f64() == ratio, "{recorded}");
        for name in ["gradient_norm", "positive_gradient_norm", "negative_gradient_norm", "positive", "negative"] {
            let (one, other) = (number(of_exponent(1.0), name), number(balanced, name));
            assert!((one / other - 1.0).abs() < 1e-6, "{name}: {one} and {other}");
        }
        assert_eq!(number(recorded, "positive_gradient_norm") == 0.0, ratio == Some(0.0), "{recorded}");
    }
}

#[test]
fn an_edited_rollout_is_named_with_its_step_its_prompt_and_its_sample() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    succeed(recorded(&out, &["run.steps=3", SIGNAL, ALL_WEIGHTS]));
    let trained = |rollout: &&mut Rollout| rollout.not_trained.is_none();
    let whole = std::fs::read(rollout_file(&out, 2)).unwrap();
    let refused = |edit_of: &dyn Fn(&mut Rollout), words: &[&str], status: i32| {
        let mut place = String::new();
        edit(&out, 2, |rollouts| {
            let rollout = rollouts.iter_mut().find(trained).expect("some sample was trained on");
            place = format!("sample {} of prompt {}", rollout.sample, rollout.group);
            edit_of(rollout);
        });
        let (found, stdout, stderr) = said(replay(&out, &["--set", RULES, "--steps", "1..3"]));
        assert_eq!(found, Some(status), "{stderr}");
        assert!(
            stdout.starts_with("step 1: samples, loss, gradient and weights are equal")
                && stderr.contains("step 2 ")
                && stderr.contains(&place),
            "{stderr}"
        );
        assert!(words.iter().all(|word| stderr.contains(word)), "{words:?}: {stderr}");
        std::fs::write(rollout_file(&out, 2), &whole).unwrap();
    };
    refused(&|rollout| rollout.token_ids.as_mut().unwrap()[0] ^= 1, &["log-probability"], 1);
    refused(&|rollout| rollout.advantage = rollout.advantage.map(|advantage| advantage + 1e-9), &["advantage"], 1);
    refused(&|rollout| rollout.advantage = None, &["has advantage none in its rollouts"], 1);
    refused(&|rollout| rollout.token_ids = None, &["run.rollout_tokens"], 2);
    refused(&|rollout| rollout.segments[0].tokens += 1, &["segments"], 1);
    refused_line(&out, &whole);
    // A reward moves the advantages of its whole group, of which the first sample is named.
    edit(&out, 2, |rollouts| {
        let rollout = rollouts.iter_mut().find(trained).unwrap();
        rollout.shaped_reward = rollout.shaped_reward.map(|reward| 1.0 - reward);
    });
    let (status, _, stderr) = said(replay(&out, &["--set", RULES, "--steps", "2"]));
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("step 2 is not what was recorded: sample 0 of prompt "), "{stderr}");
}

/// A verdict decides no gradient, but what the step says of right and wrong answers.
fn refused_line(run: &Path, whole: &[u8]) {
    edit(run, 2, |rollouts| {
        let correct = rollouts.iter().filter(|rollout| rollout.verdict.label() == "correct").count();
        let verdict = if correct == 0 { "correct" } else { "incorrect" };
        rollouts.iter_mut().step_by(2).for_each(|rollout| rollout.verdict = verdict.to_owned().into());
    });
    let (status, _, stderr) = said(replay(run, &["--set", RULES, "--steps", "2"]));
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("`aggregation/length_gap_pooled` is"), "{stderr}");
    std::fs::write(rollout_file(run, 2), whole).unwrap();
}

#[test]
fn what_a_replay_needs_and_the_run_no_longer_has_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    succeed(recorded(&out, &["run.steps=4", "checkpoint.keep=1", "checkpoint.keep_weights=2", SIGNAL]));
    let weigh = |steps: &[&str]| said(replay(&out, &[&["--set", RULES][..], steps].concat()));
    // The published weights of step 3 are still there, without moments.
    let (status, stdout, stderr) = weigh(&[]);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(
        stdout.contains("step 4: samples, loss and gradient are equal to the recorded ones, to the bit; its weights")
            && stderr.contains("step 1 cannot be replayed"),
        "{stdout}{stderr}"
    );
    let (status, _, stderr) = weigh(&["--steps", "2"]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("no weights from before it are left (checkpoint.keep and"), "{stderr}");
    // One bit of the weights.
    let weights = std::fs::read_dir(out.join("weights")).unwrap().flatten().map(|entry| entry.path());
    for file in weights.map(|folder| folder.join("model.safetensors")).filter(|file| file.exists()) {
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, bytes).unwrap();
    }
    let (status, _, stderr) = weigh(&["--steps", "4"]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("weights are damaged: their digest is"), "{stderr}");
    std::fs::remove_file(rollout_file(&out, 4)).unwrap();
    let (status, _, stderr) = weigh(&["--steps", "4"]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("step 4 cannot be replayed: its rollouts are not there"), "{stderr}");
    std::fs::write(out.join("rollouts/thinned.json"), "[4]").unwrap();
    assert!(weigh(&["--steps", "4"]).2.contains("run.rollouts_disk"));
    let tokenizer = out.join("model/tokenizer.json");
    let text = std::fs::read_to_string(&tokenizer).unwrap();
    std::fs::write(&tokenizer, text + " ").unwrap();
    let (status, _, stderr) = weigh(&[]);
    assert_eq!(status, Some(2));
    assert!(stderr.contains("was recorded with other files: tokenizer.json of the model"), "{stderr}");
}
