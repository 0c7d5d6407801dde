//! What must be known of single arms: drops, collapsed and failed seeds.

use super::{ConclusionKind, Sentence, count, list};
use crate::arms::{ArmSummary, ByChance, CollapsedSeed};
use crate::measure::Measure;
use crate::pairs::FEWEST_SEEDS;
use crate::task::TaskComparison;

/// Of all arms of a task.
pub(super) fn sentences(task: &TaskComparison) -> Vec<Sentence> {
    let drops = task.arms.iter().filter_map(|arm| drop(arm, task.evaluations));
    let collapsed = task.arms.iter().filter_map(collapsed);
    let failed = task.arms.iter().filter_map(failed);
    drops.chain(collapsed).chain(failed).chain(unknown_noise(task)).collect()
}

/// Whether an arm loses more from peak to last than chance explains.
fn drop(arm: &ArmSummary, evaluations: usize) -> Option<Sentence> {
    let measure = Measure::AccuracyDrop;
    let summary = arm.measure(measure)?;
    let ByChance { expected, beyond, is_bound } = summary.by_chance?;
    let interval = beyond.interval.filter(|_| beyond.seeds >= FEWEST_SEEDS)?;
    let at_most = if is_bound { "at most " } else { "" };
    let facts = format!(
        "{} falls by {} from its peak acc@k to its last, of which {at_most}{} is expected by chance, being the highest of {}",
        arm.label,
        measure.shown(summary.mean.value),
        measure.shown(expected),
        count(evaluations, "noisy evaluation"),
    );
    let (low, high) = (measure.shown(interval.low), measure.shown(interval.high));
    Some(if interval.low > 0.0 {
        (ConclusionKind::Shown, format!("{facts}; the rest, {low} to {high}, is a loss."))
    } else {
        (ConclusionKind::NotShown, format!("{facts}; a loss beyond that is not shown ({low} to {high})."))
    })
}

fn collapsed(arm: &ArmSummary) -> Option<Sentence> {
    let seed = |seed: &CollapsedSeed| format!("seed {} ({})", seed.seed, seed.collapse.reason());
    let seeds: Vec<String> = arm.collapsed.iter().map(seed).collect();
    let text = format!(
        "{} of {} of {} collapsed: {}. They count in every number.",
        seeds.len(),
        count(arm.seeds.len(), "seed"),
        arm.label,
        list(&seeds)
    );
    (!seeds.is_empty()).then_some((ConclusionKind::Caution, text))
}

fn failed(arm: &ArmSummary) -> Option<Sentence> {
    let seeds: Vec<String> =
        arm.failed.iter().map(|failed| format!("seed {} ({})", failed.seed, failed.reason)).collect();
    let text = format!(
        "{} of {} failed and {} in no number: {}. If the settings of this arm are the cause, its numbers are better than it is.",
        count(seeds.len(), "seed"),
        arm.label,
        if seeds.len() == 1 { "is" } else { "are" },
        list(&seeds),
    );
    (!seeds.is_empty()).then_some((ConclusionKind::Caution, text))
}

fn unknown_noise(task: &TaskComparison) -> Option<Sentence> {
    let drops = || task.arms.iter().filter_map(|arm| arm.measure(Measure::AccuracyDrop));
    let is_unknown = drops().next().is_some() && drops().all(|summary| summary.by_chance.is_none());
    let text = "The noise of the evaluations is unknown: how much of a peak or of a drop is chance cannot be said.";
    is_unknown.then(|| (ConclusionKind::Caution, text.to_owned()))
}
