//! What is measured: a line for each step, under verl's names where verl has the quantity.

mod evaluation;
mod line;
mod step;

pub use line::Line;

pub(crate) use evaluation::evaluation_values;
pub(crate) use step::{StepTimes, step_values, warm_start_values};

/// Whether a value may differ between two runs of one seed: times, and how often something had to be done again since a service
/// was gone. Every other value is the same to the bit.
pub fn may_differ(name: &str) -> bool {
    ["timing_s/", "perf/throughput", "perf/time_per_step", "rollout/begun_again", "rollout/verified_again"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Sum, count, least and most of values, in the order in which they come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    sum: f64,
    count: usize,
    least: f64,
    most: f64,
}

impl Spread {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let none = Self { sum: 0.0, count: 0, least: f64::INFINITY, most: f64::NEG_INFINITY };
        values.into_iter().fold(none, |spread, value| Self {
            sum: spread.sum + value,
            count: spread.count + 1,
            least: spread.least.min(value),
            most: spread.most.max(value),
        })
    }

    /// `None` of nothing: an average of no values is not 0.
    pub(crate) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}
