//! What a step recorded, against what it gives when it is done again.

use std::collections::BTreeSet;

use evenkeel_proto::v1::TrainHeader;
use evenkeel_run::metric::table as metric;
use evenkeel_run::{METRICS_FILE, MetricsLine, Rollout, rollout_name};

use super::error::{Deviation, ReplayError};
use super::run::RecordedStep;
use crate::service::{TokenCounts, grpo_report};
use crate::step::{ResponseReport, StepReport};

/// Sections of a metrics line that only the learner reports.
const LEARNERS: [&str; 3] = ["actor/", "aggregation/", "rollout_corr/"];

/// How close a replayed step must be to the recorded one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Precision {
    /// Every value has the recorded bits: a run of a CPU on a CPU, or a deterministic one of a GPU on a GPU.
    Bits,
    /// No value is further away than this, relative to the larger of it and 1. Advantages have the recorded bits.
    Within(f64),
}

impl Precision {
    /// For a step of another kind of device, whose sums have other orders.
    pub const OTHER_DEVICE: Self = Self::Within(0.01);
}

/// How close a replayed step is to the recorded one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Agreement {
    /// Every recorded value has the same bits.
    Equal,
    /// The values are within the tolerance, and the largest relative distance is this one. Never called equal.
    Within(f64),
}

/// Compares everything that the run recorded of a step with its report. `has_moments`: whether the optimizer continued
/// from the run's own state, on which the learning rate depends.
///
/// # Errors
/// The first value that is too far away: [`ReplayError::Different`] where bits are compared.
pub(super) fn compare(
    recorded: &RecordedStep,
    report: &StepReport,
    precision: Precision,
    has_moments: bool,
) -> Result<Agreement, ReplayError> {
    let mut farthest = 0.0;
    let pairs = recorded.rollouts.iter().zip(&report.response_reports);
    // A learner of another version may have said nothing of single samples.
    let is_said = |rollout: &Rollout| rollout.advantage.is_some() || recorded.is_of_this_version;
    for (rollout, replayed) in pairs.filter(|(rollout, _)| is_said(rollout)) {
        for (name, was, is, precision) in of_sample(rollout, replayed, precision) {
            let distance = distance(was, is, precision).map_err(|(was, is)| {
                let (sample, prompt) = (rollout.sample, rollout.group);
                let what = format!("sample {sample} of prompt {prompt} has {name} {was} in its rollouts, and now {is}");
                too_far(recorded.step, rollout_name(recorded.step), what, precision)
            })?;
            farthest = f64::max(farthest, distance);
        }
    }
    let line = line_of(recorded, report);
    let own = recorded.line.values.keys().filter(|name| LEARNERS.iter().any(|section| name.starts_with(section)));
    let names: BTreeSet<&String> = line.values.keys().chain(own).collect();
    for name in names.into_iter().filter(|name| is_recorded(name, has_moments)) {
        let (was, is) = (recorded.line.get(name), line.get(name));
        // Another version of the program may measure other things, and further rules have values of their own.
        let is_newer = was.is_none() && name == metric::UPDATE_NORM.name;
        let may_lack = !recorded.is_of_this_version || is_newer || is_of_rule(name);
        if (was.is_none() || is.is_none()) && may_lack {
            continue;
        }
        let distance = distance(was, is, precision).map_err(|(was, is)| {
            let what = format!("`{name}` is {was} in {METRICS_FILE}, and now {is}");
            too_far(recorded.step, METRICS_FILE.to_owned(), what, precision)
        })?;
        farthest = f64::max(farthest, distance);
    }
    Ok(match precision {
        Precision::Bits => Agreement::Equal,
        Precision::Within(_) => Agreement::Within(farthest),
    })
}

/// The values of a sample, as they were and as they are.
fn of_sample(
    rollout: &Rollout,
    replayed: &ResponseReport,
    precision: Precision,
) -> [(&'static str, Option<f64>, Option<f64>, Precision); 4] {
    let ResponseReport { advantage, weight, logp, ratio, .. } = *replayed;
    [
        ("advantage", rollout.advantage, Some(advantage), Precision::Bits),
        ("weight", rollout.weight, Some(weight), Precision::Bits),
        ("log-probability", rollout.log_probability, logp, precision),
        ("ratio", rollout.ratio, ratio, precision),
    ]
}

/// A value that is too far away: another device may explain that unless bits are compared.
fn too_far(step: u64, file: String, what: String, precision: Precision) -> ReplayError {
    match precision {
        Precision::Bits => Deviation { file, what }.at(step),
        Precision::Within(_) => ReplayError::BeyondTolerance { step, file, what },
    }
}

/// The distance of two values, or both in words where that is too large, the second with the distance if it counts.
fn distance(was: Option<f64>, is: Option<f64>, precision: Precision) -> Result<f64, (String, String)> {
    let words = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |value| format!("{value:?}"));
    let (before, now) = match (was, is) {
        (Some(before), Some(now)) => (before, now),
        (None, None) => return Ok(0.0),
        _ => return Err((words(was), words(is))),
    };
    if before.to_bits() == now.to_bits() {
        return Ok(0.0);
    }
    let distance = (before - now).abs() / before.abs().max(now.abs()).max(1.0);
    match precision {
        Precision::Within(most) if distance <= most => Ok(distance),
        Precision::Within(most) => Err((words(was), format!("{now:?}, {distance:.1e} away (allowed: {most})"))),
        Precision::Bits => Err((words(was), words(is))),
    }
}

/// The values that the learner reports of a step, as a metrics line has them.
fn line_of(recorded: &RecordedStep, report: &StepReport) -> MetricsLine {
    let mut counts = TokenCounts::default();
    recorded.groups.iter().for_each(|group| counts.add(group));
    let train = grpo_report(&TrainHeader::default(), report, counts);
    let mut line = MetricsLine { values: Default::default(), ..recorded.line.clone() };
    line.set_training(&train);
    line
}

/// Whether a value is that of one aggregation rule: `aggregation/{rule}/...`.
fn is_of_rule(name: &str) -> bool {
    name.starts_with("aggregation/") && name.split('/').count() == 3
}

/// Whether a value says what the step did: not how gradients of other rules compare, which only some steps measure.
fn is_recorded(name: &str, has_moments: bool) -> bool {
    let is_of_moments = [metric::LEARNING_RATE.name, metric::UPDATE_NORM.name].contains(&name);
    !metric::may_differ(name) && !name.starts_with("probe/") && (has_moments || !is_of_moments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_compared_unless_a_tolerance_is_given_and_a_missing_value_is_never_equal() {
        let next = f64::from_bits(1.0_f64.to_bits() + 1);
        let agrees = |was, is, precision| distance(was, is, precision).is_ok();
        assert!(agrees(Some(1.0), Some(1.0), Precision::Bits) && agrees(None, None, Precision::Bits));
        assert!(!agrees(Some(1.0), Some(next), Precision::Bits) && !agrees(Some(0.0), Some(-0.0), Precision::Bits));
        assert!(agrees(Some(1.0), Some(1.005), Precision::Within(0.01)));
        assert!(!agrees(Some(1.0), Some(1.1), Precision::Within(0.01)));
        assert!(!agrees(Some(1.0), None, Precision::Within(0.01)) && !agrees(None, Some(0.0), Precision::Within(0.01)));
    }

    #[test]
    fn a_value_beyond_the_tolerance_is_no_difference_and_says_how_far_away_it_is() {
        let (was, is) = distance(Some(1.0), Some(2.0), Precision::Within(0.01)).unwrap_err();
        assert_eq!((was.as_str(), is.as_str()), ("1.0", "2.0, 5.0e-1 away (allowed: 0.01)"));
        let error = |precision| too_far(3, METRICS_FILE.to_owned(), is.clone(), precision);
        assert!(matches!(error(Precision::Bits), ReplayError::Different { step: 3, .. }));
        assert!(matches!(error(Precision::Within(0.01)), ReplayError::BeyondTolerance { step: 3, .. }));
    }
}
