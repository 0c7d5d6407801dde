//! `check --step`: steps recomputed, however they were done; edits that no file contradicts, found by recomputing; and
//! what cannot be recomputed, which is never called different.

use std::path::{Path, PathBuf};
use std::process::Command;

use evenkeel_model_folder::{Folder, VersionMarker, weights_digest};
use evenkeel_run::{PROGRAM, Rollout};
use evenkeel_testkit::chat_server::{ChatAnswer, ChatServer};

use crate::cluster::one_and_five;
use crate::lora::{learned, lora};
use crate::replay::{ALL_WEIGHTS, SIGNAL, files, recorded, said};
use crate::support::{
    Process, WORDS, count_lines, determined_head, evenkeel, resume, succeed, train, train_recipe, wait_for, write_rows,
};
use crate::tampering::{copy, edit_samples_and_all_digests, line_of, make_correct, recompute};

/// The exit status, stdout and stderr of `check --step`.
fn checked(run: &Path, step: u64, more: &[&str]) -> (Option<i32>, String, String) {
    let mut command = evenkeel(&["check", "--step", &step.to_string()]);
    command.arg(run).args(more);
    said(command)
}

/// Recomputes a step, which must be equal, with all of its tokens; returns what was said.
fn assert_equal(run: &Path, step: u64) -> String {
    let (status, stdout, stderr) = checked(run, step, &[]);
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    let last = format!("equal: step {step} is what the run recorded\n");
    assert!(stdout.ends_with(&last), "{stdout}");
    assert!(stdout.contains(&format!(" sampled tokens of step {step} are drawn again\n")), "{stdout}");
    assert!(stderr.contains("note: recomputing ") && stderr.contains(" takes about "), "{stderr}");
    stdout
}

/// The command that weighs a step of a run again.
fn weigh(run: &Path, step: &str) -> Command {
    let mut command = evenkeel(&["replay", "--set", "learner.objective.aggregation=token,balanced", "--steps", step]);
    command.arg(run);
    command
}

/// Weighs a step by two rules, of which the run's own must be reproduced with its weights.
pub(crate) fn assert_weighed(run: &Path, step: u64) {
    let (status, stdout, stderr) = said(weigh(run, &step.to_string()));
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    let equal = format!("step {step}: samples, loss, gradient and weights are equal to the recorded ones, to the bit");
    let has_rules = stdout.contains("\nbalanced (recorded) ") && stdout.contains("\ntoken ");
    assert!(stdout.starts_with(&equal) && has_rules, "{stdout}");
}

/// A step that cannot be recomputed, for that reason.
fn assert_cannot(run: &Path, step: u64, words: &str) {
    let (status, stdout, stderr) = checked(run, step, &[]);
    assert_eq!(status, Some(2), "{stdout}{stderr}");
    let last = stdout.lines().last().unwrap_or_default();
    assert!(last.starts_with("cannot be recomputed because ") && last.contains(words), "{words}: {stdout}{stderr}");
}

#[test]
fn every_step_of_a_run_that_was_killed_is_recomputed_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let process = Process::start(recorded(&out, &["run.steps=5", SIGNAL, ALL_WEIGHTS]));
    wait_for("step 3", || count_lines(&out.join("metrics.jsonl")) >= 3);
    process.kill();
    succeed(resume(&out));
    let before = files(&out);
    for (step, first, from) in [(1, 1, 0), (2, 1, 0), (3, 3, 2), (4, 3, 2), (5, 5, 4)] {
        let said = assert_equal(&out, step);
        let steps = format!("steps {first} to {step} are recomputed from the checkpoint after step {from}\n");
        assert!(said.contains(&steps) && said.contains("\n32 verdicts of it are repeated\n"), "{said}");
    }
    assert_eq!(files(&out), before, "nothing of the run is written");
    assert_cannot(&out, 6, "--step is 6, allowed: steps of the run, the last of which is 5");
}

#[test]
fn a_step_that_was_sampled_ahead_is_drawn_again_by_the_weights_that_sampled_it() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    succeed(recorded(&out, &["run.steps=4", "pipeline.max_lag=1", "learner.old_logp=proximal", SIGNAL, ALL_WEIGHTS]));
    (1..=4).for_each(|step| drop(assert_equal(&out, step)));
    assert_weighed(&out, 3);
    // Without the published weights the steps before bring those that sampled it.
    std::fs::remove_dir_all(out.join("weights")).unwrap();
    std::fs::create_dir(out.join("weights")).unwrap();
    let said = assert_equal(&out, 3);
    assert!(said.contains("steps 1 to 3 are recomputed"), "{said}");
}

#[test]
fn parts_of_answers_that_several_versions_sampled_are_drawn_again_each_by_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let partial =
        ["pipeline.max_lag=2", "checkpoint.keep_weights=0", "pipeline.partial=true", "learner.old_logp=rollout"];
    let settings = [&["run.steps=5", SIGNAL, ALL_WEIGHTS][..], &partial].concat();
    succeed(recorded(&out, &settings));
    let said = assert_equal(&out, 5);
    assert!(!said.contains("interrupted"), "{said}");
}

#[test]
fn episodes_with_several_turns_are_drawn_again_turn_by_turn() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut command = train_recipe(&crate::episodes::recipe(dir.path()), &out);
    command.args(["--set", "run.steps=2", "--set", ALL_WEIGHTS]);
    succeed(command);
    let said = assert_equal(&out, 1) + &assert_equal(&out, 2);
    assert_weighed(&out, 1);
    // The game gives its score itself, and its state was not recorded.
    assert!(said.contains("stand as they were recorded\n"), "{said}");
    let (status, stdout, _) = checked(&out, 2, &["--repeat-verdicts"]);
    assert_eq!(status, Some(2), "{stdout}");
    assert!(stdout.contains("cannot be recomputed because ") && stdout.contains("was not recorded"), "{stdout}");
}

#[test]
fn adapters_are_recomputed_from_the_model_and_from_a_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let model = learned(dir.path());
    let out = dir.path().join("run");
    let mut command = lora(&out, &model);
    command.args(["--set", "run.steps=4", "--set", ALL_WEIGHTS, "--set", "evaluation.problems=0"]);
    succeed(command);
    (1..=4).for_each(|step| drop(assert_equal(&out, step)));
    assert_weighed(&out, 3);
}

#[test]
fn a_run_of_five_processes_has_the_head_of_one_and_is_recomputed_in_one() {
    let dir = tempfile::tempdir().unwrap();
    let [alone, run] = one_and_five(dir.path());
    assert_eq!(determined_head(&run), determined_head(&alone));
    // The learner has the checkpoints.
    assert_cannot(&run, 6, "no weights from before it are left");
    std::os::unix::fs::symlink(dir.path().join("checkpoints"), run.join("checkpoints")).unwrap();
    assert_equal(&run, 6);
}

/// A change of a step's samples by someone who computes all digests and the chain again.
struct Edit {
    name: &'static str,
    change: fn(&mut Vec<Rollout>),
    said: &'static str,
}

const EDITS: [Edit; 7] = [
    Edit {
        name: "a token",
        change: |rollouts| {
            let ids = rollouts[5].token_ids.as_mut().unwrap();
            ids[0] = if ids[0] == 5 { 6 } else { 5 };
        },
        said: "has another text than its tokens",
    },
    Edit {
        // Each has the text, the verdict and the advantage of its tokens: seeds alone tell them apart.
        name: "two samples exchanged",
        change: |rollouts| {
            let group = rollouts[0].group;
            let differs = |rollout: &Rollout| rollout.group == group && rollout.token_ids != rollouts[0].token_ids;
            let other = rollouts.iter().position(differs).unwrap();
            let number = rollouts[other].sample;
            rollouts.swap(0, other);
            (rollouts[0].sample, rollouts[other].sample) = (0, number);
        },
        said: ", and seed and logits give ",
    },
    Edit {
        // The digests of the step do not depend on the order, but its groups do.
        name: "two samples in each other's place",
        change: |rollouts| {
            let group = rollouts[0].group;
            let last = rollouts.iter().take_while(|rollout| rollout.group == group).count() - 1;
            rollouts.swap(0, last);
        },
        said: " is in the place of sample 0",
    },
    Edit {
        name: "samples of two prompts in each other's place",
        change: |rollouts| {
            let group = rollouts[0].group;
            let other = rollouts.iter().position(|rollout| rollout.group != group).unwrap();
            rollouts.swap(0, other);
        },
        said: " is in the place of one of prompt ",
    },
    Edit {
        name: "an advantage",
        change: |rollouts| rollouts[0].advantage = Some(0.125),
        said: "has advantage 0.125 in its rollouts, and now ",
    },
    Edit { name: "a verdict", change: |rollouts| make_correct(rollouts), said: "has verdict correct (reward 1.0, " },
    Edit {
        name: "a prompt",
        change: |rollouts| {
            let group = rollouts[0].group;
            for rollout in rollouts.iter_mut().filter(|rollout| rollout.group == group) {
                *rollout.prompt_token_ids.as_mut().unwrap().last_mut().unwrap() ^= 1;
            }
        },
        said: "has another prompt than ",
    },
];

/// A run of which every step can be recomputed.
fn whole_run(folder: &Path) -> PathBuf {
    let out = folder.join("run");
    succeed(recorded(&out, &["run.steps=4", "warm_start.steps=2", SIGNAL, ALL_WEIGHTS]));
    out
}

#[test]
fn an_edit_that_no_file_contradicts_is_found_by_recomputing_the_step() {
    let dir = tempfile::tempdir().unwrap();
    let run = whole_run(dir.path());
    assert_equal(&run, 4);
    for (number, Edit { name, change, said: words }) in EDITS.iter().enumerate() {
        let copied = dir.path().join(number.to_string()).join("run");
        copy(&run, &copied);
        edit_samples_and_all_digests(&copied, 3, *change);
        let mut command = evenkeel(&["check"]);
        command.arg(&copied);
        assert!(command.output().unwrap().status.success(), "{name}: no file contradicts it");
        // Step 4 follows from step 3, which follows from the checkpoint after step 2.
        for step in [3, 4] {
            let (status, stdout, stderr) = checked(&copied, step, &[]);
            assert_eq!(status, Some(1), "{name}: {stdout}{stderr}");
            let last = stdout.lines().last().unwrap();
            let place = "different in step 3, rollouts/step-3.jsonl.zst: sample ";
            assert!(last.starts_with(place) && last.contains(words), "{name}: {words}: {stdout}");
        }
        assert_equal(&copied, 2);
    }
}

/// Forks a run after step 2.
fn fork_of(run: &Path, out: &Path) {
    let mut command = evenkeel(&["train", "--from"]);
    command.arg(format!("{}@2", run.display())).arg("--run").arg(out);
    succeed(command);
}

/// A step that is not what was recorded: the last line, which names the place, and what it says.
fn assert_different(run: &Path, step: u64, place: &str, words: &[&str]) {
    let (status, stdout, stderr) = checked(run, step, &[]);
    assert_eq!(status, Some(1), "{stdout}{stderr}");
    let last = stdout.lines().last().unwrap();
    assert!(last.starts_with(&format!("different in step {place}: ")), "{place}: {stdout}");
    assert!(words.iter().all(|word| last.contains(word)), "{words:?}: {stdout}");
}

#[test]
fn steps_of_a_fork_are_recomputed_from_the_checkpoint_that_it_began_with() {
    let dir = tempfile::tempdir().unwrap();
    let run = whole_run(dir.path());
    let fork = dir.path().join("fork");
    fork_of(&run, &fork);
    for step in [3, 4] {
        let said = assert_equal(&fork, step);
        assert!(
            said.contains(&format!("steps 3 to {step} are recomputed from the checkpoint after step 2\n")),
            "{said}"
        );
    }
    assert_cannot(&fork, 2, "it is a step of run `run`, from which this one was forked: see ");
    // Whoever edits a fork and computes its chain again is found as in any run.
    let edited = dir.path().join("edited/fork");
    copy(&fork, &edited);
    edit_samples_and_all_digests(&edited, 3, |rollouts| make_correct(rollouts));
    assert_different(&edited, 4, "3, rollouts/step-3.jsonl.zst", &["has verdict correct (reward 1.0, "]);
    // The receipt of the other run alone says which weights a fork began with.
    std::fs::rename(&run, dir.path().join("elsewhere")).unwrap();
    let said = assert_equal(&fork, 3);
    assert!(
        said.contains("after step 2, whose weights stand as they are: no receipt here has their digest\n"),
        "{said}"
    );
}

#[test]
fn a_fork_that_began_with_other_weights_than_its_origin_had_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let run = whole_run(dir.path());
    let [fork, other] = ["fork", "other"].map(|name| dir.path().join(name));
    fork_of(&run, &fork);
    let path = "checkpoints/run/step-000002";
    let weights = fork.join(path).join("model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    // The origin has the same file.
    std::fs::remove_file(&weights).unwrap();
    std::fs::write(&weights, bytes).unwrap();
    assert_different(&fork, 3, &format!("2, {path}/model.safetensors"), &["is not what the run wrote"]);
    // A whole checkpoint of a run that differs in its seed.
    let settings = ["run.steps=2", "run.seed=9", "warm_start.steps=2", SIGNAL, ALL_WEIGHTS];
    succeed(recorded(&other, &settings));
    std::fs::remove_dir_all(fork.join(path)).unwrap();
    copy(&other.join("checkpoints/other/step-000002"), &fork.join(path));
    let words = ["the weights of version 4 have digest ", " in receipt.jsonl of run `run`"];
    assert_different(&fork, 3, &format!("2, {path}"), &words);
}

#[test]
fn weights_that_a_step_did_not_make_are_found_by_recomputing_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = whole_run(dir.path());
    let version = 2 + 4;
    let folder = run.join(format!("weights/step-{version}"));
    let path = folder.join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(path, bytes).unwrap();
    let digest = weights_digest(&Folder::new(&folder)).unwrap();
    VersionMarker { version, digest: digest.clone() }.write(&folder).unwrap();
    recompute(&run, |lines| line_of(lines, 4).determined.as_mut().unwrap().weights.clone_from(&digest));
    let mut command = evenkeel(&["check"]);
    command.arg(&run);
    succeed(command);
    let (status, stdout, stderr) = checked(&run, 4, &[]);
    assert_eq!(status, Some(1), "{stdout}{stderr}");
    let last = stdout.lines().last().unwrap();
    let words = format!("different in step 4, weights/step-{version}: the weights of version {version} have digest ");
    assert!(last.starts_with(&words) && last.contains(&digest), "{stdout}");
    // An edited file that the receipt contradicts needs no step to be done.
    std::fs::write(run.join("warm_start.jsonl"), "").unwrap();
    let (status, stdout, _) = checked(&run, 4, &[]);
    assert_eq!(status, Some(1));
    assert!(stdout.ends_with("different in warm_start.jsonl: is not what it was when the run began\n"), "{stdout}");
}

#[test]
fn a_step_whose_weights_samples_or_receipt_are_not_kept_cannot_be_recomputed() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    succeed(recorded(&out, &["run.steps=4", "checkpoint.keep=1", SIGNAL]));
    assert_cannot(&out, 2, "no weights from before it are left (checkpoint.keep and");
    std::fs::remove_file(out.join("receipt.jsonl")).unwrap();
    assert_cannot(&out, 4, "the run has no receipt.jsonl");
    let without = dir.path().join("without");
    let mut command = train(&without);
    for setting in ["run.steps=2", "run.rollout_tokens=false", "evaluation.problems=0", ALL_WEIGHTS] {
        command.args(["--set", setting]);
    }
    succeed(command);
    assert_cannot(&without, 2, "run.rollout_tokens");
}

#[test]
fn verdicts_of_a_reward_file_stand_unless_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    write_rows(dir.path(), &WORDS);
    let reward = "def reward(completion, row):\n    return 1.0 / (1 + len(completion.token_ids))\n";
    std::fs::write(dir.path().join("reward.py"), reward).unwrap();
    let settings = ["run.steps=2", "data.files=rows.jsonl", "data.verifier=words", ALL_WEIGHTS];
    let mut command = recorded(Path::new("run"), &settings);
    command.args(["--set", "data.verifiers.words.path=reward.py"]).current_dir(dir.path());
    succeed(command);
    let checked = |more: &[&str]| {
        let mut command = evenkeel(&["check", "run", "--step", "2"]);
        command.args(more).current_dir(dir.path());
        said(command)
    };
    let (status, stdout, stderr) = checked(&[]);
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("0 verdicts of it are repeated, 32 stand as they were recorded\n"), "{stdout}");
    assert!(!stderr.contains("reward.py"), "none of its code runs: {stderr}");
    let (status, stdout, stderr) = checked(&["--repeat-verdicts"]);
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("\n32 verdicts of it are repeated\n") && stderr.contains("reward.py"), "{stdout}{stderr}");
}

#[test]
fn a_verdict_of_a_judge_must_be_that_of_its_record() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    let words = |number: usize| format!(r#"{{"long": {}}}"#, (number % 5) as f64 / 5.0);
    let server = ChatServer::start(move |number, _| ChatAnswer::of(&words(number)));
    write_rows(dir.path(), &WORDS);
    let rubric = "[[criteria]]\nname = \"long\"\nweight = 1.0\ndescription = \"is long\"\n";
    std::fs::write(dir.path().join("rubric.toml"), rubric).unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let of_judge = [
        format!("data.files={}", file("rows.jsonl")),
        format!("reward.judge.endpoint={}", server.url),
        format!("reward.judge.rubric={}", file("rubric.toml")),
    ];
    let named = ["data.verifier=essay", "data.verifiers.essay.judge=true", "reward.judge.model=judge"];
    let settings: Vec<&str> = of_judge.iter().map(String::as_str).chain(named).collect();
    succeed(recorded(&run, &[&["run.steps=2", "warm_start.steps=0", ALL_WEIGHTS][..], &settings].concat()));
    let calls = server.requests().len();
    let said = assert_equal(&run, 2);
    assert!(said.contains("\n32 verdicts of it are repeated\n"), "{said}");
    let forged = dir.path().join("forged/run");
    copy(&run, &forged);
    edit_samples_and_all_digests(&forged, 2, |rollouts| {
        let rollout = &mut rollouts[0];
        (rollout.verdict, rollout.reward) = ("correct".to_owned().into(), Some(1.0));
        rollout.shaped_reward = Some(1.0);
    });
    let place = "2, rollouts/step-2.jsonl.zst";
    assert_different(&forged, 2, place, &["has verdict correct (reward 1.0, shaped 1.0), and now incorrect (judged; "]);
    // Words that are none of a judge's, in the record: a verdict cannot have come of them.
    let record = run.join("judge.jsonl");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace("long", "short")).unwrap();
    let (status, stdout, _) = checked(&run, 2, &[]);
    assert_eq!(status, Some(1), "{stdout}");
    assert!(stdout.contains("and now invalid (judge_wrong_format: "), "{stdout}");
    std::fs::remove_file(&record).unwrap();
    assert_cannot(&run, 2, "the judge's record has no verdict on sample ");
    let (status, stdout, _) = checked(&run, 2, &["--repeat-verdicts"]);
    assert_eq!((status, server.requests().len()), (Some(2), calls), "nobody is asked again: {stdout}");
    assert!(!record.exists(), "nothing of the run is written");
}

#[test]
fn what_another_version_recorded_is_not_called_different() {
    let dir = tempfile::tempdir().unwrap();
    let run = whole_run(dir.path());
    edit_samples_and_all_digests(&run, 3, |rollouts| make_correct(rollouts));
    let path = run.join("run.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let own = format!("\"program_version\": \"{PROGRAM}\"");
    assert!(text.contains(&own), "{text}");
    // Builds of one version whose sums have other bits, and those from before bits had a number, count as others.
    let version = env!("CARGO_PKG_VERSION");
    for other in ["0.0.1".to_owned(), format!("{version}+bits.0"), version.to_owned()] {
        recompute(&run, |lines| {
            let parts = lines.iter_mut().filter_map(|line| line.determined.as_mut());
            parts.for_each(|part| part.program.clone_from(&other));
        });
        assert_cannot(&run, 4, &format!("version {other} recorded it, and version {PROGRAM} gives another result"));
    }
    // A note says so wherever the files are read; bits that hold are equal.
    std::fs::write(&path, text.replace(&own, &format!("\"program_version\": \"{version}+bits.0\""))).unwrap();
    let (status, stdout, stderr) = said(weigh(&run, "2"));
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    let note = format!("note: the run was recorded by version {version}+bits.0 of the program");
    assert!(stderr.contains(&note), "{stderr}");
}

/// Writes another gradient norm into the line of a step, and computes its digest and the chain again.
fn edit_gradient_norm(run: &Path, step: u64, norm: f64) {
    let path = run.join("metrics.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let line = &mut lines[step as usize - 1];
    let (before, after) = line.split_once("\"actor/grad_norm\":").unwrap();
    let (_, rest) = after.split_at(after.find([',', '}']).unwrap());
    *line = format!("{before}\"actor/grad_norm\":{norm:?}{rest}");
    let digest = evenkeel_host::sha256(line.as_bytes());
    std::fs::write(path, lines.join("\n") + "\n").unwrap();
    recompute(run, |lines| line_of(lines, step).observed.metrics = Some(digest.clone()));
}

#[test]
fn a_run_of_a_gpu_is_compared_within_the_tolerance_on_a_cpu_and_called_neither_equal_nor_different() {
    let dir = tempfile::tempdir().unwrap();
    let run = whole_run(dir.path());
    // The settings of a run that a GPU trained; that it had these bits too is chance.
    let path = run.join("config.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, after) = text.split_once("[learner.compute]").unwrap();
    let of_gpu = after.replacen("device = \"cpu\"", "device = \"cuda\"", 1);
    assert_ne!(of_gpu, after);
    std::fs::write(&path, format!("{before}[learner.compute]{of_gpu}")).unwrap();
    let digest = evenkeel_host::sha256(std::fs::read(&path).unwrap());
    recompute(&run, |lines| drop(lines[0].observed.files.insert("config.toml".to_owned(), digest.clone())));
    let mut command = weigh(&run, "3");
    command.args(["--set", "learner.compute.device=cpu"]);
    let (status, stdout, stderr) = said(command);
    assert_eq!(status, Some(0), "{stdout}{stderr}");
    let within = "step 3: within the tolerance for another device, not equal (0.0e0 away)\n";
    assert!(stdout.starts_with(within), "{stdout}");
    let (status, stdout, stderr) = checked(&run, 3, &[]);
    assert_eq!(status, Some(2), "{stdout}{stderr}");
    let last = stdout.lines().last().unwrap_or_default();
    assert!(last.contains("bits differ on another device: step 3 is within the tolerance"), "{stdout}{stderr}");
    // What has the same bits on every device is different all the same.
    let edited = dir.path().join("edited/run");
    copy(&run, &edited);
    edit_samples_and_all_digests(&edited, 3, |rollouts| rollouts[0].advantage = Some(0.125));
    assert_different(&edited, 3, "3, rollouts/step-3.jsonl.zst", &["has advantage 0.125 in its rollouts"]);
    edit_gradient_norm(&run, 3, 1e6);
    assert_cannot(
        &run,
        3,
        "values by more than the tolerance (step 3, metrics.jsonl: `actor/grad_norm` is 1000000.0 in ",
    );
    assert_cannot(&run, 3, " away (allowed: 0.01)");
    let (status, _, stderr) = said(weigh(&run, "3"));
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("step 3 is not within the tolerance for another device: `actor/grad_norm`"), "{stderr}");
}
