//! Round numbers for axes, and readable numbers.

/// Smaller values are 0 except for rounding, such as the loss of an on-policy step.
const ROUNDING: f64 = 1e-12;

/// The range of an axis and its ticks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// Covers the values with about `wanted` round ticks. `floor` and `ceiling` are always within it.
    pub(super) fn of(
        values: impl Iterator<Item = f64>,
        floor: Option<f64>,
        ceiling: Option<f64>,
        wanted: usize,
    ) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()).chain(floor).chain(ceiling) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        // A value that does not change still needs room around it, and rounding errors are no change.
        let size = high.abs().max(low.abs());
        if size < ROUNDING {
            (low, high) = (if floor.is_some() { 0.0 } else { -1.0 }, 1.0);
        } else if high - low <= f64::EPSILON * size {
            (low, high) = (low - 0.1 * size, high + 0.1 * size);
        }
        let step = round_step((high - low) / wanted.max(1) as f64);
        let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        let ticks = (first..=last).map(|tick| tick as f64 * step).collect();
        Self { low: first as f64 * step, high: last as f64 * step, ticks }
    }

    /// 0 at the low end, 1 at the high end.
    pub(super) fn at(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

/// 1, 2 or 5 times a power of ten, at least `least`.
fn round_step(least: f64) -> f64 {
    let magnitude = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    steps
        .into_iter()
        .map(|step| step * magnitude)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * magnitude)
}

/// A number with as many digits as its size deserves; rounding errors are 0.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        _ if size < ROUNDING => return "0".to_owned(),
        _ if !(1e-3..1e6).contains(&size) => return format!("{value:.1e}"),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A duration in the two largest units that matter.
pub(super) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round_and_cover() {
        let scale = Scale::of([0.21, 0.74].into_iter(), Some(0.0), Some(1.0), 4);
        assert_eq!((scale.low, scale.high, scale.ticks.len()), (0.0, 1.0, 3));
        let scale = Scale::of([28.1, 41.9].into_iter(), None, None, 4);
        assert!(scale.low <= 28.1 && scale.high >= 41.9 && scale.ticks.len() <= 6, "{scale:?}");
        for values in [vec![], vec![0.0], vec![5.0, 5.0], vec![1e-9, 2e-9], vec![-3.0, 1e7]] {
            let scale = Scale::of(values.iter().copied(), None, None, 4);
            assert!(scale.low < scale.high && scale.ticks.len() < 12, "{values:?}: {scale:?}");
            assert!(values.iter().all(|value| (0.0..=1.0).contains(&scale.at(*value))), "{values:?}");
        }
    }

    #[test]
    fn rounding_errors_are_drawn_as_zero() {
        let scale = |floor| Scale::of([1.2e-17, -6e-17].into_iter(), floor, None, 4);
        assert_eq!((scale(None).low, scale(None).high), (-1.0, 1.0));
        assert_eq!((scale(Some(0.0)).low, scale(Some(0.0)).high), (0.0, 1.0));
        assert_eq!(number(1.2e-17), "0");
    }

    #[test]
    fn numbers_read_well() {
        let texts = [0.0, 0.5, 0.12345, 3.24159, 42.0, 12.34, 1234.5, 1.5e-5, -0.25].map(number);
        assert_eq!(texts, ["0", "0.5", "0.123", "3.24", "42", "12.3", "1234", "1.5e-5", "-0.25"]);
        assert_eq!([3.21, 75.0, 3_700.0].map(duration), ["3.2 s", "1 min 15 s", "1 h 01 min"]);
    }
}
