//! Loops over a row of logits, written so that compilers vectorize them on any CPU.
//!
//! Sums are taken in blocks: the result depends on the row alone, and large vocabularies lose no precision.

/// Weights in one block of a sum.
pub(super) const BLOCK: usize = 128;
const LANES: usize = 8;

/// e^x for x <= 0, to about two units in the last place; 0 below -87.
///
/// Not the exponential of the model's kernels (`crates/model/src/kernels/cpu/simd.rs`), another polynomial with other
/// last bits: a token is drawn by the running sum of these weights, so other bits would draw other tokens from the same
/// seed.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    let clamped = if x < -87.0 { -87.0 } else { x };
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let integer = shifted - ROUND;
    // ln 2 in two parts: the first one times an integer is exact.
    let r = clamped - integer * 0.693_145_75 - integer * 1.428_606_8e-6;
    // Taylor's polynomial; |r| <= ln 2 / 2 leaves 1.2e-8 after its seventh term.
    let mut p = 1.0 / 5040.0;
    for factor in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = p * r + factor;
    }
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    // NaN fails the comparison and remains NaN.
    if x < -87.0 { 0.0 } else { p * power }
}

/// The largest value and its first index; `None` for a row with a NaN.
pub(super) fn largest(row: &[f32]) -> Option<(usize, f32)> {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let mut broken = [0f32; LANES];
    let chunks = row.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for lane in 0..LANES {
            lanes[lane] = if chunk[lane] > lanes[lane] { chunk[lane] } else { lanes[lane] };
            // Only NaN counts: minus infinity is a masked token, plus infinity becomes the largest value.
            broken[lane] += if chunk[lane].is_nan() { 1.0 } else { 0.0 };
        }
    }
    let mut top = f32::NEG_INFINITY;
    let mut is_broken = broken.iter().sum::<f32>() > 0.0;
    for &x in lanes.iter().chain(rest) {
        top = if x > top { x } else { top };
        is_broken |= x.is_nan();
    }
    if is_broken {
        return None;
    }
    Some((row.iter().position(|&x| x == top).unwrap_or(0), top))
}

/// Writes exp(x - top) for each x of the row, and the sum of each block of them.
pub(super) fn exponentials(row: &[f32], top: f32, weights: &mut Vec<f32>, blocks: &mut Vec<f64>) {
    weights.resize(row.len(), 0.0);
    blocks.clear();
    for (row, weights) in row.chunks(BLOCK).zip(weights.chunks_mut(BLOCK)) {
        for (weight, &x) in weights.iter_mut().zip(row) {
            *weight = exp(x - top);
        }
        let mut lanes = [0f32; LANES];
        let chunks = weights.chunks_exact(LANES);
        let rest: f32 = chunks.remainder().iter().sum();
        for chunk in chunks {
            for lane in 0..LANES {
                lanes[lane] += chunk[lane];
            }
        }
        blocks.push(f64::from(lanes.iter().sum::<f32>() + rest));
    }
}

/// The index at which the running sum of the weights passes `target`; `blocks` are those of [`exponentials`].
pub(super) fn index_at(mut target: f64, weights: &[f32], blocks: &[f64]) -> usize {
    let mut block = 0;
    while block + 1 < blocks.len() && target >= blocks[block] {
        target -= blocks[block];
        block += 1;
    }
    let start = block * BLOCK;
    let weights = &weights[start..(start + BLOCK).min(weights.len())];
    let mut last = 0;
    for (at, &weight) in weights.iter().enumerate() {
        if weight > 0.0 {
            // Rounding may leave the target slightly above the block's sum: then it is the last possible token.
            last = at;
            target -= f64::from(weight);
            if target < 0.0 {
                break;
            }
        }
    }
    start + last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_three_units_in_the_last_place_and_keeps_nan() {
        let mut worst = 0.0f64;
        for i in 0..=870_000 {
            let x = i as f32 * -1e-4;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - exact).abs() / exact);
        }
        assert!(worst < 3.0 * f64::from(f32::EPSILON), "{worst:e}");
        assert_eq!((exp(0.0), exp(-1e30), exp(f32::NEG_INFINITY)), (1.0, 0.0, 0.0));
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn the_largest_is_the_first_of_equals_and_none_beside_nan() {
        assert_eq!(largest(&[1.0, 3.0, 3.0]), Some((1, 3.0)));
        for length in [1, 7, 8, 9, 40] {
            for at in 0..length {
                let mut row = vec![-1.0; length];
                row[at] = 2.0;
                assert_eq!(largest(&row), Some((at, 2.0)));
                row[at] = f32::NAN;
                assert_eq!(largest(&row), None, "{at} of {length}");
            }
        }
    }

    #[test]
    fn indices_follow_the_running_sum_across_blocks() {
        let row: Vec<f32> = (0..700).map(|i| ((i * 37 % 101) as f32 / 50.0) - 2.0).collect();
        let mut weights = Vec::new();
        let mut blocks = Vec::new();
        exponentials(&row, largest(&row).unwrap().1, &mut weights, &mut blocks);
        let total: f64 = blocks.iter().sum();
        let mut running = 0.0;
        for (index, &weight) in weights.iter().enumerate() {
            let middle = running + f64::from(weight) / 2.0;
            assert_eq!(index_at(middle, &weights, &blocks), index);
            running += f64::from(weight);
        }
        assert!((running - total).abs() < 1e-4);
        assert_eq!(index_at(total * 2.0, &weights, &blocks), 699);
    }
}
