//! Over several tasks.

use super::{ConclusionKind, Sentence, count};
use crate::across::{AcrossTasks, PairAcrossTasks};
use crate::pairs::FEWEST_SEEDS;

/// Of the first measure that all tasks have.
pub(super) fn sentences(across: &[AcrossTasks]) -> Vec<Sentence> {
    let Some(across) = across.first() else { return Vec::new() };
    let tasks = count(across.tasks.len(), "task");
    let measure = across.measure.name();
    let of = |pair: &PairAcrossTasks| {
        let PairAcrossTasks { first, second, probability, interval } = pair;
        let (first, second) = (&across.arms[*first], &across.arms[*second]);
        let text = format!(
            "Over {tasks} a run of {} has a higher {measure} than a run of {} with probability {probability:.2} (95 % interval {:.2} to {:.2}).",
            first.label, second.label, interval.low, interval.high,
        );
        if first.seeds.min(second.seeds) < FEWEST_SEEDS {
            (
                ConclusionKind::Inconclusive,
                format!("{text} With fewer than {FEWEST_SEEDS} seeds on a task nothing can be concluded."),
            )
        } else if interval.excludes(0.5) {
            (ConclusionKind::Shown, text)
        } else {
            (ConclusionKind::NotShown, format!("{text} Neither is shown to be better: the interval includes 0.5."))
        }
    };
    across.pairs.iter().map(of).collect()
}
