//! Mean, maximum and minimum of a quantity.

/// Mean, maximum and minimum of values.
#[derive(Debug, Clone, Copy)]
pub struct Statistics {
    sum: f64,
    count: usize,
    min: f64,
    max: f64,
}

impl Statistics {
    /// The statistics of values, added up in the order in which they come.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let none = Self { sum: 0.0, count: 0, min: f64::INFINITY, max: f64::NEG_INFINITY };
        values.into_iter().fold(none, |statistics, value| Self {
            sum: statistics.sum + value,
            count: statistics.count + 1,
            min: statistics.min.min(value),
            max: statistics.max.max(value),
        })
    }

    /// `None` of no values: their mean is not 0.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// `None` of no values.
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }

    /// `None` of no values.
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }
}
