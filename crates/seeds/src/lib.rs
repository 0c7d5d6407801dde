//! One derivation for all random numbers.
//!
//! A run has one seed. Every purpose has its own stream of random numbers, identified by a [`Stream`]: what is drawn,
//! and the indices that distinguish one draw from another (step, prompt, sample, epoch, ...). A stream depends only on
//! the seed and its identity, so the order of draws, the number of threads or processes and resuming change nothing.
//!
//! # Construction
//! ```text
//! key    = SHA-256("evenkeel-seeds/1" ‖ u8(length of name) ‖ name ‖ u64(seed) ‖ u64(index 1) ‖ u64(index 2) ‖ ...)
//! stream = ChaCha12(key), nonce 0, from block 0
//! ```
//! `name` is [`Stream::name`] in ASCII; numbers are little-endian. The name is preceded by its length and determines
//! the number of indices, so two streams never hash the same bytes. A derived seed ([`seed`]) is the first 8 bytes of
//! the key, little-endian, shifted right by one bit. `tests/vectors.py` is an independent implementation that computes
//! the known answers of the tests.
//!
//! ChaCha12 is the generator that `rand` chose for its own `StdRng`; its output is the same on every platform.
#![forbid(unsafe_code)]

mod stream;
mod uniforms;

pub use rand_chacha::ChaCha12Rng;
pub use rand_chacha::rand_core::RngCore;
pub use stream::Stream;
pub use uniforms::Uniforms;

use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

/// Prefix of every hash: separates these keys from other uses of SHA-256, and carries the version of the construction.
const DOMAIN: &[u8] = b"evenkeel-seeds/1";

/// The generator at the beginning of a stream.
pub fn rng(seed: u64, stream: Stream) -> ChaCha12Rng {
    ChaCha12Rng::from_seed(key(seed, stream))
}

/// A seed for another generator: 0 to 2^63 - 1, since engines take signed 64-bit integers.
///
/// The numbers differ from those of [`rng`] for the same stream: use one of the two for each stream.
pub fn seed(seed: u64, stream: Stream) -> u64 {
    let [b0, b1, b2, b3, b4, b5, b6, b7, ..] = key(seed, stream);
    u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]) >> 1
}

/// The upper half of 64-bit numbers that are counted under a name, so that those of different names do not meet: 31
/// bits of the name's SHA-256 digest. The highest bit is set, which leaves the numbers below 2^63 to what has no name.
pub fn upper_half(name: &str) -> u32 {
    let [b0, b1, b2, b3, ..]: [u8; 32] = Sha256::digest(name).into();
    u32::from_be_bytes([b0, b1, b2, b3]) | 1 << 31
}

fn key(seed: u64, stream: Stream) -> [u8; 32] {
    let name = stream.name();
    let mut hash = Sha256::new_with_prefix(DOMAIN);
    hash.update([name.len() as u8]);
    hash.update(name);
    hash.update(seed.to_le_bytes());
    for index in stream.indices() {
        hash.update(index.to_le_bytes());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_half_of_a_name_is_always_the_same_and_never_0() {
        assert_eq!(["math", "aime", ""].map(upper_half), [0xd8a6_d680, 0xb25a_0970, 0xe3b0_c442]);
    }
}
