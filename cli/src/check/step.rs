//! `evenkeel check --step`: a step recomputed from the last state before it that the run has kept.

use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use evenkeel_config::human;
use evenkeel_learner::{Agreement, Precision, Recomputation, RecomputedStep, ReplayError};
use evenkeel_run::{
    LineKind, METRICS_FILE, PROGRAM, RECEIPT_FILE, RunRecord, accepted_changes, changed_rewards, read_receipt,
};

use super::answer::Answer;
use super::drawing::drawing;
use super::verdicts::repeat_steps;
use super::{ComparedFiles, NoReceipt};
use crate::arguments::CheckOptions;
use crate::replay::{OpenedReplay, RecordedFiles};
use crate::terminal::{note, print_result};

/// Share of an update that drawing its tokens again takes.
const DRAWING: f64 = 0.4;

/// Prints what was done, and the answer in the last line.
pub(super) async fn check(options: &CheckOptions, step: u64) -> Result<ExitCode> {
    let mut said = String::new();
    let answer = match answer(options, step, &mut said).await {
        Ok(answer) => answer,
        Err(error) => match error.downcast::<ReplayError>() {
            Ok(error) => error.into(),
            Err(error) => Answer::cannot(format!("{error:#}")),
        },
    };
    print_result(&format!("{said}{}\n", answer.sentence()))?;
    Ok(answer.exit_code())
}

async fn answer(options: &CheckOptions, step: u64, said: &mut String) -> Result<Answer> {
    if let Some(answer) = of_files(options, said)? {
        return Ok(answer);
    }
    let files = RecordedFiles::open(RunRecord::read(&options.run)?)?;
    files.require_unchanged(&files.changed_model)?;
    files.require_unchanged(&files.changed_data)?;
    if options.repeat_verdicts {
        files.require_unchanged(&changed_rewards(&files.record.path))?;
    }
    let (record, recipe, model) = (files.record.clone(), files.recipe.clone(), files.model.clone());
    if !record.steps.iter().any(|line| line.step == step) {
        let last = record.steps.last().map_or(0, |line| line.step);
        return Ok(Answer::cannot(format!("--step is {step}, allowed: steps of the run, the last of which is {last}")));
    }
    let scratch = tempfile::tempdir()?;
    let OpenedReplay { mut replay, settings, precision } =
        OpenedReplay::of(files, (Vec::new(), Vec::new()), &[], scratch.path())?;
    let drawing = drawing(&record, &recipe, &settings, &model)?;
    let plan = replay.plan(step, drawing.is_ok())?;
    announce(&plan, drawing.is_ok(), precision);
    said.push_str(&format!("steps {} to {step} are recomputed from {}\n", plan.first, plan.from));

    let numbers = plan.first..=step;
    let verdicts = match repeat_steps(&record.path, &recipe, numbers.clone(), options.repeat_verdicts).await? {
        Ok(verdicts) => verdicts,
        Err(different) => return of_version(&record, numbers, different),
    };
    let mut steps: Vec<RecomputedStep> = Vec::new();
    let on_gpu = settings.compute.device != "cpu" && precision == Precision::Bits;
    let recomputed = replay.recompute(&plan, drawing.as_ref().ok(), |step| steps.push(step));
    match recomputed {
        Err(error @ ReplayError::Different { .. }) if on_gpu => {
            let sentence = Answer::from(error).sentence();
            return Ok(Answer::cannot(format!("bits differ with another GPU, driver or library ({sentence})")));
        }
        Err(error @ ReplayError::Different { .. }) => return of_version(&record, numbers, error.into()),
        recomputed => recomputed?,
    }
    let last = steps.last().ok_or_else(|| anyhow!("no step was recomputed"))?;
    said.push_str(&of_tokens(&steps, drawing.as_ref().err().map(String::as_str)));
    said.push_str(&verdicts.line());
    Ok(verdicts.lacking().map_or_else(|| of_last(last, drawing.is_ok()), Answer::cannot))
}

/// The answer where the files already show one: without a receipt nothing can be compared, and files that are not those
/// of the receipt are not what the run recorded.
fn of_files(options: &CheckOptions, said: &mut String) -> Result<Option<Answer>> {
    let ComparedFiles { is_in_order, receipt, notes, .. } = ComparedFiles::of(options)?;
    let receipt = match receipt {
        Ok(receipt) => receipt,
        Err(NoReceipt { is_different: true, .. }) => {
            let what = "is gone, and the given head belongs to a run that has one";
            return Ok(Some(Answer::different(None::<u64>, RECEIPT_FILE, what)));
        }
        Err(_) => return Ok(Some(Answer::cannot(format!("the run has no {RECEIPT_FILE}")))),
    };
    notes.iter().for_each(|note| said.push_str(&format!("{note}\n")));
    let Some((first, others)) = receipt.differences.split_first() else {
        let fault = || {
            Answer::different(None::<u64>, "prompts.jsonl", "has faults, which `evenkeel check` without --step lists")
        };
        return Ok((!is_in_order).then(fault));
    };
    others.iter().for_each(|other| said.push_str(&format!("{other}\n")));
    Ok(Some(Answer::different(first.step, &first.file, &first.what)))
}

/// Says beforehand how long it takes.
fn announce(plan: &Recomputation, draws: bool, precision: Precision) {
    let seconds = plan.update_seconds * if draws { 1.0 + DRAWING } else { 1.0 };
    let time = human(Duration::from_secs(seconds.ceil() as u64));
    let steps = plan.last - plan.first + 1;
    let device = if precision == Precision::Bits { "" } else { " on the device of the run" };
    note(&format!(
        "note: recomputing {steps} steps takes about {time}{device} and the time of their verdicts, by the updates in \
         {METRICS_FILE}"
    ));
}

/// A difference, unless another version of the program recorded any of the steps, or the run was resumed with changed
/// inputs after one: bits hold within one version, and for one set of inputs.
fn of_version(record: &RunRecord, steps: RangeInclusive<u64>, different: Answer) -> Result<Answer> {
    if accepted_changes(&record.path).iter().any(|accepted| accepted.step >= *steps.start()) {
        let sentence = different.sentence();
        let why = "the run was resumed with changed inputs after it (inputs.json), which give another result";
        return Ok(Answer::cannot(format!("{why} ({sentence})")));
    }
    let lines = read_receipt(&record.path)?.into_iter().filter(|line| line.kind == LineKind::Step);
    let lines = lines.filter(|line| steps.contains(&line.step));
    let programs = lines.filter_map(|line| line.determined).map(|part| part.program);
    Ok(match programs.into_iter().find(|program| program != PROGRAM) {
        None => different,
        Some(other) => {
            let sentence = different.sentence();
            let why = format!("version {other} recorded it, and version {PROGRAM} gives another result");
            Answer::cannot(format!("{why} ({sentence})"))
        }
    })
}

fn of_tokens(steps: &[RecomputedStep], why_not: Option<&str>) -> String {
    let Some(last) = steps.last() else { return String::new() };
    if let Some(why) = why_not {
        return format!("sampled tokens are not drawn again: {why}\n");
    }
    let mut text = format!("{} sampled tokens of step {} are drawn again\n", last.drawn.tokens, last.step);
    let older: u64 = steps.iter().map(|step| step.sampled_tokens.saturating_sub(step.drawn.tokens)).sum();
    if older > 0 {
        text += &format!("{older} tokens of the steps before are not: older weights drew them\n");
    }
    let interrupted: u64 = steps.iter().map(|step| step.drawn.interrupted).sum();
    if interrupted > 0 {
        text += &format!("{interrupted} samples were interrupted, and continued with another seed\n");
    }
    text
}

/// The answer where nothing is different.
fn of_last(last: &RecomputedStep, draws: bool) -> Answer {
    let RecomputedStep { step, agreement, drawn, sampled_tokens, has_equal_weights, .. } = *last;
    match agreement {
        Agreement::Within(distance) => Answer::cannot(format!(
            "bits differ on another device: step {step} is within the tolerance ({distance:.1e} away), and its weights \
             were not compared"
        )),
        Agreement::Equal if !has_equal_weights => {
            Answer::cannot(format!("{RECEIPT_FILE} has no weights of step {step}"))
        }
        Agreement::Equal if draws && drawn.tokens != sampled_tokens => {
            let (drawn, all) = (drawn.tokens, sampled_tokens);
            Answer::cannot(format!("{drawn} of {all} sampled tokens of step {step} could be drawn again"))
        }
        Agreement::Equal => Answer::Equal { step },
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_learner::DrawnAgain;

    use super::super::verdicts::{Repeated, Verdicts};
    use super::*;

    fn recomputed(agreement: Agreement, tokens: u64, has_equal_weights: bool) -> RecomputedStep {
        RecomputedStep {
            step: 4,
            agreement,
            drawn: DrawnAgain { tokens, interrupted: 0 },
            sampled_tokens: 9,
            has_equal_weights,
            has_equal_checkpoint: false,
        }
    }

    #[test]
    fn a_step_is_called_equal_only_where_tokens_update_and_weights_are() {
        let last_sentence =
            |agreement, tokens, weights, draws| of_last(&recomputed(agreement, tokens, weights), draws).sentence();
        assert_eq!(last_sentence(Agreement::Equal, 9, true, true), "equal: step 4 is what the run recorded");
        assert_eq!(last_sentence(Agreement::Equal, 0, true, false), "equal: step 4 is what the run recorded");
        for (sentence, words) in [
            (last_sentence(Agreement::Within(0.0), 9, false, false), "within the tolerance (0.0e0 away)"),
            (last_sentence(Agreement::Equal, 9, false, true), "receipt.jsonl has no weights of step 4"),
            (last_sentence(Agreement::Equal, 8, true, true), "8 of 9 sampled tokens of step 4"),
        ] {
            assert!(sentence.starts_with("cannot be recomputed because ") && sentence.contains(words), "{sentence}");
        }
    }

    #[test]
    fn what_was_not_drawn_or_repeated_is_said() {
        let steps = [recomputed(Agreement::Equal, 5, true), recomputed(Agreement::Equal, 9, true)];
        let text = of_tokens(&steps, None);
        assert_eq!(
            text,
            "9 sampled tokens of step 4 are drawn again\n4 tokens of the steps before are not: older weights drew them\n"
        );
        assert_eq!(of_tokens(&steps, Some("why")), "sampled tokens are not drawn again: why\n");
        let verdicts = |others| Verdicts::Repeated(Repeated { verdicts: 3, others, lacking: None }).line();
        assert_eq!(verdicts(0), "3 verdicts of it are repeated\n");
        assert!(verdicts(2).contains("2 stand as they were recorded"));
    }
}
