//! The curve of a run: an outcome, such as the accuracy of an evaluation, over training steps.

use evenkeel_errors::FieldError;

/// A value at a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The training step.
    pub step: u64,
    /// The outcome, where higher is better.
    pub value: f64,
}

/// An outcome over steps; it has at least one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    points: Vec<Point>,
    peak: Point,
    last: Point,
}

impl Curve {
    /// A curve through these points.
    ///
    /// # Errors
    /// No points, a value that is not finite, a step that does not come after the one before.
    pub fn new(points: Vec<Point>) -> Result<Self, FieldError> {
        for (index, point) in points.iter().enumerate() {
            FieldError::ensure(
                point.value.is_finite(),
                format!("curve[{index}].value"),
                point.value,
                "a finite number",
            )?;
        }
        for (index, pair) in points.windows(2).enumerate() {
            let allowed = format!("more than {}, the step before", pair[0].step);
            FieldError::ensure(
                pair[1].step > pair[0].step,
                format!("curve[{}].step", index + 1),
                pair[1].step,
                allowed,
            )?;
        }
        let higher = |peak: Point, point: &Point| if point.value > peak.value { *point } else { peak };
        match (points.first(), points.last()) {
            (Some(first), Some(last)) => {
                let (peak, last) = (points.iter().fold(*first, higher), *last);
                Ok(Self { points, peak, last })
            }
            _ => Err(FieldError::new("curve.len()", 0, "at least 1 point")),
        }
    }

    /// The points, in the order of steps.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The last point.
    pub fn last(&self) -> Point {
        self.last
    }

    /// The highest point; of equal ones the first. Noise alone makes it higher than the run was good: see
    /// [`peak_by_chance`](crate::peak_by_chance).
    pub fn peak(&self) -> Point {
        self.peak
    }

    /// How far the last point is below the peak, at least 0. Noise alone makes it positive: see [`drop_by_chance`](crate::drop_by_chance).
    pub fn drop_from_peak(&self) -> f64 {
        self.peak.value - self.last.value
    }

    /// The area under the curve (trapezoids) over its width: the mean height in the unit of the values, so that runs of different length
    /// compare. `None` for one point.
    pub fn mean_height(&self) -> Option<f64> {
        let first = self.points.first()?;
        let width = (self.last.step - first.step) as f64;
        let trapezoid = |pair: &[Point]| (pair[1].step - pair[0].step) as f64 * (pair[0].value + pair[1].value) / 2.0;
        let area: f64 = self.points.windows(2).map(trapezoid).sum();
        (width > 0.0).then(|| area / width)
    }

    /// The first step whose value is at least `threshold`; `None` where the run does not get there. It counts single points: of a noisy
    /// curve, such as the reward of each step, pass a moving average.
    pub fn steps_to(&self, threshold: f64) -> Option<u64> {
        self.points.iter().find(|point| point.value >= threshold).map(|point| point.step)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn curve(points: &[(u64, f64)]) -> Result<Curve, FieldError> {
        Curve::new(points.iter().map(|(step, value)| Point { step: *step, value: *value }).collect())
    }

    #[test]
    fn a_run_that_rises_and_falls() {
        let run = curve(&[(0, 0.1), (10, 0.5), (20, 0.5), (40, 0.3)]).unwrap();
        assert_eq!(run.peak(), Point { step: 10, value: 0.5 });
        assert_eq!(run.last(), Point { step: 40, value: 0.3 });
        assert!((run.drop_from_peak() - 0.2).abs() < 1e-15);
        assert!((run.mean_height().unwrap() - (3.0 + 5.0 + 8.0) / 40.0).abs() < 1e-15);
        assert_eq!((run.steps_to(0.1), run.steps_to(0.2), run.steps_to(0.6)), (Some(0), Some(10), None));
    }

    #[test]
    fn one_point_has_no_area() {
        let run = curve(&[(5, 0.4)]).unwrap();
        assert_eq!((run.mean_height(), run.drop_from_peak()), (None, 0.0));
    }

    #[test]
    fn broken_curves_are_refused_with_their_place() {
        let refused = |points: &[(u64, f64)]| curve(points).unwrap_err().to_string();
        assert_eq!(refused(&[]), "curve.len() is 0, allowed: at least 1 point");
        assert_eq!(refused(&[(1, 0.1), (2, f64::NAN)]), "curve[1].value is NaN, allowed: a finite number");
        assert_eq!(refused(&[(3, 0.1), (3, 0.2)]), "curve[1].step is 3, allowed: more than 3, the step before");
    }

    proptest! {
        #[test]
        fn the_mean_height_lies_between_the_lowest_and_the_highest_point(
            gaps in prop::collection::vec((1_u64..50, -1.0_f64..1.0), 2..20),
        ) {
            let steps = gaps.iter().scan(0, |step, (gap, _)| { *step += gap; Some(*step) });
            let points: Vec<(u64, f64)> = steps.zip(gaps.iter().map(|(_, value)| *value)).collect();
            let run = curve(&points).unwrap();
            let lowest = points.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
            let height = run.mean_height().unwrap();
            prop_assert!(height >= lowest - 1e-12 && height <= run.peak().value + 1e-12);
            prop_assert!(run.drop_from_peak() >= 0.0);
            prop_assert_eq!(run.steps_to(run.peak().value), Some(run.peak().step));
        }
    }
}
