//! Turns logits into log-probabilities: the one place, for what an engine reports and for what the learner compares it
//! with.

use crate::kernels::cpu;

/// What is subtracted from a logit to have its log-probability.
#[derive(Debug, Clone, Copy)]
pub(super) enum Normalizer {
    /// Over a whole row, with the bits of the learner's head on a CPU.
    Whole(cpu::Normalizer),
    /// Over tokens that may be drawn: the logarithm of the sum of their exponentials.
    Part(f64),
}

impl Normalizer {
    /// Over all tokens. Those with a logit of minus infinity have no probability; no other logit is infinite or NaN.
    pub(super) fn of_all(row: &[f32]) -> Self {
        cpu::Normalizer::of(row).map_or_else(|| Self::of_possible(row), Self::Whole)
    }

    /// Over the ids of `kept`, in their order, given the largest logit and e^(logit - largest) of all tokens.
    pub(super) fn of_kept(largest: f32, weights: &[f32], kept: &[u32]) -> Self {
        let total: f64 = kept.iter().map(|&id| f64::from(weights[id as usize])).sum();
        Self::Part(f64::from(largest) + libm::log(total))
    }

    /// Over a row in which some logits are minus infinity.
    fn of_possible(row: &[f32]) -> Self {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f64 = row.iter().map(|&x| libm::exp(f64::from(x) - f64::from(largest))).sum();
        Self::Part(f64::from(largest) + libm::log(total))
    }

    pub(super) fn log_probability(self, logit: f32) -> f32 {
        match self {
            Self::Whole(normalizer) => normalizer.log_probability(logit),
            Self::Part(sum) => (f64::from(logit) - sum) as f32,
        }
    }
}
