//! Differences between arms.

use evenkeel_statistics::{Interval, smallest_p};

use super::{ConclusionKind, Sentence, count, list, p_value};
use crate::pairs::{Finding, PairedDifference};
use crate::task::TaskComparison;

/// The primary measure pair by pair, then what is shown in the others.
pub(super) fn sentences(task: &TaskComparison) -> Vec<Sentence> {
    let Some(primary) = task.primary else { return Vec::new() };
    let family: Vec<&PairedDifference> = task.pairs.iter().filter(|pair| pair.measure == primary).collect();
    let mut sentences: Vec<Sentence> = too_few(task, &family).into_iter().collect();
    sentences.extend(family.iter().filter_map(|pair| of_pair(task, pair, family.len())));
    let others = task.pairs.iter().filter(|pair| pair.measure != primary && pair.finding.is_shown());
    sentences.extend(others.map(|pair| (ConclusionKind::Shown, besides(task, pair))));
    sentences
}

/// A difference in another measure than the primary one, in short: the table has its interval.
fn besides(task: &TaskComparison, pair: &PairedDifference) -> String {
    let (higher, lower, sign) = sides(pair);
    let measure = pair.measure;
    let better = if measure.is_higher_better() { "" } else { ", where less is better" };
    format!(
        "Besides: {} of {} above {} by {} (Holm p {}{better}).",
        measure.name(),
        task.arms[higher].label,
        task.arms[lower].label,
        measure.shown(sign * pair.difference.value),
        p_value(pair.adjusted_p),
    )
}

/// The higher arm, the lower one, and the sign of their difference.
fn sides(pair: &PairedDifference) -> (usize, usize, f64) {
    match pair.finding {
        Finding::SecondHigher => (pair.second, pair.first, -1.0),
        _ => (pair.first, pair.second, 1.0),
    }
}

/// One sentence for all pairs without enough seeds.
fn too_few(task: &TaskComparison, family: &[&PairedDifference]) -> Option<Sentence> {
    let few = |pair: &&&PairedDifference| match pair.finding {
        Finding::TooFewSeeds { needed } => Some((pair.seeds.len(), needed)),
        _ => None,
    };
    let (most, needed) = family.iter().filter_map(|pair| few(&pair)).max()?;
    let pairs: Vec<String> = family.iter().filter(|pair| few(pair).is_some()).map(|pair| names(task, pair)).collect();
    let of = if pairs.len() == family.len() { "any pair of arms".to_owned() } else { list(&pairs) };
    let reach = smallest_p(most);
    let family = count(family.len(), "pair");
    let text = format!(
        "Nothing can be concluded about {of}: {} at most are paired, and a finding takes {needed}. With {most} the exact test cannot go below p = {}, before \
         Holm's correction for {family}.",
        count(most, "seed"),
        p_value(reach),
    );
    Some((ConclusionKind::Inconclusive, text))
}

fn of_pair(task: &TaskComparison, pair: &PairedDifference, family: usize) -> Option<Sentence> {
    let measure = pair.measure;
    match pair.finding {
        Finding::TooFewSeeds { .. } => None,
        Finding::NoSpread => {
            let text = format!(
                "Nothing can be concluded about the {} of {}: every seed has the same difference, {}, which leaves unknown how far another seed would be \
                 off.",
                measure.name(),
                names(task, pair),
                measure.shown(pair.difference.value),
            );
            Some((ConclusionKind::Inconclusive, text))
        }
        Finding::NotShown => Some((ConclusionKind::NotShown, not_shown(task, pair, family))),
        Finding::FirstHigher | Finding::SecondHigher => {
            let doubt = match pair.studentised {
                Some(interval) if !interval.excludes(0.0) => {
                    " The studentised bootstrap's interval includes zero, though: the differences are skewed."
                }
                _ => "",
            };
            Some((ConclusionKind::Shown, shown(task, pair) + doubt))
        }
    }
}

fn shown(task: &TaskComparison, pair: &PairedDifference) -> String {
    let (higher, lower, sign) = sides(pair);
    let measure = pair.measure;
    let better = if measure.is_higher_better() { "" } else { " (less is better)" };
    let interval =
        pair.difference.interval.unwrap_or(Interval { low: pair.difference.value, high: pair.difference.value });
    let (one, other) = (sign * interval.low, sign * interval.high);
    format!(
        "The {} of {} is higher than that of {} by {} (95 % interval {} to {}, {}; exact p {}, after Holm {}){better}.",
        measure.name(),
        task.arms[higher].label,
        task.arms[lower].label,
        measure.shown(sign * pair.difference.value),
        measure.shown(one.min(other)),
        measure.shown(one.max(other)),
        count(pair.seeds.len(), "paired seed"),
        p_value(pair.sign_flip.p),
        p_value(pair.adjusted_p),
    )
}

fn not_shown(task: &TaskComparison, pair: &PairedDifference, family: usize) -> String {
    let measure = pair.measure;
    let Some(interval) = pair.difference.interval else { return String::new() };
    let names = names(task, pair);
    let (low, high) = (measure.shown(interval.low), measure.shown(interval.high));
    if interval.excludes(0.0) {
        let (p, adjusted) = (p_value(pair.sign_flip.p), p_value(pair.adjusted_p));
        return format!(
            "A difference in {} between {names} is not shown: its interval, {low} to {high}, excludes zero, but the exact test over {} has p = {p}, \
             and {adjusted} after Holm's correction for {}.",
            measure.name(),
            count(pair.seeds.len(), "seed"),
            count(family, "pair"),
        );
    }
    format!(
        "No difference in {} is shown between {names}: the interval of the first minus the second is {low} to {high}. That is not evidence that \
         they are equal: every difference within it remains possible.",
        measure.name(),
    )
}

fn names(task: &TaskComparison, pair: &PairedDifference) -> String {
    format!("{} and {}", task.arms[pair.first].label, task.arms[pair.second].label)
}
