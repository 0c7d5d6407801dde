//! Random numbers that follow from words: the same on every machine, without state between draws of different things.

/// SplitMix64 whose stream is chosen by a list of words.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of these words. By convention the first is the run's seed and the second says what is drawn.
    pub fn new(words: &[u64]) -> Self {
        Self(words.iter().fold(0x6576_656e_6b65_656c, |state, word| mix(state ^ word)))
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// 0 to `bound` - 1; 0 where the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // The high half of the product: its bias is below 2^-64 times the bound.
        ((u128::from(self.word()) * bound as u128) >> 64) as usize
    }

    /// One of the values, of which there is at least one.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Fisher and Yates.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for end in (1..values.len()).rev() {
            values.swap(end, self.below(end + 1));
        }
    }
}

/// What is drawn: the second word of a stream.
pub mod stream {
    /// Which problems are held out.
    pub const HELD_OUT: u64 = 1;
    /// The order of problems in an epoch.
    pub const ORDER: u64 = 2;
    /// Which demonstration a warm-start step imitates.
    pub const DEMONSTRATION: u64 = 3;
}

fn mix(word: u64) -> u64 {
    let mut z = word;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_every_word_and_stay_in_bounds() {
        let draw = |words: &[u64]| Random::new(words).word();
        assert_ne!(draw(&[0, 1]), draw(&[1, 0]));
        assert_ne!(draw(&[0, 1, 0]), draw(&[0, 1, 1]));
        assert_eq!(draw(&[5, 6]), draw(&[5, 6]));
        let mut random = Random::new(&[3]);
        let mut counts = [0; 7];
        for _ in 0..7_000 {
            counts[random.below(7)] += 1;
            assert!((0.0..1.0).contains(&random.unit()));
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_shuffle_keeps_every_value() {
        let mut values: Vec<u32> = (0..100).collect();
        Random::new(&[1]).shuffle(&mut values);
        assert_ne!(values, (0..100).collect::<Vec<_>>());
        values.sort_unstable();
        assert_eq!(values, (0..100).collect::<Vec<_>>());
    }
}
