//! The paper's criterion: where the runs lie, what it expects there, and what became of that.

use super::{ConclusionKind, Sentence, count, p_value};
use crate::criterion::{Claim, ClaimKind, OrderedTasks, Verdict};
use crate::pairs::{Finding, PairedDifference};
use crate::task::TaskComparison;

/// Of one task: where it lies, then each expectation. Nothing without arms that differ in their rule alone.
pub(super) fn sentences(task: &TaskComparison) -> Vec<Sentence> {
    let Some(criterion) = task.criterion.as_ref().filter(|criterion| !criterion.claims.is_empty()) else {
        return Vec::new();
    };
    let place = format!(
        "The runs begin with {}: by the convention of this report, where the paper's criterion {}.",
        criterion.start.text(),
        criterion.preference.text()
    );
    let place = (ConclusionKind::Caution, place);
    std::iter::once(place).chain(criterion.claims.iter().map(|claim| of_claim(task, claim))).collect()
}

fn of_claim(task: &TaskComparison, claim: &Claim) -> Sentence {
    let (arm, other) = (&task.arms[claim.arm].label, &task.arms[claim.other].label);
    let measure = claim.measure.name();
    match (claim.kind, claim.verdict) {
        (ClaimKind::Preferred, Verdict::Held) => {
            (ConclusionKind::Shown, format!("The criterion held: {arm} is better than {other} in {measure}."))
        }
        (ClaimKind::Preferred, Verdict::Contradicted) => (
            ConclusionKind::Shown,
            format!("The criterion is contradicted: it prefers {arm}, and {other} is better in {measure}."),
        ),
        (ClaimKind::Preferred, Verdict::Open) => {
            let (kind, why) = why(task, claim);
            (kind, format!("Whether the criterion holds is open: it prefers {arm} to {other}, and in {measure} {why}."))
        }
        (ClaimKind::Robust, Verdict::Held) => {
            (ConclusionKind::Shown, format!("{arm} is robust here against {other}: it is better in {measure}."))
        }
        (ClaimKind::Robust, Verdict::Contradicted) => (
            ConclusionKind::Shown,
            format!("That {arm} is robust is contradicted here: {other} is better in {measure}."),
        ),
        (ClaimKind::Robust, Verdict::Open) => {
            let (kind, why) = why(task, claim);
            (kind, format!("Whether {arm} is robust against {other} is open: in {measure} {why}."))
        }
    }
}

/// Why neither arm is shown to be better.
fn why(task: &TaskComparison, claim: &Claim) -> (ConclusionKind, String) {
    let ends = (claim.arm.min(claim.other), claim.arm.max(claim.other), claim.measure);
    let is_pair = |pair: &&PairedDifference| (pair.first, pair.second, pair.measure) == ends;
    match task.pairs.iter().find(is_pair).map(|pair| pair.finding) {
        Some(Finding::TooFewSeeds { needed }) => {
            (ConclusionKind::Inconclusive, format!("a verdict takes {needed} seeds"))
        }
        Some(Finding::NotShown) => (ConclusionKind::NotShown, "no difference is shown".to_owned()),
        Some(Finding::NoSpread) => (ConclusionKind::Inconclusive, "every seed has the same difference".to_owned()),
        _ => (ConclusionKind::Inconclusive, "they share no seed".to_owned()),
    }
}

/// Of two tasks that are ordered in the plane.
pub(super) fn of_tasks(pair: &OrderedTasks) -> Sentence {
    let OrderedTasks { token_favoured: more, sequence_favoured: less, measure, difference, .. } = pair;
    let expected = format!(
        "On {more} lengths vary more and the gap is smaller than on {less}, so that the criterion expects token to gain on sequence there"
    );
    let (seeds, value) = (count(difference.seeds, "seed"), measure.shown(difference.value));
    let range = difference.interval.map_or_else(String::new, |interval| {
        format!(", 95 % interval {} to {}", measure.shown(interval.low), measure.shown(interval.high))
    });
    let numbers = format!(
        "by {value} in {} ({seeds}{range}; exact p {}, after Holm {})",
        measure.name(),
        p_value(pair.p),
        p_value(pair.adjusted_p)
    );
    match pair.verdict {
        Verdict::Held => (ConclusionKind::Shown, format!("{expected}: it does, {numbers}. The criterion held.")),
        Verdict::Contradicted => {
            (ConclusionKind::Shown, format!("{expected}: it loses, {numbers}. The criterion is contradicted."))
        }
        Verdict::Open if difference.seeds < pair.needed => (
            ConclusionKind::Inconclusive,
            format!("{expected}: that is open, since a verdict takes {} seeds and {seeds} are there.", pair.needed),
        ),
        Verdict::Open => (ConclusionKind::NotShown, format!("{expected}: that is open; it moves {numbers}.")),
    }
}
