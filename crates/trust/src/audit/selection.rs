//! Which samples of a step are audited: each is chosen by itself, by a secret number of the step, before it exists.

use evenkeel_seeds::{Stream, Uniforms};

/// Nonces are below this, so that a line of metrics holds them exactly.
pub(super) const NONCES: u64 = 1 << 53;

/// How much of a run is audited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuditRates {
    /// Samples of an audited step that are chosen on average.
    pub(crate) sequences: u32,
    /// Samples that a step is trained on.
    pub(crate) samples: u64,
    /// One step in this many is audited.
    pub(crate) every: u64,
}

/// The choice among the samples of a step.
#[derive(Debug)]
pub(crate) struct Selection {
    nonce: u64,
    uniforms: Uniforms,
    /// The chance of each sequence.
    chance: f64,
}

impl Selection {
    pub(crate) fn new(nonce: u64, step: u64, rates: AuditRates) -> Self {
        let mut uniforms = Uniforms::new(nonce, stream(step));
        let is_audited = uniforms.at(0) * (rates.every as f64) < 1.0;
        let chance = f64::from(rates.sequences) / rates.samples.max(1) as f64;
        Self { nonce, uniforms, chance: if is_audited { chance } else { 0.0 } }
    }

    pub(crate) fn nonce(&self) -> u64 {
        self.nonce
    }

    /// Whether any sample may be chosen.
    pub(crate) fn is_audited(&self) -> bool {
        self.chance > 0.0
    }

    /// Whether a sequence of a sample is chosen. It depends on the nonce and these numbers alone.
    pub(crate) fn takes(&mut self, prompt: u64, sample: u32, sequence: u32) -> bool {
        let sample = (prompt << 16).wrapping_add(sample.into());
        // 0 decides about the step. A sample has at most 64 sequences.
        let position = (sample << 8).wrapping_add(sequence.into()).wrapping_add(1);
        self.is_audited() && self.uniforms.at(position) < self.chance
    }
}

/// A number that nobody can foretell.
pub(super) fn draw_nonce() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the system gives random bytes, as it did for the keys of hash tables");
    u64::from_le_bytes(bytes) % NONCES
}

/// The random stream of a step's audit, which counts steps from 0.
pub(crate) fn stream(step: u64) -> Stream {
    Stream::SamplerAudit { step: step.saturating_sub(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: AuditRates = AuditRates { sequences: 6, samples: 32, every: 1 };

    /// The chosen ones of four prompts with eight samples of two sequences.
    fn chosen(nonce: u64, step: u64, rates: AuditRates) -> Vec<(u64, u32, u32)> {
        let mut selection = Selection::new(nonce, step, rates);
        let all = (30..34).flat_map(|prompt| (0..8).flat_map(move |sample| [(prompt, sample, 0), (prompt, sample, 1)]));
        all.filter(|&(prompt, sample, sequence)| selection.takes(prompt, sample, sequence)).collect()
    }

    #[test]
    fn the_choice_follows_from_nonce_and_step_alone_whatever_is_asked_first() {
        assert_eq!(chosen(1, 2, RATES), chosen(1, 2, RATES));
        assert_ne!(chosen(1, 2, RATES), chosen(1, 3, RATES));
        assert_ne!(chosen(1, 2, RATES), chosen(2, 2, RATES));
        let mut backwards = Selection::new(1, 2, RATES);
        let (prompt, sample, sequence) = *chosen(1, 2, RATES).last().unwrap();
        assert!(backwards.takes(prompt, sample, sequence));
    }

    #[test]
    fn two_steps_of_the_same_number_have_different_nonces() {
        let nonces = [draw_nonce(), draw_nonce(), draw_nonce()];
        assert!(nonces[0] != nonces[1] && nonces[1] != nonces[2] && nonces.iter().all(|nonce| *nonce < NONCES));
    }

    #[test]
    fn every_sequence_is_as_likely_as_any_other_and_so_many_samples_are_chosen_on_average() {
        let mut counts = [0_u32; 64];
        for nonce in 0..4_000 {
            for (prompt, sample, sequence) in chosen(nonce, 7, RATES) {
                counts[((prompt - 30) as usize * 8 + sample as usize) * 2 + sequence as usize] += 1;
            }
        }
        // 750 expected, with a standard deviation of 25.
        assert!(counts.iter().all(|count| (620..880).contains(count)), "{counts:?}");
        let first: u32 = counts.iter().step_by(2).sum();
        assert!((f64::from(first) / 4_000.0 - 6.0).abs() < 0.2, "{first} of the first sequences in 4000 steps");
    }

    #[test]
    fn all_are_chosen_where_there_are_fewer_than_wanted() {
        assert_eq!(chosen(3, 1, AuditRates { sequences: 99, ..RATES }).len(), 64);
    }

    #[test]
    fn one_step_in_so_many_is_audited_and_the_nonce_decides_which() {
        let rates = AuditRates { every: 4, ..RATES };
        let audited = (0..4_000).filter(|&nonce| Selection::new(nonce, 5, rates).is_audited()).count();
        // 1000 expected, with a standard deviation of 27.
        assert!((860..1140).contains(&audited), "{audited}");
        assert!((0..100).all(|nonce| Selection::new(nonce, 5, RATES).is_audited()));
        assert!((0..100).all(|nonce| !Selection::new(nonce, 5, AuditRates { sequences: 0, ..RATES }).is_audited()));
    }
}
