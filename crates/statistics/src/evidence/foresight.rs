//! How many steps it takes until the proof of weights decides, foreseen from sizes of movement and noise.

use super::contrast::CORRELATION;

/// Root mean square movement of a token by the first step, in nats, for a learning rate of 1: 0.0022 at 1e-6, as
/// measured of Adam and a model of 135 million weights. Other models move otherwise, within a factor of a few.
const FIRST_STEP: f64 = 2.2e3;
/// A movement since the beginning grows with this power of the steps.
const GROWTH: f64 = 0.78;
/// Squared movement over noise, summed over the tokens, with which 19 of 20 faults are found.
const INFORMATION: f64 = 120.0;
/// The least number of sequences that decide, however clear each of them is.
const SEQUENCES: f64 = 36.0;
/// A decision that takes more steps than this is none.
const MOST_STEPS: u64 = 100_000;

/// What is known before a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Foresight {
    /// Root mean square movement of a token's log-probability by the first step, in nats, above 0.
    pub first_step: f64,
    /// Root mean square noise of an engine with the right weights, in nats, above 0.
    pub noise: f64,
    /// Sequences that are scored after every step.
    pub sequences: u64,
    /// Tokens that are scored after every step.
    pub tokens: u64,
}

impl Foresight {
    /// Root mean square noise of an engine that computes in f32, in nats.
    pub const F32: f64 = 1.4e-6;
    /// Root mean square noise of an engine that computes in bf16, in nats.
    pub const BF16: f64 = 0.047;

    /// The movement by the first step at a learning rate.
    pub fn first_step(learning_rate: f64) -> f64 {
        FIRST_STEP * learning_rate
    }

    /// Steps until a part is found that is stale from the beginning and makes up `share` of the movement (1: nothing is
    /// loaded; 0.5: half of every change), where the suspicion is tested after every `turn`-th step. 19 of 20 runs
    /// take no more. `None` where it takes more than a hundred thousand steps.
    pub fn steps(&self, share: f64, turn: u64) -> Option<u64> {
        let turn = turn.max(1);
        let least = turn * (SEQUENCES / self.sequences as f64).ceil() as u64;
        let mut information = 0.0;
        (turn..=MOST_STEPS).step_by(turn as usize).find(|&step| {
            let movement = share * self.first_step * libm::pow(step as f64, GROWTH);
            // What is no more than the correlation of noise that is tolerated says nothing.
            let clear = (movement / self.noise - CORRELATION).max(0.0);
            information += self.tokens as f64 * clear * clear;
            information >= INFORMATION && step >= least
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(learning_rate: f64, tokens: u64, noise: f64) -> Foresight {
        Foresight { first_step: Foresight::first_step(learning_rate), noise, sequences: 32, tokens }
    }

    #[test]
    fn in_f32_everything_is_decided_by_two_steps_at_1e_6() {
        let f32 = at(1e-6, 384, Foresight::F32);
        assert!([1.0, 0.2, 0.02].iter().all(|share| f32.steps(*share, 1) == Some(2)));
    }

    #[test]
    fn in_bf16_steps_grow_as_movement_and_tokens_shrink() {
        let steps = |learning_rate, tokens, share| at(learning_rate, tokens, Foresight::BF16).steps(share, 1).unwrap();
        assert!((6..=12).contains(&steps(1e-6, 5_000, 1.0)));
        assert!((16..=30).contains(&steps(1e-6, 5_000, 0.41)));
        assert!((165..=300).contains(&steps(1e-6, 5_000, 0.06)));
        assert!(steps(1e-6, 384, 1.0) > steps(1e-6, 5_000, 1.0));
        assert!(steps(1e-5, 384, 1.0) < steps(1e-6, 384, 1.0));
    }

    #[test]
    fn without_movement_there_is_no_decision() {
        assert_eq!(at(0.0, 384, Foresight::BF16).steps(1.0, 1), None);
        assert_eq!(at(1e-12, 384, Foresight::BF16).steps(1.0, 1), None);
    }
}
