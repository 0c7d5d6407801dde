//! Conclusions across several tasks.

use super::{ConclusionKind, Sentence, count};
use crate::across::{AcrossTasks, PairAcrossTasks};
use crate::pairs::FEWEST_SEEDS;

/// Sentences about the first measure that all tasks have. Pairs with the same conclusion share a sentence.
pub(super) fn sentences(across: &[AcrossTasks]) -> Vec<Sentence> {
    let Some(across) = across.first() else { return Vec::new() };
    let mut few = Vec::new();
    let mut open = Vec::new();
    let mut sentences = Vec::new();
    for pair in &across.pairs {
        let [first, second] = [pair.first, pair.second].map(|arm| &across.arms[arm]);
        let names = || format!("{} and {}", first.label, second.label);
        if first.seeds.min(second.seeds) < FEWEST_SEEDS {
            few.push(names());
        } else if pair.interval.excludes(0.5) {
            sentences.push((ConclusionKind::Shown, shown(across, pair)));
        } else {
            open.push(names());
        }
    }
    let over = format!("Over {}", count(across.tasks.len(), "task"));
    let measure = across.measure.name();
    let is_all = |pairs: &[String]| pairs.len() > 1 && pairs.len() == across.pairs.len();
    if !open.is_empty() {
        let of = if is_all(&open) {
            format!("no arm is shown to be better than another in {measure}")
        } else {
            format!("neither arm of these pairs is shown to be better in {measure}: {}", open.join("; "))
        };
        let text =
            format!("{over} {of}. The interval of the probability that a run of the first is higher includes 0.5.");
        sentences.push((ConclusionKind::NotShown, text));
    }
    if !few.is_empty() {
        let of = if is_all(&few) { "any pair of arms".to_owned() } else { few.join("; ") };
        let text = format!(
            "{over} nothing can be concluded about the {measure} of {of}: a task has fewer than {FEWEST_SEEDS} seeds."
        );
        sentences.push((ConclusionKind::Inconclusive, text));
    }
    sentences
}

fn shown(across: &AcrossTasks, pair: &PairAcrossTasks) -> String {
    format!(
        "Over {} a run of {} has a higher {} than a run of {} with probability {:.2} (95 % interval {:.2} to {:.2}).",
        count(across.tasks.len(), "task"),
        across.arms[pair.first].label,
        across.measure.name(),
        across.arms[pair.second].label,
        pair.probability,
        pair.interval.low,
        pair.interval.high,
    )
}
