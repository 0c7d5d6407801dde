//! The interquartile mean over tasks and seeds, with an interval.
//!
//! Agarwal et al. (2021, "Deep Reinforcement Learning at the Edge of the Statistical Precipice", arXiv 2108.13264;
//! their package is rliable) pool the scores of all runs on all tasks and take the mean of the middle half: less
//! sensitive to one odd task than the mean, and less wasteful than the median. The bootstrap is stratified: the runs of
//! each task are resampled within the task.
//!
//! rliable's interval is that of the bootstrap's percentiles. With few runs it is too short twice over: resampling n
//! runs understates their variance by (n - 1) / n, and percentiles know nothing of Student's t. Here the interval is
//! `IQM ± t(ν) · error · sqrt(n / (n - 1))` with the bootstrap's standard error, n the fewest runs of a task, and ν
//! half the runs' degrees of freedom (`Σ (n - 1) / 2`, at least n - 1), since the middle half alone decides.
//! docs/statistics.md has the coverage of both.

use evenkeel_errors::FieldError;

use crate::distribution::student_quantile;
use crate::resampling::Resampling;
use crate::sample::ensure_finite;
use crate::{Confidence, Estimate, Interval};

/// An interquartile mean with its uncertainty over runs. The tasks are given: the interval is not about other tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InterquartileMean {
    /// The mean of the middle half of all scores.
    pub value: f64,
    /// The bootstrap's standard error, corrected for the number of runs; `None` where the resamples do not differ.
    pub standard_error: Option<f64>,
    /// Interval over runs; absent where runs do not differ.
    pub interval: Option<Interval>,
}

impl InterquartileMean {
    /// Computes the interquartile mean of scores by task and run.
    ///
    /// # Errors
    /// No task, a task with fewer than two runs, or a score that is not finite.
    pub fn of(tasks: &[Vec<f64>], confidence: Confidence, resampling: Resampling) -> Result<Self, FieldError> {
        validate("tasks", tasks)?;
        let value = interquartile_mean(&mut tasks.concat());
        let mut resample = vec![0.0; tasks.iter().map(Vec::len).sum()];
        let means = resampling.sorted(|draws| {
            let mut rest = &mut resample[..];
            for scores in tasks {
                let (own, others) = rest.split_at_mut(scores.len());
                draws.fill(scores, own);
                rest = others;
            }
            interquartile_mean(&mut resample)
        });
        let runs = |scores: &Vec<f64>| scores.len() as f64;
        let fewest = tasks.iter().map(runs).fold(f64::INFINITY, f64::min);
        let freedom = (tasks.iter().map(|scores| runs(scores) - 1.0).sum::<f64>() / 2.0).max(fewest - 1.0);
        let spread = deviation(&means) * (fewest / (fewest - 1.0)).sqrt();
        let standard_error = (spread > 1e-12 * value.abs()).then_some(spread);
        let half = |error| error * student_quantile(confidence.upper(), freedom);
        let interval = standard_error.map(|error| Interval::around(value, half(error)));
        Ok(Self { value, standard_error, interval })
    }
}

/// Tasks with at least two finite scores each.
pub(crate) fn validate(field: &str, tasks: &[Vec<f64>]) -> Result<(), FieldError> {
    FieldError::ensure(!tasks.is_empty(), field, "empty", "one task or more")?;
    for (at, scores) in tasks.iter().enumerate() {
        let task = format!("{field}[{at}]");
        FieldError::ensure(scores.len() >= 2, &task, format!("{} scores", scores.len()), "two or more")?;
        ensure_finite(&task, scores)?;
    }
    Ok(())
}

/// The mean of what is left when a quarter of the scores, rounded down, is cut off at either end; as scipy's
/// `trim_mean`.
fn interquartile_mean(scores: &mut [f64]) -> f64 {
    scores.sort_unstable_by(f64::total_cmp);
    let cut = scores.len() / 4;
    let middle = &scores[cut..scores.len() - cut];
    middle.iter().sum::<f64>() / middle.len() as f64
}

/// The standard deviation of the resamples.
fn deviation(values: &[f64]) -> f64 {
    let estimate = Estimate::of_mean(values.iter().copied());
    let error = estimate.and_then(|estimate| estimate.standard_error).unwrap_or(0.0);
    error * (values.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::references::{rows, section};

    #[test]
    fn values_are_those_of_rliable() {
        let resampling = Resampling::new(20_000, 2).unwrap();
        for case in section("tasks") {
            let tasks = rows(&case["first"]);
            let found = InterquartileMean::of(&tasks, Confidence::P95, resampling).unwrap();
            assert!((found.value - case["iqm"].as_f64().unwrap()).abs() < 1e-12, "{found:?}");
            // Two bootstraps of 20,000 resamples: their errors differ by 0.7 % in the root of the mean square.
            let runs = tasks[0].len() as f64;
            let known = case["bootstrap_error"].as_f64().unwrap() * (runs / (runs - 1.0)).sqrt();
            assert!((found.standard_error.unwrap() / known - 1.0).abs() < 0.03, "{found:?} and not {known}");
        }
    }

    #[test]
    fn one_outlier_moves_nothing() {
        let resampling = Resampling::new(199, 0).unwrap();
        let mean_with = |odd: f64| {
            let tasks = [vec![0.4, 0.5, 0.6, 0.5], vec![0.5, 0.4, 0.6, odd]];
            InterquartileMean::of(&tasks, Confidence::P95, resampling).unwrap().value
        };
        assert_eq!(mean_with(0.7), mean_with(1e9));
    }

    #[test]
    fn scores_without_spread_have_no_interval_and_too_few_are_refused() {
        let resampling = Resampling::new(199, 0).unwrap();
        let mean_of = |tasks: &[Vec<f64>]| InterquartileMean::of(tasks, Confidence::P95, resampling);
        let equal = mean_of(&[vec![0.1; 8], vec![0.1; 8]]).unwrap();
        assert_eq!((equal.standard_error, equal.interval), (None, None));
        let errors = [vec![], vec![vec![0.5, 0.5], vec![0.5]], vec![vec![0.5, f64::NAN]]]
            .map(|tasks| mean_of(&tasks).unwrap_err().to_string());
        assert_eq!(
            errors,
            [
                "tasks is empty, allowed: one task or more",
                "tasks[1] is 1 scores, allowed: two or more",
                "tasks[0][1] is NaN, allowed: a finite number",
            ]
        );
    }
}
