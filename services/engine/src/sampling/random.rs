//! Random numbers without a generator: the number at a place of a stream is a function of the stream's seed and the place.
//!
//! Nothing that runs beside a sequence can take a number from it or give it another one, and a sequence that is computed
//! again draws what it drew before.

/// 2^64 divided by the golden ratio, odd: neighbouring places land far from each other.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection of 64-bit words in which every bit of the result depends on every bit of the word (SplitMix64's finaliser,
/// Steele, Lea and Flood 2014, with Stafford's 13th set of constants).
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The number at `place` of the stream of `seed`, in [0, 1), a multiple of 2^-53.
pub(crate) fn uniform(seed: u64, place: u64) -> f64 {
    // The seed goes through a whole round before the place comes in: seeds that differ by one (the samples of one
    // request) must not be each other's streams, shifted.
    let key = mix(seed.wrapping_add(STRIDE));
    let word = mix(mix(key ^ place.wrapping_mul(STRIDE)).wrapping_add(key));
    (word >> 11) as f64 / (1u64 << 53) as f64
}

/// The seed of the `count`th sequence that came without one.
pub(crate) fn unseeded(engine_seed: u64, count: u64) -> u64 {
    mix(mix(engine_seed).wrapping_add(count.wrapping_mul(STRIDE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_neighbouring_seeds_are_uniform_and_unrelated() {
        // 64 seeds of 1000 places: means within 5 deviations of a half, correlations between seeds, places and lags of zero.
        let numbers: Vec<Vec<f64>> =
            (0..64).map(|seed| (0..1000).map(|place| uniform(seed, place)).collect()).collect();
        let covariance = |pairs: &mut dyn Iterator<Item = (f64, f64)>| {
            let (mut sum, mut count) = (0.0, 0.0);
            for (a, b) in pairs {
                sum += (a - 0.5) * (b - 0.5);
                count += 1.0f64;
            }
            // In units of its deviation, 1/12 / sqrt(count).
            sum / count * 12.0 * count.sqrt()
        };
        for seed in 0..63 {
            let mean = numbers[seed].iter().sum::<f64>() / 1000.0;
            assert!((mean - 0.5).abs() < 5.0 * (1.0f64 / 12.0 / 1000.0).sqrt(), "seed {seed}: {mean}");
            for lag in 0..3 {
                let (a, b) = (&numbers[seed], &numbers[seed + 1]);
                let across = covariance(&mut a[lag..].iter().copied().zip(b.iter().copied()));
                let along = covariance(&mut a[lag + 1..].iter().copied().zip(a.iter().copied()));
                assert!(across.abs() < 5.0 && along.abs() < 5.0, "seed {seed}, lag {lag}: {across} {along}");
            }
        }
    }

    #[test]
    fn every_sixteenth_is_hit_as_often_as_the_others() {
        let mut counts = [0f64; 16];
        for n in 0..64_000u64 {
            counts[(uniform(u64::MAX - n / 100, n % 100) * 16.0) as usize] += 1.0;
        }
        // Chi-squared with 15 degrees of freedom: above 45 once in 10,000 streams, and this one is fixed.
        let chi: f64 = counts.iter().map(|count| (count - 4000.0) * (count - 4000.0) / 4000.0).sum();
        assert!(chi < 45.0, "{chi}");
    }

    #[test]
    fn the_numbers_are_these_on_every_machine() {
        assert_eq!(uniform(7, 3), uniform(7, 3));
        assert_ne!(uniform(7, 3), uniform(8, 3));
        assert_ne!(uniform(7, 3), uniform(7, 4));
        assert_ne!(unseeded(0, 0), unseeded(0, 1));
        assert_ne!(unseeded(0, 0), unseeded(1, 0));
    }
}
