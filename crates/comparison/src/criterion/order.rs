//! What the criterion expects of two tasks, from their order in the plane alone: where lengths vary more and the gap is
//! smaller, token gains on sequence. It takes no threshold.

use evenkeel_errors::FieldError;
use evenkeel_statistics::{Sample, holm};
use serde::{Deserialize, Serialize};

use super::claims::{SEQUENCE, TOKEN, Verdict, twins};
use super::plane::PlanePoint;
use crate::arms::ArmSummary;
use crate::mean::Mean;
use crate::measure::Measure;
use crate::pairs::{LEVEL, seeds_needed};

/// The larger variation is at least this many times the smaller one.
const MORE: f64 = 1.1;
/// The gaps' parts of a mean answer are at least so far apart.
const APART: f64 = 0.05;

/// A task with what its place and its arms say.
pub(crate) struct TaskInPlane<'a> {
    pub(crate) task: &'a str,
    pub(crate) start: PlanePoint,
    pub(crate) arms: &'a [ArmSummary],
}

/// Two tasks whose order in the plane is clear.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrderedTasks {
    /// Name of the task whose lengths vary more and whose gap is smaller.
    pub token_favoured: String,
    /// Name of the task whose lengths vary less and whose gap is larger.
    pub sequence_favoured: String,
    pub measure: Measure,
    /// How much better token is than sequence in the first task, minus the same in the second, over seeds.
    pub difference: Mean,
    /// The p-value of the sign-flip test.
    pub p: f64,
    /// The p-value after Holm's correction over the pairs of tasks.
    pub adjusted_p: f64,
    /// Seeds that a verdict takes.
    pub needed: usize,
    /// Held where the difference is shown to be above 0, contradicted where below.
    pub verdict: Verdict,
}

/// Compares the gain of token on sequence between all tasks whose order is clear.
pub(crate) fn between_tasks(
    tasks: &[TaskInPlane<'_>],
    measure: Measure,
    seed: u64,
) -> Result<Vec<OrderedTasks>, FieldError> {
    let mut all = Vec::new();
    for more in tasks {
        for less in tasks {
            if !is_before(&more.start, &less.start) {
                continue;
            }
            let (gains, others) = (gains(more, measure), gains(less, measure));
            let shared: Vec<(f64, f64)> = gains
                .iter()
                .filter_map(|(seed, gain)| Some((*gain, others.iter().find(|(other, _)| other == seed)?.1)))
                .collect();
            if shared.is_empty() {
                continue;
            }
            let (one, other): (Vec<f64>, Vec<f64>) = shared.into_iter().unzip();
            let sample = Sample::differences(&one, &other)?;
            let p = sample.sign_flip(seed).p;
            all.push(OrderedTasks {
                token_favoured: more.task.to_owned(),
                sequence_favoured: less.task.to_owned(),
                measure,
                difference: Mean::of(&sample),
                p,
                adjusted_p: p,
                needed: 0,
                verdict: Verdict::Open,
            });
        }
    }
    let p: Vec<f64> = all.iter().map(|pair| pair.p).collect();
    let needed = seeds_needed(all.len());
    for (pair, adjusted) in all.iter_mut().zip(holm(&p)?) {
        (pair.adjusted_p, pair.needed) = (adjusted, needed);
        pair.verdict = verdict(pair);
    }
    Ok(all)
}

/// Whether the criterion prefers token in the first place more than in the second.
fn is_before(one: &PlanePoint, other: &PlanePoint) -> bool {
    one.variation >= MORE * other.variation && one.relative_gap().abs() + APART <= other.relative_gap().abs()
}

/// By seed how much better token is than sequence. Uses the first of several pairs of arms: the paper's token before
/// verl's.
fn gains(task: &TaskInPlane<'_>, measure: Measure) -> Vec<(u64, f64)> {
    let Some((token, sequence)) = twins(task.arms, &TOKEN, &SEQUENCE).first().copied() else {
        return Vec::new();
    };
    let values = |arm: usize| -> Vec<(u64, f64)> {
        let arm = &task.arms[arm];
        let by_seed = arm.measure(measure).map(|summary| summary.by_seed.as_slice()).unwrap_or_default();
        arm.seeds.iter().copied().zip(by_seed.iter().copied()).collect()
    };
    let sign = if measure.is_higher_better() { 1.0 } else { -1.0 };
    let others = values(sequence);
    let gain = |(seed, value): (u64, f64)| {
        let (_, other) = others.iter().find(|(other, _)| *other == seed)?;
        Some((seed, sign * (value - other)))
    };
    values(token).into_iter().filter_map(gain).collect()
}

fn verdict(pair: &OrderedTasks) -> Verdict {
    match pair.difference.interval {
        Some(interval) if pair.difference.seeds >= pair.needed && pair.adjusted_p <= LEVEL => {
            if interval.low > 0.0 {
                Verdict::Held
            } else if interval.high < 0.0 {
                Verdict::Contradicted
            } else {
                Verdict::Open
            }
        }
        _ => Verdict::Open,
    }
}
