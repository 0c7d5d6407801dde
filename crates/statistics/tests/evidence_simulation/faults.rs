//! Faults: how many steps it takes until one is found that is there from the beginning.

use evenkeel_seeds::ChaCha12Rng;
use evenkeel_statistics::evidence::{Contrast, Foresight, SuspectedToken};
use rand_distr::{Distribution, StandardNormal};

use super::{SEQUENCES, random, threshold};

/// Steps after which a simulated run is given up.
pub(crate) const MOST_STEPS: u64 = 500;

/// A fault of an engine: the share of the movement that its prediction makes up, and the share of the prediction that
/// is missing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// Root mean square of the prediction over that of the movement.
    pub(crate) part: f64,
    pub(crate) missing: f64,
    /// Whether the fault is tested in every proof.
    pub(crate) always: bool,
}

/// Faults with the shares of SmolLM2-135M.
pub(crate) const FAULTS: [Fault; 9] = [
    Fault { name: "nothing loaded", part: 1.0, missing: 1.0, always: true },
    Fault { name: "half of every change", part: 1.0, missing: 0.5, always: true },
    Fault { name: "80 % of every change", part: 1.0, missing: 0.2, always: true },
    Fault { name: "MLP", part: 0.57, missing: 1.0, always: false },
    Fault { name: "attention", part: 0.41, missing: 1.0, always: false },
    Fault { name: "first layer", part: 0.11, missing: 1.0, always: false },
    Fault { name: "embeddings and head", part: 0.06, missing: 1.0, always: false },
    Fault { name: "norms", part: 0.02, missing: 1.0, always: false },
    Fault { name: "one version behind", part: 0.5, missing: 1.0, always: true },
];

/// A run: what is scored after each step, and the engine's noise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) learning_rate: f64,
    pub(crate) tokens: u64,
    pub(crate) noise: f64,
    /// Steps between two looks at a suspicion that takes turns.
    pub(crate) turn: u64,
}

impl Setting {
    /// A run of which the proof scores `tokens` after each step. Longer sequences, not more of them, up to 64 tokens;
    /// more of them beyond.
    fn sequences(&self) -> (usize, usize) {
        let each = (self.tokens as usize / SEQUENCES).clamp(1, 64);
        (self.tokens as usize / each, each)
    }

    fn tolerated(&self) -> f64 {
        if self.noise < 1e-4 { 0.02 } else { 0.1 }
    }

    /// The step at which one simulated run finds the fault.
    fn found(&self, fault: &Fault, rng: &mut ChaCha12Rng) -> Option<u64> {
        let (count, each) = self.sequences();
        let turn = if fault.always { 1 } else { self.turn };
        let first_step = Foresight::first_step(self.learning_rate);
        let mut contrast = Contrast::default();
        let threshold = threshold(0);
        let mut sequence = vec![SuspectedToken { gap: 0.0, predicted: 0.0, weight: 0.0 }; each];
        (turn..=MOST_STEPS).step_by(turn as usize).find(|&step| {
            let movement = match fault.name {
                // One later step moves less than the first, and always as much.
                "one version behind" => fault.part * first_step,
                _ => fault.part * first_step * libm::pow(step as f64, 0.78),
            };
            contrast.begin_round();
            for _ in 0..count {
                for token in &mut sequence {
                    // Tokens with more movement have more noise, of which the weights know the greater part.
                    let draws: [f64; 4] = std::array::from_fn(|_| StandardNormal.sample(rng));
                    let known = libm::exp(0.8 * draws[0] - 0.64);
                    let unknown = libm::exp(0.3 * draws[1] - 0.09);
                    let size = known * unknown;
                    let predicted = movement * size * draws[2];
                    *token = SuspectedToken {
                        gap: fault.missing * predicted + self.noise * size * draws[3],
                        predicted,
                        weight: 1.0 / (self.noise * known * self.noise * known),
                    };
                }
                contrast.add(&sequence, self.tolerated());
            }
            contrast.stale() >= threshold
        })
    }

    /// The median and the 19th of 20 of the steps that it takes; `None` where it takes more than are simulated.
    pub(crate) fn steps(&self, fault: &Fault, runs: usize) -> [Option<u64>; 2] {
        let mut rng = random(u64::from(self.learning_rate.to_bits() as u32) ^ self.tokens);
        let mut found: Vec<u64> = (0..runs).map(|_| self.found(fault, &mut rng).unwrap_or(u64::MAX)).collect();
        found.sort_unstable();
        let quantile = |share: f64| found[((runs as f64 * share).ceil() as usize).clamp(1, runs) - 1];
        [0.5, 0.95].map(|share| Some(quantile(share)).filter(|steps| *steps <= MOST_STEPS))
    }
}
