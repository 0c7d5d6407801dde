//! A quantity over the steps of a run, and the numbers that stand for it.

use evenkeel_errors::FieldError;

/// Values at ascending steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve(Vec<(u64, f64)>);

impl Curve {
    /// The points of a curve; `field` names them in errors.
    ///
    /// # Errors
    /// No point, steps that do not ascend, or a value that is not finite.
    pub fn new(field: &str, points: Vec<(u64, f64)>) -> Result<Self, FieldError> {
        FieldError::ensure(!points.is_empty(), field, "empty", "one point or more")?;
        for (at, (step, value)) in points.iter().enumerate() {
            let after = |before: u64| format!("above the step before, {before}");
            if let Some((before, _)) = at.checked_sub(1).map(|before| points[before]) {
                FieldError::ensure(before < *step, format!("{field}[{at}].step"), step, after(before))?;
            }
            FieldError::ensure(value.is_finite(), format!("{field}[{at}].value"), value, "a finite number")?;
        }
        Ok(Self(points))
    }

    /// The points, by step.
    pub fn points(&self) -> &[(u64, f64)] {
        &self.0
    }

    /// Value at the last step.
    pub fn last(&self) -> f64 {
        self.0[self.0.len() - 1].1
    }

    /// The highest value and its step; the first of equal ones.
    pub fn peak(&self) -> (u64, f64) {
        self.0.iter().copied().fold(self.0[0], |peak, point| if point.1 > peak.1 { point } else { peak })
    }

    /// The drop from the peak to the last value: 0 where the last is the highest.
    pub fn drop(&self) -> f64 {
        self.peak().1 - self.last()
    }

    /// The area under the curve by trapezoids, over the steps that it spans: the mean value during training. A single
    /// point gives its value.
    pub fn area(&self) -> f64 {
        let span = (self.0[self.0.len() - 1].0 - self.0[0].0) as f64;
        let trapezoids =
            self.0.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64 * f64::midpoint(pair[0].1, pair[1].1));
        if span > 0.0 { trapezoids.sum::<f64>() / span } else { self.0[0].1 }
    }

    /// The mean of the last `points` points; of all, where there are fewer.
    pub fn last_mean(&self, points: usize) -> f64 {
        mean(&self.0[self.0.len() - points.clamp(1, self.0.len())..])
    }

    /// The first step at which the mean of the last `window` points is `threshold` or more: a single point reaches it
    /// by luck. `None` where none is.
    pub fn steps_to(&self, threshold: f64, window: usize) -> Option<u64> {
        let mut windows = self.0.windows(window.max(1));
        let reached = windows.find(|points| mean(points) >= threshold)?;
        Some(reached[reached.len() - 1].0)
    }
}

fn mean(points: &[(u64, f64)]) -> f64 {
    points.iter().map(|(_, value)| value).sum::<f64>() / points.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(values: &[f64]) -> Curve {
        Curve::new("curve", (0..).step_by(10).zip(values.iter().copied()).collect()).unwrap()
    }

    #[test]
    fn peak_last_and_drop() {
        let curve = curve(&[0.1, 0.75, 0.75, 0.5]);
        assert_eq!((curve.peak(), curve.last(), curve.drop()), ((10, 0.75), 0.5, 0.25));
    }

    #[test]
    fn the_area_is_the_mean_over_steps_and_not_over_points() {
        assert_eq!(curve(&[0.0, 1.0, 1.0]).area(), 0.75);
        let uneven = Curve::new("curve", vec![(0, 0.0), (1, 1.0), (9, 1.0)]).unwrap();
        assert!((uneven.area() - 8.5 / 9.0).abs() < 1e-15);
        assert_eq!(curve(&[0.3]).area(), 0.3);
    }

    #[test]
    fn a_threshold_is_reached_by_a_mean_and_not_by_one_value() {
        let curve = curve(&[0.0, 1.0, 0.0, 0.5, 0.5, 0.5]);
        assert_eq!(curve.steps_to(0.5, 1), Some(10));
        assert_eq!(curve.steps_to(0.5, 3), Some(30));
        assert_eq!((curve.steps_to(0.6, 3), curve.steps_to(0.0, 7)), (None, None));
    }

    #[test]
    fn the_end_is_a_mean_of_the_last_points_or_of_all() {
        let curve = curve(&[0.0, 0.5, 1.0, 0.25]);
        assert_eq!((curve.last_mean(2), curve.last_mean(4), curve.last_mean(9)), (0.625, 0.4375, 0.4375));
    }

    #[test]
    fn disordered_steps_and_values_that_are_no_numbers_are_refused() {
        let errors = [vec![], vec![(3, 0.5), (3, 0.5)], vec![(3, 0.5), (4, f64::NAN)]]
            .map(|points| Curve::new("reward", points).unwrap_err().to_string());
        assert_eq!(
            errors,
            [
                "reward is empty, allowed: one point or more",
                "reward[1].step is 3, allowed: above the step before, 3",
                "reward[1].value is NaN, allowed: a finite number",
            ]
        );
    }
}
