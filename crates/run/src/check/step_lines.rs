//! The lines of metrics, prompts and evaluations.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_host::sha256;
use evenkeel_proto::v1::StepKind;

use super::{Covered, ReceiptCheck};
use crate::error::RunFilesError;
use crate::layout::{EVALUATION_FILE, METRICS_FILE, PROMPTS_FILE, RECEIPT_FILE};
use crate::lines::{PromptLine, read_text};
use crate::metrics::MetricsLine;
use crate::receipt::Observed;

pub(super) fn compare(run: &Path, covered: &Covered<'_>, check: &mut ReceiptCheck) -> Result<(), RunFilesError> {
    let metrics = |kind| move |text: &str| MetricsLine::from_json(kind, text).map(|line| line.step);
    let prompts = |text: &str| PromptLine::from_json(text).map(|line| line.step);
    let evaluations = evaluations(covered, check);
    // Samples may be ahead of an evaluation: it may be of an earlier step than the last one.
    let next_evaluation = evaluations.last_key_value().map_or(0, |(step, _)| step + 1);
    // A line of metrics comes after that of the receipt, one of prompts before it.
    let (next, ended) = (covered.last + 1, covered.has_ended);
    let steps = |of: fn(&Observed) -> Option<&String>| expected(covered, of);
    let files: [LinesOf<'_>; 3] = [
        (METRICS_FILE, &metrics(StepKind::Train), steps(|seen| seen.metrics.as_ref()), None),
        (PROMPTS_FILE, &prompts, steps(|seen| seen.prompts.as_ref()), (!ended).then_some(next)),
        (EVALUATION_FILE, &metrics(StepKind::Evaluation), evaluations, (!ended).then_some(next_evaluation)),
    ];
    for file in files {
        compare_file(run, file, covered, check)?;
    }
    Ok(())
}

/// A file, how the step of a line is read, the digest of each line, and from which step on lines may still come.
type LinesOf<'a> = (&'static str, &'a dyn Fn(&str) -> Option<u64>, BTreeMap<u64, &'a str>, Option<u64>);

/// The digest of each evaluation. No evaluation is done twice.
fn evaluations<'a>(covered: &Covered<'a>, check: &mut ReceiptCheck) -> BTreeMap<u64, &'a str> {
    let mut digests = BTreeMap::new();
    for line in covered.lines {
        for (step, digest) in &line.observed.evaluations {
            if *digests.entry(*step).or_insert(digest.as_str()) != digest.as_str() {
                let what = format!("has another digest of the evaluation after step {step} than a line before it");
                check.differs(RECEIPT_FILE, Some(line.step), what);
            }
        }
    }
    digests
}

fn expected<'a>(covered: &Covered<'a>, of: fn(&Observed) -> Option<&String>) -> BTreeMap<u64, &'a str> {
    let steps = covered.steps.iter();
    steps.filter_map(|(step, line)| Some((*step, of(&line.observed)?.as_str()))).collect()
}

fn compare_file(
    run: &Path,
    (name, step_of, mut expected, open_from): LinesOf<'_>,
    covered: &Covered<'_>,
    check: &mut ReceiptCheck,
) -> Result<(), RunFilesError> {
    let text = read_text(&run.join(name))?;
    let mut last = None;
    for (number, line) in (1..).zip(text.lines()) {
        let Some(step) = step_of(line) else {
            check.differs(name, None, format!("line {number} is not one that a run writes"));
            continue;
        };
        if last.replace(step).is_some_and(|last| last >= step) {
            check.differs(name, Some(step), format!("line {number} does not follow the line before it"));
        }
        match expected.remove(&step) {
            Some(digest) if digest != sha256(line) => {
                check.differs(name, Some(step), format!("line {number} is not what the run wrote"));
            }
            Some(_) => {}
            None if open_from.is_some_and(|open| step >= open) => {
                check.notes.push(format!("{name} has a line of step {step} that is not in the receipt yet"));
            }
            None if step > covered.first => {
                check.differs(name, Some(step), format!("line {number} belongs to no step of the receipt"));
            }
            // Those of the run before, which the first line of the receipt says.
            None => {}
        }
    }
    for step in expected.into_keys() {
        // The line of the receipt comes before the step's own.
        if step == covered.last && !covered.has_ended && name == METRICS_FILE {
            check.notes.push(format!("{name} has no line of step {step}: the run was interrupted there"));
        } else {
            check.differs(name, Some(step), "has no line of the step");
        }
    }
    Ok(())
}
