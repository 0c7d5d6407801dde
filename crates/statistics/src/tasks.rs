//! Rules compared over several tasks, each with several runs (Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical
//! Precipice, arXiv 2108.13264; their package is rliable).

use evenkeel_errors::FieldError;

use crate::distribution::{normal_cdf, student_quantile_above};
use crate::interval::ensure_finite;
use crate::resample::{Draws, Resampled};
use crate::{Interval, Settings};

/// Which runs are resampled together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// Each run is of one task (a model trained for each): runs are resampled within each task, as rliable does. Tasks may have different
    /// numbers of runs.
    OfOneTask,
    /// The i-th run of every task is the same run (one model, evaluated on several benchmarks): whole runs are resampled, since a lucky seed
    /// is lucky on all of them. Resampling within tasks would give intervals that are too narrow.
    OfAllTasks,
}

/// A statistic over tasks with its intervals, each `None` where there are too few runs for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OverTasks {
    /// The statistic.
    pub value: f64,
    /// The expanded percentile interval (Hesterberg 2015, arXiv 1411.5279): further percentiles of the same resamples, since a
    /// resample of n runs varies by a factor of (n - 1) / n too little in variance, and its quantiles are normal rather than Student's.
    pub interval: Option<Interval>,
    /// The plain percentile interval, as rliable reports it: too narrow for few runs.
    pub percentile: Option<Interval>,
}

/// The interquartile mean of all runs of all tasks: without the lowest and the highest quarter of them, rounded down (`scipy.stats.trim_mean`
/// with 0.25). `tasks` has the scores of each task's runs. Tasks must be on one scale, and those with more runs count more.
///
/// # Errors
/// No tasks, tasks without runs, scores that are not finite, different numbers of runs where they are of all tasks, settings out of range.
pub fn interquartile_mean(tasks: &[Vec<f64>], runs: Runs, settings: &Settings) -> Result<OverTasks, FieldError> {
    settings.validate()?;
    validate("tasks", tasks, runs)?;
    let strata = Strata::of(tasks, runs);
    Ok(strata.bootstrap(settings, |indices| trimmed_mean(pick(tasks, indices))))
}

/// The difference of two rules' interquartile means. `first[t][i]` and `second[t][i]` are runs of one seed, which are resampled together.
///
/// # Errors
/// As [`interquartile_mean`], and different numbers of tasks or runs.
pub fn interquartile_mean_difference(
    first: &[Vec<f64>],
    second: &[Vec<f64>],
    runs: Runs,
    settings: &Settings,
) -> Result<OverTasks, FieldError> {
    settings.validate()?;
    validate("first", first, runs)?;
    validate("second", second, runs)?;
    ensure_same_count("second", second.len(), first.len(), "first has tasks")?;
    for (index, (one, other)) in first.iter().zip(second).enumerate() {
        ensure_same_count(&format!("second[{index}]"), other.len(), one.len(), "the task has in first")?;
    }
    let strata = Strata::of(first, runs);
    let difference = |indices: &[Vec<usize>]| trimmed_mean(pick(first, indices)) - trimmed_mean(pick(second, indices));
    Ok(strata.bootstrap(settings, difference))
}

pub(crate) fn validate(name: &str, tasks: &[Vec<f64>], runs: Runs) -> Result<(), FieldError> {
    FieldError::ensure(!tasks.is_empty(), format!("{name}.len()"), 0, "at least 1 task")?;
    for (index, scores) in tasks.iter().enumerate() {
        let name = format!("{name}[{index}]");
        FieldError::ensure(!scores.is_empty(), format!("{name}.len()"), 0, "at least 1 run")?;
        ensure_finite(&name, scores)?;
        if runs == Runs::OfAllTasks {
            ensure_same_count(&name, scores.len(), tasks[0].len(), "the first task has runs")?;
        }
    }
    Ok(())
}

pub(crate) fn ensure_same_count(name: &str, count: usize, expected: usize, whose: &str) -> Result<(), FieldError> {
    FieldError::ensure(count == expected, format!("{name}.len()"), count, format!("{expected}, as many as {whose}"))
}

/// The scores at these indices of each task, in one list.
fn pick(tasks: &[Vec<f64>], indices: &[Vec<usize>]) -> Vec<f64> {
    tasks.iter().zip(indices).flat_map(|(scores, indices)| indices.iter().map(|index| scores[*index])).collect()
}

/// The mean without the lowest and highest quarter.
fn trimmed_mean(mut scores: Vec<f64>) -> f64 {
    scores.sort_by(f64::total_cmp);
    let cut = scores.len() / 4;
    let kept = &scores[cut..scores.len() - cut];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// What is resampled: the number of runs of each task, and whether they are the same runs.
struct Strata {
    counts: Vec<usize>,
    runs: Runs,
}

impl Strata {
    fn of(tasks: &[Vec<f64>], runs: Runs) -> Self {
        Self { counts: tasks.iter().map(Vec::len).collect(), runs }
    }

    /// Value and intervals of a statistic of indices.
    fn bootstrap(&self, settings: &Settings, statistic: impl Fn(&[Vec<usize>]) -> f64) -> OverTasks {
        let all: Vec<Vec<usize>> = self.counts.iter().map(|count| (0..*count).collect()).collect();
        let value = statistic(&all);
        let Some(expanded) = self.expanded(settings.tail()) else {
            return OverTasks { value, interval: None, percentile: None };
        };
        let mut draws = Draws::of_bootstrap(settings.seed);
        let resampled = Resampled::new(settings.resamples, || statistic(&self.resample(&mut draws)));
        let interval = |tail| resampled.ends(tail).map(|(low, high)| Interval { low, high });
        OverTasks { value, interval: interval(expanded), percentile: interval(settings.tail()) }
    }

    fn resample(&self, draws: &mut Draws) -> Vec<Vec<usize>> {
        let mut of = |count: usize| (0..count).map(|_| draws.index(count)).collect::<Vec<_>>();
        match self.runs {
            Runs::OfOneTask => self.counts.iter().map(|count| of(*count)).collect(),
            Runs::OfAllTasks => vec![of(self.counts[0]); self.counts.len()],
        }
    }

    /// The percentile that leaves `tail` outside: normal probability of Student's quantile, stretched by the root of n / (n - 1). `None` where
    /// a task has one run, whose spread is unknown. Where tasks have different numbers of runs, the smallest counts.
    fn expanded(&self, tail: f64) -> Option<f64> {
        let fewest = self.counts.iter().copied().min().filter(|fewest| *fewest > 1)?;
        let freedom = match self.runs {
            Runs::OfOneTask => self.counts.iter().map(|count| count - 1).sum(),
            Runs::OfAllTasks => fewest - 1,
        };
        let stretch = (fewest as f64 / (fewest - 1) as f64).sqrt();
        Some(normal_cdf(-stretch * student_quantile_above(tail, freedom)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quick() -> Settings {
        Settings { resamples: 999, ..Settings::default() }
    }

    #[test]
    fn the_interquartile_mean_ignores_either_quarter() {
        let tasks = [vec![0.0, 3.0, -100.0, 1.0], vec![2.0, 900.0, 1.0, 2.0]];
        // Sorted: -100, 0 | 1, 1, 2, 2 | 3, 900.
        assert_eq!(interquartile_mean(&tasks, Runs::OfOneTask, &quick()).unwrap().value, 1.5);
        let three = interquartile_mean(&[vec![1.0, 2.0, 6.0]], Runs::OfOneTask, &quick()).unwrap();
        assert_eq!(three.value, 3.0, "a quarter of three is none");
    }

    #[test]
    fn one_run_a_task_has_no_interval() {
        let found = interquartile_mean(&[vec![1.0], vec![2.0, 3.0]], Runs::OfOneTask, &quick()).unwrap();
        assert_eq!((found.interval, found.percentile), (None, None));
    }

    #[test]
    fn the_expanded_interval_contains_the_percentile_interval() {
        let tasks = [vec![0.1, 0.5, 0.3, 0.2, 0.6], vec![0.5, 0.9, 0.4, 0.3, 0.7]];
        for runs in [Runs::OfOneTask, Runs::OfAllTasks] {
            let found = interquartile_mean(&tasks, runs, &Settings::default()).unwrap();
            let (expanded, plain) = (found.interval.unwrap(), found.percentile.unwrap());
            assert!(expanded.low < plain.low && expanded.high > plain.high, "{expanded:?} {plain:?}");
            assert!(plain.contains(found.value));
        }
    }

    #[test]
    fn runs_that_are_lucky_on_all_tasks_widen_the_interval_where_they_are_resampled_whole() {
        let tasks = vec![vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6]; 8];
        let width = |runs| {
            let interval = interquartile_mean(&tasks, runs, &quick()).unwrap().percentile.unwrap();
            interval.high - interval.low
        };
        let (whole, within) = (width(Runs::OfAllTasks), width(Runs::OfOneTask));
        assert!(whole > 2.0 * within, "{whole} {within}: eight equal tasks are one");
    }

    #[test]
    fn a_difference_that_every_seed_shares_has_no_width() {
        let second = [vec![0.1, 0.5, 0.3, 0.2], vec![0.5, 0.9, 0.4, 0.3]];
        let first = second.clone().map(|scores| scores.iter().map(|score| score + 0.25).collect::<Vec<_>>());
        let found = interquartile_mean_difference(&first, &second, Runs::OfOneTask, &quick()).unwrap();
        let interval = found.percentile.unwrap();
        assert!((interval.low - 0.25).abs() < 1e-12 && (interval.high - 0.25).abs() < 1e-12, "{interval:?}");
    }

    #[test]
    fn what_cannot_be_compared_is_refused_by_name() {
        let refused = |tasks: &[Vec<f64>], runs| interquartile_mean(tasks, runs, &quick()).unwrap_err().to_string();
        assert_eq!(refused(&[], Runs::OfOneTask), "tasks.len() is 0, allowed: at least 1 task");
        assert_eq!(refused(&[vec![]], Runs::OfOneTask), "tasks[0].len() is 0, allowed: at least 1 run");
        assert_eq!(refused(&[vec![f64::NAN]], Runs::OfOneTask), "tasks[0][0] is NaN, allowed: a finite number");
        assert_eq!(
            refused(&[vec![1.0], vec![1.0, 2.0]], Runs::OfAllTasks),
            "tasks[1].len() is 2, allowed: 1, as many as the first task has runs"
        );
        let error = interquartile_mean_difference(&[vec![1.0]], &[vec![1.0, 2.0]], Runs::OfOneTask, &quick());
        assert_eq!(
            error.unwrap_err().to_string(),
            "second[0].len() is 2, allowed: 1, as many as the task has in first"
        );
    }

    proptest! {
        #[test]
        fn the_interquartile_mean_depends_on_no_order(scores in prop::collection::vec(-1.0_f64..1.0, 1..20), seed: u64) {
            let mut draws = Draws::of_bootstrap(seed);
            let mut shuffled = scores.clone();
            for index in 0..shuffled.len() {
                let other = draws.index(index + 1);
                shuffled.swap(index, other);
            }
            prop_assert_eq!(trimmed_mean(scores), trimmed_mean(shuffled));
        }
    }
}
