//! Elementwise loops that compilers turn into vector instructions, and the run-time choice between their widths.
//!
//! Sums run over sixteen fixed lanes and products are never fused with additions, so these loops give the same bits
//! on every instruction set; only their speed differs.

use multiversion::multiversion;

const LANES: usize = 16;

/// e^x to about two units in the last place; 0 below -87.3, and e^88 above 88; NaN stays NaN. A polynomial without
/// branches or saturating conversions, which vectorises.
///
/// Not the polynomial of draws (`sampling/weights.rs`): their last bits differ. Those of this one are in
/// log-probabilities and gradients, those of the other decide which token a seed draws, so neither can become the
/// other without changing the results of runs.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Comparisons instead of min and max, which would swallow NaN.
    let clamped = if x < -87.3 { -87.3 } else { x };
    let clamped = if clamped > 88.0 { 88.0 } else { clamped };
    // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
    let shifted = clamped * std::f32::consts::LOG2_E + 12_582_912.0;
    let integer = shifted - 12_582_912.0;
    // ln 2 in two parts, so that the remainder keeps its last bits.
    let r = clamped - integer * 0.693_359_4 + integer * 2.121_944_4e-4;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 5e-1;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    let value = (p * r * r + r + 1.0) * power;
    if x < -87.3 { 0.0 } else { value }
}

#[inline(always)]
pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Sum of f(i) over 0..n in sixteen lanes.
#[inline(always)]
pub(super) fn lane_sum(n: usize, f: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let whole = n / LANES * LANES;
    let mut at = 0;
    while at < whole {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += f(at + lane);
        }
        at += LANES;
    }
    let mut rest = 0.0;
    for i in whole..n {
        rest += f(i);
    }
    fold(lanes) + rest
}

/// Two sums over 0..n, each in the order of [`lane_sum`].
#[expect(clippy::needless_range_loop, reason = "two lists of lanes side by side")]
#[inline(always)]
pub(super) fn lane_sums(n: usize, f: impl Fn(usize) -> [f32; 2]) -> [f32; 2] {
    let mut lanes = [[0f32; LANES]; 2];
    let whole = n / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        for lane in 0..LANES {
            let [x, y] = f(at + lane);
            lanes[0][lane] += x;
            lanes[1][lane] += y;
        }
    }
    let mut rest = [0.0; 2];
    for i in whole..n {
        let [x, y] = f(i);
        rest = [rest[0] + x, rest[1] + y];
    }
    [fold(lanes[0]) + rest[0], fold(lanes[1]) + rest[1]]
}

/// The lanes' sum, as a tree.
#[inline(always)]
fn fold(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let b = &b[..a.len()];
    lane_sum(a.len(), |i| a[i] * b[i])
}

/// The largest value; NaN if any value is NaN, so that it is not hidden.
#[inline(always)]
pub(super) fn max(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let mut nan = [0f32; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = if chunk[i] > lanes[i] { chunk[i] } else { lanes[i] };
            nan[i] += chunk[i] * 0.0;
        }
    }
    let mut largest = f32::NEG_INFINITY;
    for &x in rest.iter().chain(&lanes) {
        largest = if x > largest || x.is_nan() { x } else { largest };
    }
    // 0 * x is NaN for NaN and for infinities; an infinite score is as broken as a NaN one.
    if fold(nan) == 0.0 { largest } else { f32::NAN }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn add(into: &mut [f32], other: &[f32]) {
    for (a, b) in into.iter_mut().zip(other) {
        *a += b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_three_units_in_the_last_place() {
        let mut worst = 0.0f64;
        for i in -870_000..=880_000 {
            let x = i as f32 * 1e-4;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - exact).abs() / exact);
        }
        assert!(worst < 3.0 * f64::from(f32::EPSILON), "{worst:e}");
    }

    #[test]
    fn exp_keeps_nan_and_goes_to_its_limits() {
        assert!(exp(f32::NAN).is_nan());
        assert_eq!((exp(f32::NEG_INFINITY), exp(-1e30), exp(f32::INFINITY)), (0.0, 0.0, exp(88.0)));
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    fn max_shows_a_nan_wherever_it_stands() {
        for at in 0..40 {
            let mut values = vec![1.0; 40];
            values[at] = f32::NAN;
            assert!(max(&values).is_nan(), "at {at}");
        }
        assert_eq!(max(&[-3.0, -1.0, -2.0]), -1.0);
    }
}
