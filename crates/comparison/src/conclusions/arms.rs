//! What must be known of single arms: drops, collapsed and failed seeds.

use evenkeel_statistics::Interval;

use super::{ConclusionKind, Sentence, count, list};
use crate::arms::{ArmSummary, ByChance, CollapsedSeed};
use crate::measure::Measure;
use crate::pairs::FEWEST_SEEDS;
use crate::task::TaskComparison;

/// What is concluded about the arms of a task, each on its own.
pub(super) fn sentences(task: &TaskComparison) -> Vec<Sentence> {
    let collapsed = task.arms.iter().filter_map(collapsed);
    let failed = task.arms.iter().filter_map(failed);
    let unverified = task.arms.iter().filter_map(unverified);
    drops(task).into_iter().chain(collapsed).chain(failed).chain(unverified).chain(unknown_noise(task)).collect()
}

/// Drops that chance does not explain, arm by arm; the others share a sentence.
fn drops(task: &TaskComparison) -> Vec<Sentence> {
    let known: Vec<PeakDrop<'_>> = task.arms.iter().filter_map(PeakDrop::of).collect();
    let (shown, not_shown): (Vec<&PeakDrop<'_>>, Vec<&PeakDrop<'_>>) =
        known.iter().partition(|drop| drop.interval.low > 0.0);
    let highest = format!("being the highest of {}", count(task.evaluations, "noisy evaluation"));
    let mut sentences: Vec<Sentence> = shown.iter().map(|drop| (ConclusionKind::Shown, drop.loss(&highest))).collect();
    match &not_shown[..] {
        [] => {}
        [drop] => sentences.push((ConclusionKind::NotShown, drop.no_loss(&highest))),
        several => {
            let all: Vec<String> = several.iter().map(|drop| drop.in_short()).collect();
            let text = format!(
                "A peak mean@k lies above the last one by chance alone, {highest}. No loss beyond that is shown of {}.",
                all.join("; ")
            );
            sentences.push((ConclusionKind::NotShown, text));
        }
    }
    sentences
}

/// What an arm loses from its peak to its last accuracy.
struct PeakDrop<'a> {
    label: &'a str,
    mean: f64,
    chance: ByChance,
    /// Interval of the part of the drop that chance does not explain.
    interval: Interval,
}

impl<'a> PeakDrop<'a> {
    const MEASURE: Measure = Measure::AccuracyDrop;

    /// `None` where the noise is unknown or the seeds are too few.
    fn of(arm: &'a ArmSummary) -> Option<Self> {
        let summary = arm.measure(Self::MEASURE)?;
        let chance = summary.by_chance?;
        let interval = chance.beyond.interval.filter(|_| chance.beyond.seeds >= FEWEST_SEEDS)?;
        Some(Self { label: &arm.label, mean: summary.mean.value, chance, interval })
    }

    /// By how much, and the part of it that chance makes.
    fn sizes(&self) -> (String, String) {
        let at_most = if self.chance.is_bound { "at most " } else { "" };
        let shown = |value| Self::MEASURE.shown(value);
        (shown(self.mean), format!("{at_most}{}", shown(self.chance.expected)))
    }

    fn range(&self) -> String {
        format!("{} to {}", Self::MEASURE.shown(self.interval.low), Self::MEASURE.shown(self.interval.high))
    }

    fn facts(&self, highest: &str) -> String {
        let (fall, chance) = self.sizes();
        format!(
            "{} falls by {fall} from its peak mean@k to its last, of which {chance} is expected by chance, {highest}",
            self.label
        )
    }

    fn loss(&self, highest: &str) -> String {
        format!("{}; the rest, {}, is a loss.", self.facts(highest), self.range())
    }

    fn no_loss(&self, highest: &str) -> String {
        format!("{}; a loss beyond that is not shown ({}).", self.facts(highest), self.range())
    }

    fn in_short(&self) -> String {
        let (fall, chance) = self.sizes();
        format!("{} (falls by {fall}, {chance} by chance, the rest {})", self.label, self.range())
    }
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
        "{} of {} failed and {} in no number: {}. If the settings of this arm are the cause, its numbers are better \
        than it is.",
        count(seeds.len(), "seed"),
        arm.label,
        if seeds.len() == 1 { "is" } else { "are" },
        list(&seeds),
    );
    (!seeds.is_empty()).then_some((ConclusionKind::Caution, text))
}

fn unverified(arm: &ArmSummary) -> Option<Sentence> {
    let seeds: Vec<String> = arm.unverified.iter().map(u64::to_string).collect();
    let text = format!(
        "Evaluations of {} of {} were not verified: seed {}. It was not, or could not be, checked whether the engine \
         had the right weights.",
        count(seeds.len(), "seed"),
        arm.label,
        list(&seeds),
    );
    (!seeds.is_empty()).then_some((ConclusionKind::Caution, text))
}

fn unknown_noise(task: &TaskComparison) -> Option<Sentence> {
    let drops = || task.arms.iter().filter_map(|arm| arm.measure(Measure::AccuracyDrop));
    let is_unknown = drops().next().is_some() && drops().all(|summary| summary.by_chance.is_none());
    let text = "The noise of the evaluations is unknown, and so is the share of chance in a peak or a drop.";
    is_unknown.then(|| (ConclusionKind::Caution, text.to_owned()))
}
