//! An exponential that compilers vectorise: no branch, no table, no call. The library's `exp` would be called for each
//! token and take most of the time of a loss.

/// 1.5 * 2^52: adding it rounds to an integer and leaves that integer in the low bits of the mantissa.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// ln 2 in two parts; the first has so many trailing zeros that its product with any exponent of two is exact.
const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);

/// 1/n! from n = 12 down to 0. The first term left out is below 3e-16 of the result.
const TAYLOR: [f64; 13] = [
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];

/// e^x within 1e-15 relative for abs(x) <= 700; NaN gives NaN. Outside that range the result is meaningless, so callers
/// bound x first.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let power = shifted - ROUND;
    let rest = (x - power * LN2_HIGH) - power * LN2_LOW;
    let mut sum = TAYLOR[0];
    for coefficient in &TAYLOR[1..] {
        sum = sum * rest + coefficient;
    }
    sum * f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52))
}

#[cfg(test)]
mod tests {
    use super::exp;

    fn relative_error(x: f64) -> f64 {
        (exp(x) / x.exp() - 1.0).abs()
    }

    #[test]
    fn agrees_with_the_library_over_the_whole_range() {
        let worst = (-700_000..=700_000).map(|i| relative_error(f64::from(i) * 1.000_000_7e-3)).fold(0.0, f64::max);
        assert!(worst < 1e-15, "relative error {worst:e}");
    }

    #[test]
    fn agrees_with_the_library_over_the_range_of_log_ratios() {
        let worst = (-500_000..=500_000).map(|i| relative_error(f64::from(i) * 3.7e-6)).fold(0.0, f64::max);
        assert!(worst < 5e-16, "relative error {worst:e}");
    }

    #[test]
    fn is_exactly_one_at_zero_and_nan_at_nan() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert!(exp(f64::NAN).is_nan());
    }
}
