//! Re-weighing: what other aggregation rules would have done with the groups of recorded steps.

use anyhow::Result;
use evenkeel_learner::{Agreement, ReplayError, ReplayedStep, RuleEffect};
use serde::Serialize;

use super::RecordedFiles;
use super::open::{OpenedReplay, Rules};
use super::steps::StepRange;
use crate::columns::aligned;
use crate::terminal::{note, print_result};

/// A rule at a step, as a JSON line.
#[derive(Serialize)]
struct RuleLine<'a> {
    step: u64,
    /// Whether the recorded step was reproduced to the bit; false where only a tolerance was kept.
    equal: bool,
    /// Whether the weights that the step made are those of the receipt; false where they were not compared.
    equal_weights: bool,
    #[serde(flatten)]
    effect: &'a RuleEffect,
}

/// Reproduces each step and prints every rule on its groups. Returns whether all of them are what was recorded.
pub(super) fn weigh(
    run: RecordedFiles,
    rules: Rules,
    settings: &[String],
    steps: StepRange,
    json: bool,
) -> Result<bool> {
    run.require_unchanged(&run.changed_model)?;
    let numbers = steps.among(run.record.steps.iter().map(|line| line.step))?;
    let scratch = tempfile::tempdir()?;
    let OpenedReplay { mut replay, .. } = OpenedReplay::of(run, rules, settings, scratch.path())?;
    let mut left_out: Option<(usize, ReplayError)> = None;
    let mut replayed = 0;
    for step in numbers {
        match replay.step(step) {
            Ok(step) => {
                replayed += 1;
                print_result(&if json { lines(&step)? } else { table(&step) })?;
            }
            Err(error @ (ReplayError::Different { .. } | ReplayError::BeyondTolerance { .. })) => {
                note(&format!("error: {error}"));
                return Ok(false);
            }
            Err(error @ ReplayError::Missing { .. }) if !steps.is_named => match &mut left_out {
                Some((others, _)) => *others += 1,
                None => left_out = Some((0, error)),
            },
            Err(error) => return Err(error.into()),
        }
    }
    match left_out {
        Some((_, error)) if replayed == 0 => return Err(error.into()),
        Some((0, error)) => note(&format!("note: {error}")),
        Some((others, error)) => note(&format!("note: {error} (and {others} more steps)")),
        None if replayed == 0 => anyhow::bail!("the run has none of these steps"),
        None => {}
    }
    Ok(true)
}

fn lines(replayed: &ReplayedStep) -> Result<String> {
    let equal = replayed.agreement == Agreement::Equal;
    let (step, equal_weights) = (replayed.step, replayed.has_equal_weights);
    let line = |effect| Ok(serde_json::to_string(&RuleLine { step, equal, equal_weights, effect })? + "\n");
    replayed.effects.iter().map(line).collect()
}

fn table(replayed: &ReplayedStep) -> String {
    let agreement = match replayed.agreement {
        Agreement::Equal if replayed.has_equal_weights => {
            "samples, loss, gradient and weights are equal to the recorded ones, to the bit".to_owned()
        }
        Agreement::Equal => {
            "samples, loss and gradient are equal to the recorded ones, to the bit; its weights were not compared"
                .to_owned()
        }
        Agreement::Within(distance) => {
            format!("within the tolerance for another device, not equal ({distance:.1e} away)")
        }
    };
    let header = ["rule", "loss", "gradient norm", "cosine", "positive", "negative", "share by length, short to long"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(replayed.effects.iter().map(row));
    let header = ["gradient by side", "positive norm", "negative norm", "cosine between"];
    let mut by_side = vec![header.map(str::to_owned).to_vec()];
    by_side.extend(replayed.effects.iter().map(side_row));
    format!("step {}: {agreement}\n{}\n{}\n", replayed.step, aligned(&rows), aligned(&by_side))
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.4}"))
}

/// The rule with its numbers.
fn name(effect: &RuleEffect) -> String {
    let mut name = effect.rule.to_string();
    if let (Some(exponent), Some(ratio)) = (effect.length_exponent, effect.side_ratio) {
        name += &format!(" {exponent}, ratio {ratio}");
    }
    if effect.recorded { name + " (recorded)" } else { name }
}

/// The gradient of each side alone, without further terms of the loss.
fn side_row(effect: &RuleEffect) -> Vec<String> {
    vec![
        name(effect),
        format!("{:.3e}", effect.positive_gradient_norm),
        format!("{:.3e}", effect.negative_gradient_norm),
        number(effect.side_cosine),
    ]
}

fn row(effect: &RuleEffect) -> Vec<String> {
    let shares = effect.share_by_length.map(|shares| shares.map(|share| format!("{share:.2}")).join(" "));
    vec![
        name(effect),
        format!("{:.3e}", effect.loss),
        format!("{:.3e}", effect.gradient_norm),
        number(effect.cosine),
        number(effect.positive),
        number(effect.negative),
        shares.unwrap_or_else(|| "–".to_owned()),
    ]
}
