//! Round numbers for axes, and readable numbers.

/// Smaller values are 0 except for rounding, such as the loss of an on-policy step.
const ROUNDING: f64 = 1e-12;

/// The range of an axis and its ticks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ticks: Vec<f64>,
}

impl Scale {
    /// Covers the values with about `wanted` round ticks. `floor` and `ceiling` are always within it.
    pub(crate) fn of(
        values: impl Iterator<Item = f64>,
        floor: Option<f64>,
        ceiling: Option<f64>,
        wanted: usize,
    ) -> Self {
        let mut low = f64::INFINITY;
        let mut high = f64::NEG_INFINITY;
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
        let step = round_step((high / wanted.max(1) as f64) - (low / wanted.max(1) as f64));
        let first = (low / step).floor() as i64;
        let last = (high / step).ceil() as i64;
        let ticks = (first..=last).map(|tick| tick as f64 * step).collect();
        Self { low: first as f64 * step, high: last as f64 * step, ticks }
    }

    /// From the lowest to the highest value, with the round ticks in between: for steps, where room at the ends says
    /// nothing. One value alone still has a width.
    pub(crate) fn tight(values: impl Iterator<Item = f64>, wanted: usize) -> Self {
        let finite = values.filter(|value| value.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let (low, high) = match low < high {
            true => (low, high),
            false if low.is_finite() => (low - 0.5, low + 0.5),
            false => (0.0, 1.0),
        };
        let mut ticks = Self::of([low, high].into_iter(), None, None, wanted).ticks;
        ticks.retain(|tick| *tick >= low && *tick <= high && tick.fract() == 0.0);
        Self { low, high, ticks }
    }

    /// Keeps the range and replaces the ticks by those of `ticks` that lie within it.
    pub(crate) fn with_ticks(self, mut ticks: Vec<f64>) -> Self {
        ticks.retain(|tick| *tick >= self.low && *tick <= self.high);
        Self { ticks, ..self }
    }

    /// 0 at the low end, 1 at the high end.
    pub(crate) fn at(&self, value: f64) -> f64 {
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
pub fn number(value: f64) -> String {
    let size = value.abs();
    let text = match size {
        _ if size < ROUNDING => return "0".to_owned(),
        _ if !(1e-3..1e6).contains(&size) => return format!("{value:.1e}"),
        _ if size >= 9_999.5 => format!("{}{}", if value < 0.0 { "-" } else { "" }, thousands(size.round() as u64)),
        _ if size >= 100.0 => format!("{value:.0}"),
        _ if size >= 10.0 => format!("{value:.1}"),
        _ if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A share in percent, with its standard error where it has one: `12.5 ± 1.0 %`.
pub fn percent(value: f64, standard_error: Option<f64>) -> String {
    format!("{} %", percentage(value, standard_error))
}

/// A share as in [`percent`], without the percent sign, for a column whose heading has it.
pub fn percentage(value: f64, standard_error: Option<f64>) -> String {
    match standard_error {
        Some(error) => format!("{:.1} ± {:.1}", 100.0 * value, 100.0 * error),
        None => format!("{:.1}", 100.0 * value),
    }
}

/// A count in groups of three digits.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            // A narrow space that does not break.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A duration in the two largest units that matter; a short one in milliseconds.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        _ if seconds <= 0.0 => "0 s".to_owned(),
        _ if seconds < 0.0995 => format!("{:.0} ms", (1e3 * seconds).max(1.0)),
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn a_tight_scale_ends_at_its_values_and_has_whole_ticks() {
        let scale = Scale::tight([1.0, 80.0].into_iter(), 6);
        assert_eq!((scale.low, scale.high, &scale.ticks[..]), (1.0, 80.0, &[20.0, 40.0, 60.0, 80.0][..]));
        let scale = Scale::tight([3.0].into_iter(), 6);
        assert_eq!((scale.low, scale.high, &scale.ticks[..]), (2.5, 3.5, &[3.0][..]));
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
        assert_eq!(
            [0.0, 0.0123, 3.21, 75.0, 3_700.0].map(duration),
            ["0 s", "12 ms", "3.2 s", "1 min 15 s", "1 h 01 min"]
        );
        assert_eq!([7, 1234, 1_234_567].map(thousands), ["7", "1\u{202f}234", "1\u{202f}234\u{202f}567"]);
        assert_eq!((percent(0.1234, Some(0.02)), percent(0.5, None)), ("12.3 ± 2.0 %".into(), "50.0 %".into()));
    }

    proptest! {
        #[test]
        fn a_scale_covers_every_value_with_few_ticks(values in prop::collection::vec(-1e15..1e15_f64, 1..20)) {
            let scale = Scale::of(values.iter().copied(), None, None, 4);
            prop_assert!(scale.ticks.len() <= 12);
            for value in values {
                prop_assert!((-1e-9..=1.0 + 1e-9).contains(&scale.at(value)));
            }
        }
    }
}
