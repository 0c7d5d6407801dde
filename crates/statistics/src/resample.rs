//! Drawing with replacement.

use evenkeel_seeds::{Stream, Uniforms};

/// A sequence of random indices, the same for the same seed.
pub(crate) struct Draws {
    uniforms: Uniforms,
    position: u64,
}

impl Draws {
    /// The draws of a bootstrap.
    pub(crate) fn of_bootstrap(seed: u64) -> Self {
        Self { uniforms: Uniforms::new(seed, Stream::Bootstrap), position: 0 }
    }

    /// The draws of a randomised sign-flip test.
    pub(crate) fn of_signs(seed: u64) -> Self {
        Self { uniforms: Uniforms::new(seed, Stream::SignFlips), position: 0 }
    }

    /// An index below `count`; each has the same probability to within 2^-53.
    pub(crate) fn index(&mut self, count: usize) -> usize {
        let uniform = self.uniforms.at(self.position);
        self.position += 1;
        // Rounding may reach `count` itself only where it has more than 53 bits.
        ((uniform * count as f64) as usize).min(count.saturating_sub(1))
    }
}

/// Values of a statistic over resamples, in order.
pub(crate) struct Resampled(Vec<f64>);

impl Resampled {
    /// `count` values of `statistic`.
    pub(crate) fn new(count: usize, statistic: impl FnMut() -> f64) -> Self {
        let mut values: Vec<f64> = std::iter::repeat_with(statistic).take(count).collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The values that cut off a share `tail` on either side: those of rank (B + 1) `tail` from below and above. `None` where there are too
    /// few to reach so far out.
    pub(crate) fn ends(&self, tail: f64) -> Option<(f64, f64)> {
        // Rounded down, so that the interval is rather too wide; a rank that misses an integer by rounding errors is that integer.
        let rank = (tail * (self.0.len() + 1) as f64 + 1e-6) as usize;
        let low = self.0.get(rank.checked_sub(1)?)?;
        let high = self.0.get(self.0.len().checked_sub(rank)?)?;
        Some((*low, *high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_nearly_a_thousand_values_are_values() {
        let mut next = 0.0;
        let values = Resampled::new(999, || {
            next += 1.0;
            next
        });
        assert_eq!(values.ends(0.025), Some((25.0, 975.0)));
        assert_eq!(values.ends(0.0251), Some((25.0, 975.0)), "rather too wide");
        assert_eq!(values.ends(0.0009), None);
    }

    #[test]
    fn every_index_is_drawn_and_none_beyond() {
        let mut draws = Draws::of_bootstrap(1);
        let mut counts = [0_u32; 5];
        for _ in 0..5_000 {
            counts[draws.index(5)] += 1;
        }
        // The deviation of a count is 28.
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
