//! The paper's criterion and its other claims: where the runs lie, what is expected there, and whether it held.

use super::{ConclusionKind, Sentence, count, list, p_value};
use crate::criterion::{Claim, ClaimKind, NoWorse, OrderedTasks, Verdict};
use crate::pairs::{Finding, PairedDifference};
use crate::task::TaskComparison;

/// What is concluded about one task: where it lies in the plane, then each expectation. Nothing without arms that
/// differ only in their rule.
pub(super) fn sentences(task: &TaskComparison) -> Vec<Sentence> {
    let Some(criterion) = task.criterion.as_ref().filter(|criterion| !criterion.claims.is_empty()) else {
        return Vec::new();
    };
    let place = format!(
        "The runs begin with {}, where the paper's criterion {} (by this report's convention).",
        criterion.start.text(),
        criterion.preference.text()
    );
    let place = (ConclusionKind::Caution, place);
    let alike = criterion.claims.chunk_by(|one, other| are_alike(task, one, other));
    std::iter::once(place).chain(alike.map(|claims| of_claims(task, claims))).collect()
}

/// Whether one sentence can state the verdicts on both: that an arm is robust against two others, or that this is open
/// for one reason.
fn are_alike(task: &TaskComparison, one: &Claim, other: &Claim) -> bool {
    let about = |claim: &Claim| (claim.kind, claim.arm, claim.measure, claim.verdict);
    let alike = match one.verdict {
        Verdict::Held => true,
        Verdict::Contradicted => false,
        Verdict::Open => why(task, one) == why(task, other),
    };
    one.kind != ClaimKind::Preferred && about(one) == about(other) && alike
}

/// One sentence for claims of the same kind.
fn of_claims(task: &TaskComparison, claims: &[Claim]) -> Sentence {
    let claim = &claims[0];
    let others: Vec<String> = claims.iter().map(|claim| task.arms[claim.other].label.clone()).collect();
    let arm = &task.arms[claim.arm].label;
    let other = list(&others);
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
            (ConclusionKind::Shown, format!("{arm} is robust here against {other}: {}.", no_worse(claims)))
        }
        (ClaimKind::Robust, Verdict::Contradicted) => (
            ConclusionKind::Shown,
            format!("That {arm} is robust is contradicted here: {other} is better in {measure}."),
        ),
        (ClaimKind::Robust, Verdict::Open) => {
            let (kind, why) = why_open(task, claims);
            (kind, format!("Whether {arm} is robust against {other} is open: in {measure} {why}."))
        }
        (ClaimKind::LargestDrop, Verdict::Held) => {
            (ConclusionKind::Shown, format!("As the paper has it, {arm} falls further from its peak than {other}."))
        }
        (ClaimKind::LargestDrop, Verdict::Contradicted) => (
            ConclusionKind::Shown,
            format!("That {arm} falls furthest from its peak is contradicted here: {other} falls further."),
        ),
        (ClaimKind::LargestDrop, Verdict::Open) => {
            let (kind, why) = why(task, claim);
            (
                kind,
                format!("Whether {arm} falls further from its peak than {other}, as the paper has it, is open: {why}."),
            )
        }
    }
}

/// What the tests of an arm that is no worse say.
fn no_worse(claims: &[Claim]) -> String {
    let measure = claims[0].measure;
    let tests: Vec<&NoWorse> = claims.iter().filter_map(|claim| claim.no_worse.as_ref()).collect();
    let below = |test: &NoWorse| test.interval.map_or(test.gain, |interval| interval.low);
    let lowest = tests.iter().map(|test| below(test)).fold(f64::INFINITY, f64::min);
    let Some(margin) = tests.first().map(|test| test.margin) else {
        return format!("it is better in {}", measure.name());
    };
    if lowest > 0.0 {
        return format!("it is better in {}", measure.name());
    }
    format!(
        "it is no worse in {} by the margin of {} (at worst {} below)",
        measure.name(),
        measure.shown(margin),
        measure.shown(-lowest)
    )
}

/// Why it is not shown that an arm is no worse.
fn why_open(task: &TaskComparison, claims: &[Claim]) -> (ConclusionKind, String) {
    let (kind, text) = why(task, &claims[0]);
    let tests = claims.iter().filter_map(|claim| claim.no_worse.as_ref());
    let margin = tests.map(|test| test.margin).next();
    match (kind, margin) {
        (ConclusionKind::NotShown, Some(margin)) => {
            (kind, format!("{text}, nor that it is no worse by the margin of {}", claims[0].measure.shown(margin)))
        }
        _ => (kind, text),
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

/// What is concluded about tasks that are ordered in the plane. Pairs of tasks without enough seeds share a sentence.
pub(super) fn between_tasks(ordered: &[OrderedTasks]) -> Vec<Sentence> {
    let is_few = |pair: &&OrderedTasks| pair.verdict == Verdict::Open && pair.difference.seeds < pair.needed;
    let mut sentences: Vec<Sentence> = ordered.iter().filter(|pair| !is_few(pair)).map(of_tasks).collect();
    let few: Vec<&OrderedTasks> = ordered.iter().filter(is_few).collect();
    let counts = |pair: &&OrderedTasks| (pair.needed, pair.difference.seeds);
    sentences.extend(few.chunk_by(|one, other| counts(one) == counts(other)).map(too_few));
    sentences
}

fn too_few(pairs: &[&OrderedTasks]) -> Sentence {
    let order = |pair: &&OrderedTasks| format!("on {} than on {}", pair.token_favoured, pair.sequence_favoured);
    let order = list(&pairs.iter().map(order).collect::<Vec<_>>());
    let first = pairs[0];
    let text = format!(
        "Lengths vary more and the gap is smaller {order}, so that the criterion expects token to gain on sequence \
         there: that is open, since a verdict takes {} seeds and {} paired.",
        first.needed,
        match first.difference.seeds {
            1 => "1 is".to_owned(),
            seeds => format!("{seeds} are"),
        },
    );
    (ConclusionKind::Inconclusive, text)
}

fn of_tasks(pair: &OrderedTasks) -> Sentence {
    let OrderedTasks { token_favoured: more, sequence_favoured: less, measure, difference, .. } = pair;
    let expected = format!(
        "On {more} lengths vary more and the gap is smaller than on {less}, so that the criterion expects token to \
        gain on sequence there"
    );
    let seeds = count(difference.seeds, "seed");
    let value = measure.shown(difference.value);
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
        Verdict::Open => (ConclusionKind::NotShown, format!("{expected}: that is open; it moves {numbers}.")),
    }
}
