//! How far a float may be from the expected one.
//!
//! Only an expected number that is written as a float (with a decimal point or an exponent) allows a difference, so
//! that integers stay exact. The error may be absolute. It may be relative as well if the expected number has so many
//! decimals that it is a rounded one; a short decimal such as 1234567.5 may be the exact answer, to which 1234567.0 is
//! not equal, whatever its size.

/// The largest error that is allowed, absolute or relative: 1e-6 by default, as most contests have it. Zero for none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance(pub f64);

/// Decimals from which a number is taken to be rounded: then half a unit of its last decimal is allowed, too.
const ROUNDED_DECIMALS: i64 = 5;
/// Relative error of a double after a few operations, for numbers so large that this exceeds the absolute error.
const DOUBLE: f64 = 1e-12;

impl Default for Tolerance {
    fn default() -> Self {
        Self(1e-6)
    }
}

impl Tolerance {
    /// The tolerance with which only equal values compare as equal.
    pub const EXACT: Self = Self(0.0);

    /// Whether a number is close enough to an expected float with this many decimals.
    pub(super) fn accepts(self, found: f64, expected: f64, decimals: i64) -> bool {
        if self.0 <= 0.0 || !found.is_finite() || !expected.is_finite() {
            return false;
        }
        let error = (found - expected).abs();
        if error <= self.0 || error <= expected.abs() * DOUBLE.min(self.0) {
            return true;
        }
        let half_unit = 0.5 * 10_f64.powi(i32::try_from(-decimals).unwrap_or(i32::MIN));
        // Halves in decimal are not exact in binary.
        decimals >= ROUNDED_DECIMALS && (error <= expected.abs() * self.0 || error <= half_unit * (1.0 + 1e-9))
    }

    /// [`Self::accepts`] for an expected float of which only the value is known: it has the decimals of its shortest
    /// form.
    pub(super) fn accepts_value(self, found: f64, expected: f64) -> bool {
        let text = format!("{expected}");
        let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        self.accepts(found, expected, i64::try_from(decimals).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(found: f64, expected: f64) -> bool {
        Tolerance::default().accepts_value(found, expected)
    }

    #[test]
    fn rounding_errors_and_rounded_numbers_are_accepted() {
        for (found, expected) in [
            (0.1 + 0.2, 0.3),
            (2.0 / 3.0, 0.66667),
            (0.666667, 2.0 / 3.0),
            (1.0000001, 1.0),
            (1234567.1234567, 1234567.123456),
            (1e20 / 3.0, 33333333333333333333.3),
            (0.333333, 0.333333333333),
            (123456789.25 + 1e-7, 123456789.25),
            (-0.5000004, -0.5),
        ] {
            assert!(accepts(found, expected), "{found} for {expected}");
        }
    }

    #[test]
    fn other_numbers_are_not() {
        for (found, expected) in [
            (0.667, 2.0 / 3.0),
            (0.6667, 0.66667),
            (1234567.0, 1234567.5),
            (1234567.49, 1234567.5),
            (0.54, 0.5),
            (1.00001, 1.0),
            (-0.3, 0.3),
            (f64::NAN, 0.3),
            (f64::INFINITY, f64::INFINITY),
            (1e300, f64::INFINITY),
            (0.26, 0.25),
        ] {
            assert!(!accepts(found, expected), "{found} for {expected}");
        }
        assert!(!Tolerance::EXACT.accepts_value(0.1 + 0.2, 0.3));
    }
}
