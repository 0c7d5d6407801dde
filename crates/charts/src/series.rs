//! What a chart draws.

use crate::palette::COLOURS;

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Line,
    /// Faint, with its average over five steps on top.
    Averaged,
    /// Points without a line.
    Points,
    /// A line of points, each with its interval as a bar.
    ErrorBars,
    /// A line within the band of its intervals.
    Band,
}

/// A difference by rounding is none, relative to the size or, near 0, to what a loss is made of.
const SAME: f64 = 1e-9;

/// One value, with the ends of its interval where it has one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Where, such as the step.
    pub x: f64,
    pub y: f64,
    /// The lower and the upper end of its interval.
    pub interval: Option<(f64, f64)>,
}

impl Point {
    /// A value without an interval.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, interval: None }
    }

    /// A value with one standard error to either side, where it is known.
    pub fn with_error(x: f64, y: f64, error: Option<f64>) -> Self {
        Self { x, y, interval: error.map(|error| (y - error, y + error)) }
    }

    fn is_finite(&self) -> bool {
        let ends = self.interval.map_or([0.0, 0.0], |(low, high)| [low, high]);
        self.x.is_finite() && self.y.is_finite() && ends.iter().all(|end| end.is_finite())
    }
}

/// One quantity over steps.
#[derive(Debug, Clone)]
pub struct Series {
    pub(crate) label: String,
    pub(crate) style: Style,
    /// Which of the page's colours, from 1. 0: the next one that the chart has left.
    pub(crate) colour: usize,
    pub(crate) points: Vec<Point>,
    /// Whether it is of something else than the chart, and only lies beside it.
    pub(crate) is_beside: bool,
}

impl Series {
    /// Points that are not finite are left out.
    pub fn new(label: impl Into<String>, style: Style, points: impl IntoIterator<Item = Point>) -> Self {
        let points = points.into_iter().filter(Point::is_finite).collect();
        Self { label: label.into(), style, colour: 0, points, is_beside: false }
    }

    /// The series as one of something else, for comparison: neither an axis nor a sentence counts it.
    #[must_use]
    pub fn beside(self) -> Self {
        Self { is_beside: true, ..self }
    }

    /// A colour of its own, from 1 to [`COLOURS`]; a series without one gets the next.
    #[must_use]
    pub fn coloured(self, colour: usize) -> Self {
        Self { colour: colour.clamp(1, COLOURS), ..self }
    }

    /// Every value that an axis must reach. A band counts as far as its line's own range to either side: the wide
    /// intervals of few values would leave the lines no room.
    pub(crate) fn ends(&self) -> impl Iterator<Item = f64> {
        let values = self.points.iter().map(|point| point.y);
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| (low.min(y), high.max(y)));
        let (least, most) = match self.style {
            Style::Band => (2.0 * low - high, 2.0 * high - low),
            Style::Line | Style::Averaged | Style::Points | Style::ErrorBars => (f64::NEG_INFINITY, f64::INFINITY),
        };
        self.points.iter().flat_map(move |point| {
            let (low, high) = point.interval.unwrap_or((point.y, point.y));
            [low.max(least), point.y, high.min(most)]
        })
    }

    /// How many of its first points are those of another series, but for rounding.
    pub(crate) fn common_with(&self, other: &Self) -> usize {
        let is_same = |(a, b): &(&Point, &Point)| a.x == b.x && (a.y - b.y).abs() <= SAME * b.y.abs().max(1e-3);
        self.points.iter().zip(&other.points).take_while(is_same).count()
    }

    /// The value that it always has; `None` where it changes or has none.
    pub(crate) fn constant(&self) -> Option<f64> {
        let first = self.points.first()?.y;
        let same = |point: &Point| (point.y - first).abs() <= SAME * first.abs().max(1.0);
        self.points.iter().all(same).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_by_rounding_does_not_change() {
        let series = |values: &[f64]| Series::new("a", Style::Line, values.iter().map(|y| Point::new(0.0, *y)));
        assert_eq!(series(&[0.0, 2e-17, -4e-16]).constant(), Some(0.0));
        assert_eq!(series(&[0.0, 1e-6]).constant(), None);
        assert_eq!(series(&[]).constant(), None);
        assert_eq!(series(&[f64::NAN, 3.0]).constant(), Some(3.0));
    }
}
