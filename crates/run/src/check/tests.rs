//! Faults that were planted in small runs.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_host::sha256;
use evenkeel_proto::v1::StepKind;

use super::*;
use crate::layout::{CONFIG_FILE, EVALUATION_FILE};
use crate::metrics::MetricsLine;
use crate::receipt::{Determined, Observed, StepContent, StepDigests, receipt_text};
use crate::rollouts::{Rollout, encode_rollouts, example, rollout_file};

const ALL: &str = "[run]\nrollouts = \"all\"\nrollout_tokens = true\n";
const NO_TOKENS: &str = "[run]\nrollouts = \"all\"\nrollout_tokens = false\n";
const ONE_GROUP: &str = "[run]\nrollouts = 1\nrollout_tokens = true\n";

/// A line before its heads are known.
type Line = (u64, LineKind, Option<StepContent>, Observed);

fn line(step: u64, kind: LineKind) -> Line {
    (step, kind, None, Observed::default())
}

fn step(step: u64) -> Line {
    (step, LineKind::Step, Some(StepDigests::default().finish()), Observed::default())
}

/// Writes a receipt of these lines and checks the folder.
fn checked(run: &Path, lines: Vec<Line>) -> ReceiptCheck {
    let mut written: Vec<ReceiptLine> = Vec::new();
    for (step, kind, content, observed) in lines {
        let [program, settings, inputs, weights] = ["1", "a", "b", "c"].map(str::to_owned);
        let part = Determined { program, settings, inputs, version: step, weights, content };
        let determined = (kind == LineKind::Step || written.is_empty()).then_some(part);
        let before = written.last().map_or_else(Heads::default, |last| last.heads.clone());
        written.push(ReceiptLine::after(&before, step, kind, determined, observed));
    }
    std::fs::write(run.join(RECEIPT_FILE), receipt_text(&written)).unwrap();
    check_receipt(run).unwrap().unwrap()
}

fn said(check: &ReceiptCheck) -> Vec<String> {
    check.differences.iter().map(ToString::to_string).collect()
}

fn with_tokens(group: u64, sample: u32) -> Rollout {
    Rollout {
        prompt_token_ids: Some(vec![1, 2]),
        token_ids: Some(vec![3; 9]),
        token_log_probabilities: Some(vec![Some(-0.1); 9]),
        ..example(1, group, sample)
    }
}

/// What is said of a step of two groups whose file was edited, and the digest of the file computed again.
fn said_of_edited(config: &str, edit: impl Fn(&mut Vec<Rollout>)) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let mut rollouts: Vec<Rollout> =
        [(0, 0), (0, 1), (4, 0), (4, 1)].map(|(group, sample)| with_tokens(group, sample)).into();
    let mut digests = StepDigests::default();
    rollouts.iter().for_each(|rollout| assert!(digests.add_recorded(rollout)));
    edit(&mut rollouts);
    let bytes = encode_rollouts(&rollouts).unwrap();
    let path = rollout_file(dir.path(), 1);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    std::fs::write(dir.path().join(CONFIG_FILE), config).unwrap();
    let files = BTreeMap::from([(CONFIG_FILE.to_owned(), sha256(config))]);
    let start = (0, LineKind::Start, None, Observed { files, ..Observed::default() });
    let seen = Observed { rollouts: Some(sha256(&bytes)), ..Observed::default() };
    let check = checked(dir.path(), vec![start, (1, LineKind::Step, Some(digests.finish()), seen)]);
    if check.differences.is_empty() { Ok(()) } else { Err(said(&check).join("; ")) }
}

fn forget_tokens(rollout: &mut Rollout) {
    (rollout.prompt_token_ids, rollout.token_ids, rollout.token_log_probabilities) = (None, None, None);
}

#[test]
fn what_a_file_lacks_does_not_hide_what_was_edited_in_the_rest() {
    let file = "rollouts/step-1.jsonl.zst (step 1)";
    let is = |what: &str| Err(format!("{file} {what}"));
    assert_eq!(said_of_edited(ALL, |_| {}), Ok(()));
    assert_eq!(
        said_of_edited(ALL, |all| all[3].token_ids = None),
        is("has samples without their tokens (1 of 4), which the run kept")
    );
    assert_eq!(
        said_of_edited(NO_TOKENS, |all| all[3].token_ids = None),
        is("has samples without their tokens (1 of 4), which the run kept")
    );
    let all_without = |all: &mut Vec<Rollout>| all.iter_mut().for_each(forget_tokens);
    assert_eq!(said_of_edited(ALL, all_without), is("has samples without their tokens (4 of 4), which the run kept"));
    assert_eq!(said_of_edited(NO_TOKENS, all_without), Ok(()));
    let edited = |all: &mut Vec<Rollout>| {
        all_without(all);
        all[1].reward = Some(0.25);
        all[2].advantage = None;
    };
    assert_eq!(said_of_edited(NO_TOKENS, edited), is("has other verdicts, advantages than the step was made of"));
    let one_group = |all: &mut Vec<Rollout>| all.truncate(2);
    assert_eq!(said_of_edited(ALL, one_group), is("has samples of 1 of 2 prompts, and the run kept more"));
    assert_eq!(said_of_edited(ONE_GROUP, one_group), Ok(()));
    assert_eq!(said_of_edited(ONE_GROUP, Vec::clear), is("has samples of 0 of 2 prompts, and the run kept more"));
    let twice = |all: &mut Vec<Rollout>| all.insert(0, Rollout { reward: Some(0.25), ..all[0].clone() });
    assert_eq!(said_of_edited(ALL, twice), is("has sample 0 of prompt 0 twice"));
}

#[test]
fn a_run_that_had_no_receipt_before_it_was_resumed_keeps_its_earlier_samples() {
    let dir = tempfile::tempdir().unwrap();
    let path = rollout_file(dir.path(), 2);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, encode_rollouts(&[example(2, 0, 0)]).unwrap()).unwrap();
    let lines = || vec![line(2, LineKind::Start), step(3), line(3, LineKind::End)];
    let check = checked(dir.path(), lines());
    assert_eq!(said(&check), [] as [&str; 0]);
    assert!(check.is_resumed && check.notes[0].contains("the run had no receipt then"), "{:?}", check.notes);
    std::fs::rename(&path, rollout_file(dir.path(), 4)).unwrap();
    assert_eq!(
        said(&checked(dir.path(), lines())),
        ["rollouts/step-4.jsonl.zst (step 4) belongs to no step of the receipt"]
    );
}

#[test]
fn an_evaluation_behind_the_steps_is_not_in_an_open_receipt_yet_and_foreign_in_one_that_ended() {
    let dir = tempfile::tempdir().unwrap();
    let evaluation = |step| MetricsLine::new(StepKind::Evaluation, step, step).to_json();
    std::fs::write(dir.path().join(EVALUATION_FILE), format!("{}\n{}\n", evaluation(1), evaluation(2))).unwrap();
    let first = Observed { evaluations: BTreeMap::from([(1, sha256(evaluation(1)))]), ..Observed::default() };
    let lines = || {
        let (at, kind, content, _) = step(2);
        vec![line(0, LineKind::Start), step(1), (at, kind, content, first.clone()), step(3)]
    };
    let check = checked(dir.path(), lines());
    assert_eq!(said(&check), [] as [&str; 0]);
    assert_eq!(check.notes[0], "evaluation.jsonl has a line of step 2 that is not in the receipt yet");
    let ended = lines().into_iter().chain([line(3, LineKind::End)]).collect();
    let what = "evaluation.jsonl (step 2) line 2 belongs to no step of the receipt";
    assert_eq!(said(&checked(dir.path(), ended)), [what]);
    let again = Observed { evaluations: BTreeMap::from([(1, sha256("other"))]), ..Observed::default() };
    let twice = lines().into_iter().chain([(3, LineKind::Checkpoint, None, again)]).collect();
    let what = "receipt.jsonl (step 3) has another digest of the evaluation after step 1 than a line before it";
    assert_eq!(said(&checked(dir.path(), twice)), [what]);
}

#[test]
fn the_first_head_covers_less_than_the_second_and_the_last_step_has_the_ones_that_stay() {
    let dir = tempfile::tempdir().unwrap();
    let late = Observed { evaluations: BTreeMap::from([(2, sha256("late"))]), ..Observed::default() };
    let lines = vec![line(0, LineKind::Start), step(1), step(2), (2, LineKind::End, None, late)];
    let check = checked(dir.path(), lines);
    let (last, heads) = check.last_step.clone().unwrap();
    assert_eq!((last, check.evaluations_after.as_slice()), (2, &[2][..]));
    let found = |head: &str| check.find_head(head).unwrap();
    let head = |step, is_last, is_whole| FoundHead { step, is_last, is_whole };
    assert_eq!(found(&heads.whole), head(2, false, true));
    assert_eq!(found(&heads.determined), head(2, true, false));
    assert_eq!(found(&check.heads[1].1.whole), head(1, false, true));
    assert_eq!(found(&check.heads[3].1.whole), head(2, true, true));
    assert_eq!(check.find_head("sha256:other"), None);
    assert!(!check.is_resumed);
}
