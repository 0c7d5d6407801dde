//! Simulated runs of the proof of weights: how often an honest run is accused, and how many steps a fault takes. Used
//! by the test of it and by the example that prints the numbers of docs/proofs.md.
//!
//! Constants of the proof are repeated here: the share of an engine, the number of suspicions and how they take turns.

pub(crate) mod faults;
pub(crate) mod honest;
pub(crate) mod noise;

use evenkeel_seeds::{ChaCha12Rng, RngCore, Stream, rng};
use evenkeel_statistics::evidence::Contrast;

/// Chance that an honest run is accused by what engines say of given text.
pub(crate) const BUDGET: f64 = Contrast::FALSE_ALARMS;
/// Suspicions: nothing loaded, one version behind, and groups of tensors.
pub(crate) const SUSPICIONS: usize = 12;
/// Suspicions that are tested in every proof, and how many of the others are, in rotation.
pub(crate) const ALWAYS: usize = 2;
pub(crate) const IN_TURN: usize = 2;
/// Sequences of a proof, and tokens of each.
pub(crate) const SEQUENCES: usize = 32;
pub(crate) const TOKENS: usize = 12;

/// What the evidence about one suspicion of an engine must reach, engines counted from 0 in the order in which they
/// join.
pub(crate) fn threshold(engine: usize) -> f64 {
    let engine = engine as f64 + 1.0;
    SUSPICIONS as f64 * engine * (engine + 1.0) / BUDGET
}

/// The suspicions of a proof, by number: the first ones always, the others in turn.
pub(crate) fn looked_at(proof: usize) -> impl Iterator<Item = usize> {
    let others = SUSPICIONS - ALWAYS;
    (0..ALWAYS).chain((0..IN_TURN).map(move |offset| ALWAYS + (proof * IN_TURN + offset) % others))
}

/// Random numbers of a simulation.
pub(crate) fn random(seed: u64) -> ChaCha12Rng {
    rng(seed, Stream::SignFlips)
}

/// A number in [0, 1).
pub(crate) fn uniform(rng: &mut ChaCha12Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}
