//! Failures of reward functions and environments of the user's own over the last steps, and when there are too many of
//! them: they mostly fail at malformed answers, and a run without these would be trained on the others alone.

use std::collections::BTreeMap;

use evenkeel_run::MetricsLine;
use evenkeel_run::metric::MetricName;

use super::judge::Judge;
use crate::error::RunError;
use crate::rollout::{Sample, SampledGroup, StepBatch};
use crate::settings::OnError;

/// Steps that are counted together.
pub(super) const STEPS: usize = 10;
/// The share of its answers at which a judge may fail.
const SHARE: f64 = 0.02;
/// Fewer failures never end a run.
const LEAST: u64 = 3;

/// Answers that a judge got, and those at which it failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct JudgedAnswers {
    pub(super) samples: u64,
    pub(super) failures: u64,
}

/// The answers of the last steps by judge.
#[derive(Debug, Default)]
pub(super) struct FunctionFailures {
    steps: BTreeMap<u64, BTreeMap<Judge, JudgedAnswers>>,
    /// Why each failed first, as far as this process has seen.
    first: BTreeMap<Judge, String>,
}

impl FunctionFailures {
    /// Failures of the steps that a resumed run has done, so that it ends where a run would that was never interrupted.
    pub(super) fn of_lines<'a>(lines: impl IntoIterator<Item = &'a MetricsLine>) -> Self {
        let judged_in = |line: &MetricsLine| {
            let judges = line.values.keys().filter_map(|name| Judge::counted_by(name));
            let value = |metric: MetricName| line.get(metric.as_str()).unwrap_or_default() as u64;
            let judged = judges.map(|judge| {
                let judged = JudgedAnswers { samples: value(judge.samples()), failures: value(judge.failures()) };
                (judge, judged)
            });
            (line.step, judged.collect())
        };
        Self { steps: lines.into_iter().map(judged_in).collect(), first: BTreeMap::new() }
    }

    /// Adds a step that has all its groups.
    ///
    /// # Errors
    /// [`RunError::RewardFunction`] for a judge that failed too often, where its setting says so.
    pub(super) fn add(
        &mut self,
        step: u64,
        batch: &StepBatch,
        on_error: impl Fn(&Judge) -> OnError,
    ) -> Result<(), RunError> {
        for group in groups(batch) {
            for judge in Judge::all_of(group) {
                let failure = group.samples().iter().find(|sample| judge.has_failed_at(sample));
                if let Some(reason) = failure.and_then(Sample::failure_in_full) {
                    self.first.entry(judge).or_insert_with(|| reason.to_owned());
                }
            }
        }
        self.add_counts(step, judged_answers(batch), on_error)
    }

    fn add_counts(
        &mut self,
        step: u64,
        judged: BTreeMap<Judge, JudgedAnswers>,
        on_error: impl Fn(&Judge) -> OnError,
    ) -> Result<(), RunError> {
        self.steps.insert(step, judged);
        while self.steps.len() > STEPS {
            self.steps.pop_first();
        }
        let mut all: BTreeMap<&Judge, JudgedAnswers> = BTreeMap::new();
        for (judge, JudgedAnswers { samples, failures }) in self.steps.values().flatten() {
            let sum = all.entry(judge).or_default();
            sum.samples += samples;
            sum.failures += failures;
        }
        for (judge, JudgedAnswers { samples, failures }) in all {
            let is_too_much = failures >= LEAST && failures as f64 > SHARE * samples as f64;
            if is_too_much && on_error(judge) != OnError::Drop {
                return Err(RunError::RewardFunction {
                    what: format!("step {step}"),
                    who: judge.to_string(),
                    failures,
                    samples,
                    allowed: judge.allowed(),
                    first: self.first.get(judge).cloned().unwrap_or_default(),
                });
            }
        }
        Ok(())
    }
}

fn groups(batch: &StepBatch) -> impl Iterator<Item = &SampledGroup> {
    batch.groups.iter().chain(&batch.dropped)
}

/// The answers of a step by who judges them.
pub(super) fn judged_answers(batch: &StepBatch) -> BTreeMap<Judge, JudgedAnswers> {
    let mut all: BTreeMap<Judge, JudgedAnswers> = BTreeMap::new();
    for group in groups(batch) {
        for judge in Judge::all_of(group) {
            let mut judged = JudgedAnswers::default();
            for sample in group.samples() {
                let has_failed = judge.has_failed_at(sample);
                judged.samples += u64::from(has_failed || sample.is_generated());
                judged.failures += u64::from(has_failed);
            }
            let sum = all.entry(judge).or_default();
            sum.samples += judged.samples;
            sum.failures += judged.failures;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;

    use super::*;

    fn words() -> Judge {
        Judge::Function("words".to_owned())
    }

    fn judged(failures: u64) -> BTreeMap<Judge, JudgedAnswers> {
        [(words(), JudgedAnswers { samples: 64, failures })].into()
    }

    /// The step at which a run of these failures ends, each step with 64 answers.
    fn ends_at(mut from: FunctionFailures, failures: &[u64], first: u64, on_error: OnError) -> Option<(u64, u64, u64)> {
        (first..).zip(failures).find_map(|(step, count)| match from.add_counts(step, judged(*count), |_| on_error) {
            Err(RunError::RewardFunction { failures, samples, .. }) => Some((step, failures, samples)),
            _ => None,
        })
    }

    #[test]
    fn more_than_two_percent_of_the_last_ten_steps_and_at_least_three_end_the_run() {
        let fresh = FunctionFailures::default;
        assert_eq!(ends_at(fresh(), &[2, 0, 0, 0], 1, OnError::Limit), None, "two are too few, though 3 % of one step");
        assert_eq!(ends_at(fresh(), &[2, 1], 1, OnError::Limit), Some((2, 3, 128)));
        assert_eq!(ends_at(fresh(), &[3], 1, OnError::Limit), Some((1, 3, 64)));
        assert_eq!(ends_at(fresh(), &[0, 0, 2, 1], 1, OnError::Limit), None, "3 of 256 are less than 2 %");
        let late = [&[0; 30][..], &[12, 0, 0, 1]].concat();
        assert_eq!(ends_at(fresh(), &late, 1, OnError::Limit), Some((34, 13, 640)), "12 of 640 may fail");
        let apart = [&[12][..], &[0; 9], &[12]].concat();
        assert_eq!(
            ends_at(fresh(), &[&[0; 9][..], &apart].concat(), 1, OnError::Limit),
            None,
            "in no ten steps together"
        );
        assert_eq!(ends_at(fresh(), &[64; 20], 1, OnError::Drop), None);
    }

    #[test]
    fn a_resumed_run_ends_where_one_would_that_was_never_interrupted() {
        let failures = [0, 0, 3, 0, 0, 0, 0, 0, 6, 4, 0];
        let whole = ends_at(FunctionFailures::default(), &failures, 1, OnError::Limit);
        assert_eq!(whole, Some((10, 13, 640)));
        let line = |step: u64| {
            let mut line = MetricsLine::new(StepKind::Train, step, step);
            line.set(words().samples(), 64.0);
            line.set(words().failures(), failures[step as usize - 1] as f64);
            line
        };
        let lines: Vec<_> = (1..=6).map(line).collect();
        assert_eq!(ends_at(FunctionFailures::of_lines(&lines), &failures[6..], 7, OnError::Limit), whole);
    }
}
