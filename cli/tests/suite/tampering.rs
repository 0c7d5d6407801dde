//! What was changed in a run's directory after the run: `check` names the file and the step.

use std::path::{Path, PathBuf};
use std::process::Output;

use evenkeel_run::{
    Heads, InputRecord, LineKind, ReceiptLine, Rollout, StepDigests, encode_rollouts, read_receipt, read_rollouts,
    receipt_text, rollout_file,
};

use crate::support::{evenkeel, refused, resume, succeed, train};

/// A run of six steps with checkpoints, evaluations and weights.
fn recorded(folder: &Path, name: &str, more: &[&str]) -> PathBuf {
    let out = folder.join(name);
    let mut command = train(&out);
    let settings = ["warm_start.steps=2", "evaluation.problems=4", "evaluation.every=3", "checkpoint.keep=2"];
    command.args(settings.iter().chain(more).flat_map(|setting| ["--set", setting]));
    succeed(command);
    out
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), &to).unwrap();
        }
    }
}

fn check(run: &Path, head: Option<&str>) -> Output {
    let mut command = evenkeel(&["check"]);
    command.arg(run).args(head.iter().flat_map(|head| ["--head", head]));
    command.output().unwrap()
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn heads(run: &Path) -> Heads {
    read_receipt(run).unwrap().last().unwrap().heads.clone()
}

/// Replaces something in a file, which must be there.
fn replace(path: &Path, old: &str, new: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(old), "{old}: {text}");
    std::fs::write(path, text.replacen(old, new, 1)).unwrap();
}

/// Changes the lines of a text.
fn edit_lines(path: &Path, edit: impl Fn(&mut Vec<String>)) {
    let mut lines: Vec<String> =
        std::fs::read_to_string(path).unwrap().lines().map(|line| format!("{line}\n")).collect();
    edit(&mut lines);
    std::fs::write(path, lines.concat()).unwrap();
}

fn flip_last_byte(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(path, bytes).unwrap();
}

pub(crate) fn edit_samples(run: &Path, step: u64, edit: impl Fn(&mut Vec<Rollout>)) {
    let mut rollouts = read_rollouts(run, step).unwrap();
    edit(&mut rollouts);
    std::fs::write(rollout_file(run, step), encode_rollouts(&rollouts).unwrap()).unwrap();
}

pub(crate) fn make_correct(rollouts: &mut [Rollout]) {
    let changed = rollouts.iter_mut().find(|rollout| rollout.reward == Some(0.0)).unwrap();
    (changed.reward, changed.verdict) = (Some(1.0), "correct".to_owned().into());
}

/// Changes lines of the receipt and computes its chain again, as someone does who wants the change not to be seen.
pub(crate) fn recompute(run: &Path, edit: impl Fn(&mut Vec<ReceiptLine>)) {
    let mut lines = read_receipt(run).unwrap();
    edit(&mut lines);
    let mut before = lines[0].heads_before();
    for line in &mut lines {
        line.heads = line.heads_after(&before);
        before = line.heads.clone();
    }
    std::fs::write(run.join("receipt.jsonl"), receipt_text(&lines)).unwrap();
}

/// Changes samples, and computes the digest of their file and the chain again.
fn edit_samples_and_digest(run: &Path, step: u64, edit: impl Fn(&mut Vec<Rollout>)) {
    edit_samples(run, step, edit);
    recompute(run, |lines| {
        line_of(lines, step).observed.rollouts = digest(&std::fs::read(rollout_file(run, step)).unwrap());
    });
}

pub(crate) fn line_of(lines: &mut [ReceiptLine], step: u64) -> &mut ReceiptLine {
    lines.iter_mut().find(|line| line.step == step && line.kind == LineKind::Step).unwrap()
}

/// Changes samples, and computes every digest of them and the chain again: nothing in the files contradicts it.
pub(crate) fn edit_samples_and_all_digests(run: &Path, step: u64, edit: impl Fn(&mut Vec<Rollout>)) {
    edit_samples_and_digest(run, step, edit);
    recompute(run, |lines| {
        let mut digests = StepDigests::default();
        assert!(read_rollouts(run, step).unwrap().iter().all(|rollout| digests.add_recorded(rollout)));
        line_of(lines, step).determined.as_mut().unwrap().content = Some(digests.finish());
    });
}

fn digest(bytes: &[u8]) -> Option<String> {
    Some(evenkeel_host::sha256(bytes))
}

/// A way to change a run, and what `check` says of it.
struct Tampering {
    name: &'static str,
    change: fn(&Path),
    said: &'static [&'static str],
}

const EDITS: [Tampering; 28] = [
    Tampering {
        name: "a verdict",
        change: |run| edit_samples(run, 3, |rollouts| make_correct(rollouts)),
        said: &["rollouts/step-3.jsonl.zst (step 3) has other verdicts than the step was made of"],
    },
    Tampering {
        name: "an advantage",
        change: |run| edit_samples(run, 2, |rollouts| rollouts[0].advantage = Some(0.125)),
        said: &["rollouts/step-2.jsonl.zst (step 2) has other advantages"],
    },
    Tampering {
        name: "a token",
        change: |run| edit_samples(run, 4, |rollouts| rollouts[5].token_ids.as_mut().unwrap()[0] += 1),
        said: &["rollouts/step-4.jsonl.zst (step 4) has other tokens"],
    },
    Tampering {
        name: "a log-probability",
        change: |run| {
            edit_samples(run, 4, |rollouts| rollouts[5].token_log_probabilities.as_mut().unwrap()[0] = Some(-9.0))
        },
        said: &["rollouts/step-4.jsonl.zst (step 4) has other tokens"],
    },
    Tampering {
        name: "a prompt",
        change: |run| edit_samples(run, 1, |rollouts| rollouts[0].prompt_token_ids.as_mut().unwrap()[0] += 1),
        said: &["rollouts/step-1.jsonl.zst (step 1) has another prompt in sample 1 of prompt "],
    },
    Tampering {
        name: "a text",
        change: |run| edit_samples(run, 1, |rollouts| rollouts[0].text += "!"),
        said: &["rollouts/step-1.jsonl.zst (step 1) is not what the run wrote"],
    },
    Tampering {
        name: "a sample less",
        change: |run| edit_samples(run, 5, |rollouts| drop(rollouts.remove(3))),
        said: &["rollouts/step-5.jsonl.zst (step 5) has other tokens, verdicts, advantages"],
    },
    Tampering {
        name: "all prompts of a group",
        change: |run| {
            edit_samples(run, 1, |rollouts| {
                let group = rollouts[0].group;
                rollouts.iter_mut().filter(|rollout| rollout.group == group).for_each(|rollout| rollout.index += 1);
            });
        },
        said: &["rollouts/step-1.jsonl.zst (step 1) has other prompts than the step was made of"],
    },
    Tampering {
        name: "samples in another order",
        change: |run| edit_samples(run, 5, |rollouts| rollouts.reverse()),
        said: &["rollouts/step-5.jsonl.zst (step 5) is not what the run wrote"],
    },
    Tampering {
        name: "steps exchanged",
        change: |run| {
            let [one, other] = [2, 3].map(|step| rollout_file(run, step));
            let kept = std::fs::read(&one).unwrap();
            std::fs::copy(&other, &one).unwrap();
            std::fs::write(other, kept).unwrap();
        },
        said: &[
            "rollouts/step-2.jsonl.zst (step 2) has samples of step 3",
            "rollouts/step-3.jsonl.zst (step 3) has samples of step 2",
        ],
    },
    Tampering {
        name: "a file cut off",
        change: |run| {
            let path = rollout_file(run, 2);
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        },
        said: &["rollouts/step-2.jsonl.zst (step 2) cannot be read"],
    },
    Tampering {
        name: "samples removed",
        change: |run| std::fs::remove_file(rollout_file(run, 3)).unwrap(),
        said: &["rollouts/step-3.jsonl.zst (step 3) is gone: it was kept and not thinned out"],
    },
    Tampering {
        name: "samples removed and listed as thinned out",
        change: |run| {
            std::fs::remove_file(rollout_file(run, 3)).unwrap();
            std::fs::write(run.join("rollouts/thinned.json"), "[3]").unwrap();
        },
        said: &["rollouts/step-3.jsonl.zst (step 3) is gone: it was kept and not thinned out"],
    },
    Tampering {
        name: "a step more",
        change: |run| {
            std::fs::copy(rollout_file(run, 6), rollout_file(run, 7)).unwrap();
        },
        said: &["rollouts/step-7.jsonl.zst (step 7) belongs to no step of the receipt"],
    },
    Tampering {
        name: "a metric",
        change: |run| replace(&run.join("metrics.jsonl"), "\"critic/score/mean\":0", "\"critic/score/mean\":1"),
        said: &["metrics.jsonl (step 1) line 1 is not what the run wrote"],
    },
    Tampering {
        name: "metrics in another order",
        change: |run| edit_lines(&run.join("metrics.jsonl"), |lines| lines.swap(1, 2)),
        said: &["metrics.jsonl (step 2) line 3 does not follow the line before it"],
    },
    Tampering {
        name: "the last metrics cut",
        change: |run| edit_lines(&run.join("metrics.jsonl"), |lines| lines.truncate(5)),
        said: &["metrics.jsonl (step 6) has no line of the step"],
    },
    Tampering {
        name: "a record of prompts",
        change: |run| replace(&run.join("prompts.jsonl"), "\"lengths\":[", "\"lengths\":[1,"),
        said: &["prompts.jsonl (step 1) line 1 is not what the run wrote"],
    },
    Tampering {
        name: "an accuracy",
        change: |run| edit_lines(&run.join("evaluation.jsonl"), |lines| lines[1] = lines[1].replacen("0.", "0.9", 1)),
        said: &["evaluation.jsonl (step 3) line 2 is not what the run wrote"],
    },
    Tampering {
        name: "a supervised step",
        change: |run| edit_lines(&run.join("warm_start.jsonl"), |lines| drop(lines.remove(0))),
        said: &["warm_start.jsonl is not what it was when the run began"],
    },
    Tampering {
        name: "a setting",
        change: |run| replace(&run.join("config.toml"), "group_size = 8", "group_size = 9"),
        said: &["config.toml is not what it was when the run began"],
    },
    Tampering {
        name: "an input",
        change: |run| replace(&run.join("inputs.json"), "\"digest\": \"sha256:", "\"digest\": \"sha256:0"),
        said: &[
            "inputs.json is not what it was when the run began",
            "inputs.json names other inputs than the steps were done with",
        ],
    },
    Tampering {
        name: "the manifest",
        change: |run| replace(&run.join("run.json"), "\"program_version\": \"", "\"program_version\": \"9"),
        said: &["run.json is not what it was when the run began"],
    },
    Tampering {
        name: "the weights of a checkpoint",
        change: |run| flip_last_byte(&run.join("checkpoints/run/step-000006/model.safetensors")),
        said: &["checkpoints/run/step-000006/model.safetensors (step 6) is not what the run wrote"],
    },
    Tampering {
        name: "the state of a checkpoint",
        change: |run| replace(&run.join("checkpoints/run/step-000004/state.json"), "\"steps\"", " \"steps\""),
        said: &["checkpoints/run/step-000004/state.json (step 4) is not what the run wrote"],
    },
    Tampering {
        name: "published weights",
        change: |run| flip_last_byte(&run.join("weights/step-8/model.safetensors")),
        said: &["weights/step-8 (step 6) cannot be verified"],
    },
    Tampering {
        name: "a line of the receipt",
        change: |run| replace(&run.join("receipt.jsonl"), "\"engines\":1", "\"engines\":2"),
        said: &["receipt.jsonl (step 1) line 3 has a head that does not follow from its content"],
    },
    Tampering {
        name: "lines of the receipt in another order",
        change: |run| edit_lines(&run.join("receipt.jsonl"), |lines| lines.swap(2, 3)),
        said: &["receipt.jsonl (step 2) line 3 does not come after step 0"],
    },
];

/// Changes by someone who computes the chain again. Where nothing contradicts it, only a published head shows it.
const RECOMPUTED: [Tampering; 16] = [
    Tampering {
        name: "a verdict, with the digest of its file",
        change: |run| edit_samples_and_digest(run, 3, |rollouts| make_correct(rollouts)),
        said: &["rollouts/step-3.jsonl.zst (step 3) has other verdicts than the step was made of"],
    },
    Tampering {
        name: "a verdict, and the tokens of another sample taken out",
        change: |run| {
            edit_samples_and_digest(run, 3, |rollouts| {
                make_correct(rollouts);
                rollouts[0].token_ids = None;
            });
        },
        said: &["rollouts/step-3.jsonl.zst (step 3) has samples without their tokens (1 of 32)"],
    },
    Tampering {
        name: "a verdict, and another group taken out",
        change: |run| {
            edit_samples_and_digest(run, 3, |rollouts| {
                make_correct(rollouts);
                let last = rollouts[rollouts.len() - 1].group;
                rollouts.retain(|rollout| rollout.group != last);
            });
        },
        said: &["rollouts/step-3.jsonl.zst (step 3) has samples of 3 of 4 prompts"],
    },
    Tampering {
        name: "a sample twice, first with another verdict",
        change: |run| {
            edit_samples_and_digest(run, 3, |rollouts| {
                let mut first = vec![rollouts.iter().find(|rollout| rollout.reward == Some(0.0)).unwrap().clone()];
                make_correct(&mut first);
                rollouts.insert(0, first.remove(0));
            });
        },
        said: &["rollouts/step-3.jsonl.zst (step 3) has sample "],
    },
    Tampering {
        name: "an evaluation, with a second digest",
        change: |run| {
            let path = run.join("evaluation.jsonl");
            edit_lines(&path, |lines| lines[1] = lines[1].replacen("0.", "0.9", 1));
            let text = std::fs::read_to_string(&path).unwrap();
            let edited = digest(text.lines().nth(1).unwrap().as_bytes()).unwrap();
            recompute(run, |lines| drop(line_of(lines, 6).observed.evaluations.insert(3, edited.clone())));
        },
        said: &["has another digest of the evaluation after step 3 than a line before it"],
    },
    Tampering {
        name: "weights that a step did not make",
        change: |run| {
            recompute(run, |lines| line_of(lines, 6).determined.as_mut().unwrap().weights = digest(b"other").unwrap());
        },
        said: &["weights/step-8 (step 6) has other weights than the step made"],
    },
    Tampering {
        name: "other settings",
        change: |run| {
            recompute(run, |lines| {
                let parts = lines.iter_mut().filter_map(|line| line.determined.as_mut());
                parts.for_each(|part| part.settings = digest(b"other").unwrap());
            });
        },
        said: &["inputs.json has other settings than the steps were done with"],
    },
    Tampering {
        name: "a step taken out",
        change: |run| recompute(run, |lines| lines.retain(|line| line.step != 3)),
        said: &[
            "receipt.jsonl (step 4) line 6 does not come after step 2",
            "metrics.jsonl (step 3) line 3 belongs to no step",
        ],
    },
    Tampering {
        name: "the last steps cut, with their lines and samples",
        change: |run| {
            recompute(run, |lines| lines.retain(|line| line.step <= 4));
            for name in ["metrics.jsonl", "prompts.jsonl"] {
                edit_lines(&run.join(name), |lines| lines.truncate(4));
            }
            edit_lines(&run.join("evaluation.jsonl"), |lines| lines.truncate(2));
            [5, 6].into_iter().for_each(|step| std::fs::remove_file(rollout_file(run, step)).unwrap());
        },
        said: &["checkpoints/run/step-000006 (step 6) belongs to no step of the receipt"],
    },
    Tampering {
        name: "an input changed halfway",
        change: |run| {
            recompute(run, |lines| {
                line_of(lines, 2).determined.as_mut().unwrap().inputs = digest(b"other").unwrap();
            });
        },
        said: &["receipt.jsonl (step 2) has other inputs than the step before"],
    },
    Tampering {
        name: "a verdict, with all digests",
        change: |run| edit_samples_and_all_digests(run, 3, |rollouts| make_correct(rollouts)),
        said: ONLY_A_HEAD,
    },
    Tampering {
        name: "a metric, with its digest",
        change: |run| {
            let path = run.join("metrics.jsonl");
            replace(&path, "\"critic/score/mean\":0", "\"critic/score/mean\":1");
            recompute(run, |lines| {
                let first = std::fs::read_to_string(&path).unwrap();
                line_of(lines, 1).observed.metrics = digest(first.lines().next().unwrap().as_bytes());
            });
        },
        said: ONLY_A_HEAD,
    },
    Tampering {
        name: "a text, with the digest of its file",
        change: |run| edit_samples_and_digest(run, 1, |rollouts| rollouts[0].text += "!"),
        said: ONLY_A_HEAD,
    },
    Tampering {
        name: "an accuracy, with its digest",
        change: |run| {
            let path = run.join("evaluation.jsonl");
            edit_lines(&path, |lines| lines[1] = lines[1].replacen("0.", "0.9", 1));
            let text = std::fs::read_to_string(&path).unwrap();
            let edited = digest(text.lines().nth(1).unwrap().as_bytes()).unwrap();
            recompute(run, |lines| {
                let digests = lines.iter_mut().filter_map(|line| line.observed.evaluations.get_mut(&3));
                digests.for_each(|digest| digest.clone_from(&edited));
            });
        },
        said: ONLY_A_HEAD,
    },
    Tampering {
        name: "an audit that was not",
        change: |run| {
            recompute(run, |lines| {
                let audit = lines.iter_mut().find_map(|line| line.observed.audit.as_mut()).unwrap();
                audit.samples = 99;
            });
        },
        said: ONLY_A_HEAD,
    },
    Tampering {
        name: "samples said to be thinned out",
        change: |run| {
            std::fs::remove_file(rollout_file(run, 2)).unwrap();
            recompute(run, |lines| line_of(lines, 6).observed.thinned = vec![2]);
        },
        said: ONLY_A_HEAD,
    },
];

/// What `check` says of a receipt that leads to another head than that which was published.
const ONLY_A_HEAD: &[&str] = &["receipt.jsonl does not lead to the head sha256:"];

#[test]
fn whatever_is_changed_in_a_run_is_named_with_its_file_and_step() {
    let dir = tempfile::tempdir().unwrap();
    let run = recorded(dir.path(), "run", &[]);
    let output = check(&run, Some(&heads(&run).determined));
    let said = text(&output);
    assert!(
        output.status.success() && said.ends_with("equal: the files of the run are those of its receipt\n"),
        "{said}"
    );
    for (number, Tampering { name, change, said: expected }) in EDITS.iter().enumerate() {
        // The manifest has the name of the run.
        let copied = dir.path().join(number.to_string()).join("run");
        copy(&run, &copied);
        change(&copied);
        let output = check(&copied, None);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains("\ndifferent: "), "{name}: {said}");
        for expected in *expected {
            assert!(said.contains(expected), "{name}: {expected}: {said}");
        }
    }
}

#[test]
fn a_recomputed_chain_is_contradicted_by_other_files_or_by_a_published_head() {
    let dir = tempfile::tempdir().unwrap();
    let run = recorded(dir.path(), "run", &[]);
    let published = heads(&run);
    let mut kept = 0;
    for (number, Tampering { name, change, said: expected }) in RECOMPUTED.iter().enumerate() {
        let copied = dir.path().join(number.to_string()).join("run");
        copy(&run, &copied);
        change(&copied);
        let needs_head = *expected == ONLY_A_HEAD;
        let alone = check(&copied, None);
        let said = text(&alone);
        assert_eq!(alone.status.success(), needs_head, "{name}: {said}");
        let output = check(&copied, Some(&published.whole));
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        for expected in *expected {
            assert!(said.contains(expected), "{name}: {expected}: {said}");
        }
        // The first head stays where only what was observed is another, and then says so.
        let output = check(&copied, Some(&published.determined));
        let said = text(&output);
        if heads(&copied).determined != published.determined {
            assert_eq!(output.status.code(), Some(1), "{name}: {said}");
            assert!(said.contains("does not lead to the head"), "{name}: {said}");
        } else {
            kept += 1;
            assert_eq!(output.status.success(), needs_head, "{name}: {said}");
            let warning = "the given head does not cover lines of metrics, prompts and evaluations, texts, proofs";
            assert!(said.contains(warning), "{name}: {said}");
        }
    }
    assert!(kept >= 5, "{kept}");
}

#[test]
fn a_file_of_another_run_is_found_also_where_only_the_seed_differs() {
    let dir = tempfile::tempdir().unwrap();
    let run = recorded(dir.path(), "run", &[]);
    let other = recorded(dir.path(), "other", &["run.seed=4"]);
    assert_ne!(heads(&run).determined, heads(&other).determined);
    std::fs::copy(rollout_file(&other, 4), rollout_file(&run, 4)).unwrap();
    let output = check(&run, None);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("rollouts/step-4.jsonl.zst (step 4) has other prompts, tokens, verdicts"), "{said}");
    let output = check(&other, Some(&heads(&run).determined));
    assert!(text(&output).contains("does not lead to the head"), "{}", text(&output));
}

#[test]
fn samples_that_were_thinned_out_are_not_kept_and_not_gone() {
    let dir = tempfile::tempdir().unwrap();
    let run = recorded(dir.path(), "run", &["run.rollouts_disk=8KiB", "evaluation.every=6"]);
    let thinned = evenkeel_run::thinned_rollouts(&run).unwrap();
    assert!(!thinned.is_empty(), "8 KiB are less than six steps");
    let output = check(&run, None);
    let said = text(&output);
    assert!(output.status.success() && said.contains("samples that were not kept: steps "), "{said}");
    // The heads do not depend on what is kept.
    let whole = recorded(dir.path(), "whole", &["evaluation.every=6"]);
    assert_eq!(heads(&run).determined, heads(&whole).determined);
}

#[test]
fn a_head_of_an_earlier_step_is_one_of_a_run_that_went_on() {
    let dir = tempfile::tempdir().unwrap();
    let run = recorded(dir.path(), "run", &["run.steps=4"]);
    let earlier = heads(&run);
    let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(run.join("summary.json")).unwrap()).unwrap();
    let printed = summary["receipt"]["whole"].as_str().unwrap().to_owned();
    let output = check(&run, Some(&printed));
    let said = text(&output);
    assert!(output.status.success() && said.contains("does not cover the evaluations that came after it"), "{said}");
    let mut command = resume(&run);
    command.args(["--steps", "6"]);
    succeed(command);
    let output = check(&run, Some(&printed));
    let said = text(&output);
    assert!(
        output.status.success() && said.contains("the given head is that of step 4; the receipt continues to step 6"),
        "{said}"
    );
    assert!(!said.contains("does not cover"), "{said}");
    assert_eq!(check(&run, Some(&earlier.whole)).status.code(), Some(1), "the line of the end was replaced");
    let output = check(&run, Some(&earlier.determined));
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("the given head is that of step 4; the receipt continues to step 6"), "{said}");
    let uninterrupted = recorded(dir.path(), "uninterrupted", &[]);
    assert_eq!(heads(&run).determined, heads(&uninterrupted).determined);
    let refused = check(&run, Some("sha256:12"));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("--head is \"sha256:12\", allowed: sha256: and 64 hexadecimal digits"), "{said}");
}

#[test]
fn without_a_receipt_check_cannot_tell_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let run = recorded(dir.path(), "run", &[]);
    let published = heads(&run);
    std::fs::remove_file(run.join("receipt.jsonl")).unwrap();
    let output = check(&run, None);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output).contains("cannot tell: the run has no receipt.jsonl"), "{}", text(&output));
    let output = check(&run, Some(&published.whole));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("different: receipt.jsonl is gone"), "{}", text(&output));
    let mut command = resume(&run);
    command.args(["--steps", "8"]);
    let said = refused(command);
    assert!(said.contains("receipt.jsonl has 0 lines up to step 6") && said.contains("lines were removed"), "{said}");
}

#[test]
fn what_a_run_had_done_beyond_the_step_that_it_was_resumed_from_is_noted() {
    let dir = tempfile::tempdir().unwrap();
    let run = recorded(dir.path(), "run", &["run.steps=4"]);
    let mut command = resume(&run);
    command.args(["--steps", "6"]);
    succeed(command);
    copy(&run.join("weights/step-8"), &run.join("weights/step-11"));
    copy(&run.join("checkpoints/run/step-000006"), &run.join("checkpoints/run/step-000009"));
    let output = check(&run, None);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("weights/step-11 is from before the run was resumed"), "{said}");
    assert!(said.contains("the checkpoint after step 9 is from before the run was resumed"), "{said}");
}

#[test]
fn a_fork_begins_with_the_head_of_its_parent_and_an_export_has_the_receipt() {
    let dir = tempfile::tempdir().unwrap();
    let run = recorded(dir.path(), "run", &[]);
    let fork = dir.path().join("fork");
    let mut command = evenkeel(&["train", "--from"]);
    command.arg(format!("{}@4", run.display())).arg("--run").arg(&fork);
    succeed(command);
    let of_parent = read_receipt(&run).unwrap();
    let head =
        |step| of_parent.iter().find(|line| line.step == step && line.kind == LineKind::Step).unwrap().heads.clone();
    let lines = read_receipt(&fork).unwrap();
    assert_eq!((lines[0].step, lines[0].heads_before()), (4, head(4)));
    assert_eq!(heads(&fork).determined, heads(&run).determined, "its settings are those of its parent");
    let output = check(&fork, None);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("steps up to 4 are not in the chain: they are those of run `run`"), "{said}");

    let to = dir.path().join("model");
    let mut command = evenkeel(&["export"]);
    command.arg(&run).arg("--to").arg(&to).args(["--step", "4"]);
    succeed(command);
    let exported = read_receipt(&to).unwrap();
    assert_eq!(exported.last().unwrap().heads, head(4));
    let card = std::fs::read_to_string(to.join("README.md")).unwrap();
    assert!(card.contains(&head(4).determined) && card.contains(&head(4).whole), "{card}");
}

#[test]
fn a_receipt_has_no_path_and_no_address() {
    let dir = tempfile::tempdir().unwrap();
    let run = recorded(dir.path(), "run", &[]);
    let receipt = std::fs::read_to_string(run.join("receipt.jsonl")).unwrap();
    let record = InputRecord::read(&run).unwrap().unwrap();
    assert!(receipt.contains(&record.settings_digest()) && receipt.contains(&record.inputs_digest()));
    for secret in [dir.path().to_str().unwrap(), "://", "127.0.0.1", "nonce"] {
        assert!(!receipt.contains(secret), "{secret}: {receipt}");
    }
}
