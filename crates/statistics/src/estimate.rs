//! A mean with its standard error.

/// A mean over independent units, such as the problems of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Mean over the units.
    pub value: f64,
    /// Standard error of the mean; `None` with fewer than two units.
    pub standard_error: Option<f64>,
    /// How many units it is over.
    pub units: usize,
}

impl Estimate {
    /// The mean of one value for each unit: its standard error is the standard deviation (with n - 1) over the root of
    /// n. `None` without values.
    pub fn of_mean(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        // Welford's update: exact enough for values that are all alike.
        let mut units = 0_usize;
        let mut mean = 0.0;
        let mut squares = 0.0;
        for value in values {
            units += 1;
            let difference = value - mean;
            mean += difference / units as f64;
            squares += difference * (value - mean);
        }
        let standard_error = (units > 1).then(|| (squares / (units - 1) as f64 / units as f64).sqrt());
        (units > 0).then_some(Self { value: mean, standard_error, units })
    }

    /// The average of independent estimates, each with the same weight however many units it has: how papers average
    /// benchmarks. `None` without estimates.
    pub fn average(estimates: &[Self]) -> Option<Self> {
        if estimates.is_empty() {
            return None;
        }
        let count = estimates.len() as f64;
        let value = estimates.iter().map(|estimate| estimate.value).sum::<f64>() / count;
        let variances: Option<Vec<f64>> =
            estimates.iter().map(|estimate| estimate.standard_error.map(|error| error * error)).collect();
        let standard_error = variances.map(|variances| variances.iter().sum::<f64>().sqrt() / count);
        Some(Self { value, standard_error, units: estimates.iter().map(|estimate| estimate.units).sum() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_error_is_that_of_a_mean() {
        let estimate = Estimate::of_mean([1.0, 0.0, 0.0, 1.0, 1.0]).unwrap();
        // Variance 0.3 with n - 1.
        assert!((estimate.value - 0.6).abs() < 1e-15);
        assert!((estimate.standard_error.unwrap() - (0.3_f64 / 5.0).sqrt()).abs() < 1e-15);
        assert_eq!(estimate.units, 5);
    }

    #[test]
    fn one_unit_has_no_standard_error_and_none_has_no_mean() {
        assert_eq!(Estimate::of_mean([0.5]), Some(Estimate { value: 0.5, standard_error: None, units: 1 }));
        assert_eq!(Estimate::of_mean([]), None);
        assert_eq!(Estimate::average(&[]), None);
    }

    #[test]
    fn benchmarks_count_the_same_whatever_their_size() {
        let large = Estimate { value: 0.8, standard_error: Some(0.03), units: 500 };
        let small = Estimate { value: 0.2, standard_error: Some(0.04), units: 30 };
        let average = Estimate::average(&[large, small]).unwrap();
        assert!((average.value - 0.5).abs() < 1e-15);
        assert!((average.standard_error.unwrap() - 0.025).abs() < 1e-15, "the root of 0.03^2 + 0.04^2, halved");
        assert_eq!(average.units, 530);
        let unknown = Estimate { standard_error: None, ..small };
        assert_eq!(Estimate::average(&[large, unknown]).unwrap().standard_error, None);
    }
}
