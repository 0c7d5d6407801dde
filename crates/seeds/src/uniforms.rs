//! Random access to a stream.

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::RngCore;

use crate::Stream;

/// Uniform numbers by position: the number at a position does not depend on what was read before.
#[derive(Debug, Clone)]
pub struct Uniforms(ChaCha12Rng);

impl Uniforms {
    /// The numbers of a stream.
    pub fn new(seed: u64, stream: Stream) -> Self {
        Self(crate::rng(seed, stream))
    }

    /// The number at a position, in [0, 1), a multiple of 2^-53.
    ///
    /// It comes from the 64-bit word at that position of the ChaCha12 stream; consecutive positions are cheapest,
    /// since several blocks are computed at a time.
    pub fn at(&mut self, position: u64) -> f64 {
        // Positions are counted in 32-bit words.
        let word = u128::from(position) * 2;
        if self.0.get_word_pos() != word {
            self.0.set_word_pos(word);
        }
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
