//! Conclusions about differences between two arms of a task.

use evenkeel_statistics::{Interval, smallest_p};

use super::{ConclusionKind, Sentence, count, p_value};
use crate::measure::Measure;
use crate::pairs::{Finding, PairedDifference};
use crate::task::TaskComparison;

/// The primary measure, then what is shown in the others. Pairs with the same conclusion share a sentence.
pub(super) fn sentences(task: &TaskComparison) -> Vec<Sentence> {
    let Some(primary) = task.primary else { return Vec::new() };
    let family: Vec<&PairedDifference> = task.pairs.iter().filter(|pair| pair.measure == primary).collect();
    let mut sentences: Vec<Sentence> = too_few(task, &family).into_iter().collect();
    sentences.extend(family.iter().filter_map(|pair| of_pair(task, pair, family.len())));
    sentences.extend(around_zero(task, primary, &family));
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
    let of = if pairs.len() == family.len() { "any pair of arms".to_owned() } else { pairs.join("; ") };
    let reach = smallest_p(most);
    let family = count(family.len(), "pair");
    let text = format!(
        "Nothing can be concluded about {of}: {} at most are paired, and a finding takes {needed}. With {most} the \
         exact test cannot go below p = {}, before Holm's correction for {family}.",
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
                "Nothing can be concluded about the {} of {}: every seed has the same difference, {}, which leaves \
                 unknown how far another seed would be off.",
                measure.name(),
                names(task, pair),
                measure.shown(pair.difference.value),
            );
            Some((ConclusionKind::Inconclusive, text))
        }
        Finding::NotShown => Some((ConclusionKind::NotShown, beyond_chance_of_one(task, pair, family)?)),
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
    let one = sign * interval.low;
    let other = sign * interval.high;
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

/// An interval that excludes zero, where the exact test over all pairs does not stand.
fn beyond_chance_of_one(task: &TaskComparison, pair: &PairedDifference, family: usize) -> Option<String> {
    let measure = pair.measure;
    let interval = pair.difference.interval.filter(|interval| interval.excludes(0.0))?;
    Some(format!(
        "A difference in {} between {} is not shown: its interval, {}, excludes zero, but the exact test over {} has p \
         = {}, and {} after Holm's correction for {}.",
        measure.name(),
        names(task, pair),
        range(measure, interval),
        count(pair.seeds.len(), "seed"),
        p_value(pair.sign_flip.p),
        p_value(pair.adjusted_p),
        count(family, "pair"),
    ))
}

/// One sentence for all pairs whose interval includes zero.
fn around_zero(task: &TaskComparison, measure: Measure, family: &[&PairedDifference]) -> Option<Sentence> {
    let not_shown = family.iter().filter(|pair| pair.finding == Finding::NotShown);
    let with_interval = not_shown.filter_map(|pair| Some((pair, pair.difference.interval?)));
    let pairs: Vec<(String, String)> = with_interval
        .filter(|(_, interval)| !interval.excludes(0.0))
        .map(|(pair, interval)| (names(task, pair), range(measure, interval)))
        .collect();
    let measure = measure.name();
    let facts = match &pairs[..] {
        [] => return None,
        [(names, range)] => format!("between {names}: the interval of the first minus the second is {range}"),
        pairs => {
            let pairs: Vec<String> = pairs.iter().map(|(names, range)| format!("{names} ({range})")).collect();
            format!("between these pairs, with the interval of the first minus the second: {}", pairs.join("; "))
        }
    };
    let text = format!(
        "No difference in {measure} is shown {facts}. That is not evidence that they are equal: every difference \
        within an interval remains possible."
    );
    Some((ConclusionKind::NotShown, text))
}

fn range(measure: Measure, interval: Interval) -> String {
    format!("{} to {}", measure.shown(interval.low), measure.shown(interval.high))
}

fn names(task: &TaskComparison, pair: &PairedDifference) -> String {
    format!("{} and {}", task.arms[pair.first].label, task.arms[pair.second].label)
}
