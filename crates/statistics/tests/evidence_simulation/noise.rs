//! Shapes of noise of engines with the right weights.

use evenkeel_seeds::ChaCha12Rng;
use evenkeel_statistics::evidence::SuspectedToken;
use rand_distr::{Distribution, StandardNormal, StudentT};

use super::uniform;

/// A shape: its name, the share of a change that the engine seems to lack, and the share that is tolerated of it.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) seems_to_lack: f64,
    pub(crate) tolerated: f64,
    /// Noise of the tokens of a sequence, of a size of about 1.
    draw: fn(&mut ChaCha12Rng, &mut [f64]),
}

/// What the simulations draw from.
pub(crate) static SHAPES: [Shape; 6] = [
    Shape { name: "normal", seems_to_lack: 0.0, tolerated: 0.02, draw: normal },
    Shape { name: "heavy-tailed (Student's t, 2 degrees)", seems_to_lack: 0.0, tolerated: 0.1, draw: heavy },
    Shape { name: "one error for a whole sequence", seems_to_lack: 0.0, tolerated: 0.1, draw: common },
    Shape { name: "mostly none, rarely large", seems_to_lack: 0.0, tolerated: 0.02, draw: rare },
    Shape { name: "heavy-tailed, seems to lack 3 % of 10 %", seems_to_lack: 0.03, tolerated: 0.1, draw: heavy },
    Shape { name: "normal, lacks all that is tolerated", seems_to_lack: 0.1, tolerated: 0.1, draw: normal },
];

fn normal(rng: &mut ChaCha12Rng, noise: &mut [f64]) {
    noise.fill_with(|| StandardNormal.sample(rng));
}

fn heavy(rng: &mut ChaCha12Rng, noise: &mut [f64]) {
    let shape = StudentT::new(2.0).unwrap();
    noise.fill_with(|| shape.sample(rng));
}

fn common(rng: &mut ChaCha12Rng, noise: &mut [f64]) {
    let shared: f64 = StandardNormal.sample(rng);
    noise.fill_with(|| {
        let own: f64 = StandardNormal.sample(rng);
        shared + 0.3 * own
    });
}

fn rare(rng: &mut ChaCha12Rng, noise: &mut [f64]) {
    noise.fill_with(|| if uniform(rng) < 0.03 { 5.0 * Distribution::<f64>::sample(&StandardNormal, rng) } else { 0.0 });
}

impl Shape {
    /// A sequence of an engine with the right weights, with a movement of that size in units of the noise. Tokens with
    /// more movement have more noise, which the weights do not know; half of the movement is the same for the whole
    /// sequence.
    pub(crate) fn sequence(&self, movement: f64, rng: &mut ChaCha12Rng, sequence: &mut [SuspectedToken]) {
        let mut noise = vec![0.0; sequence.len()];
        (self.draw)(rng, &mut noise);
        let shared: f64 = StandardNormal.sample(rng);
        for (token, noise) in sequence.iter_mut().zip(noise) {
            let own: f64 = StandardNormal.sample(rng);
            let size: f64 = StandardNormal.sample(rng);
            let size = libm::exp(0.6 * size);
            let predicted = movement * size * (shared + own) / 2.0_f64.sqrt();
            *token = SuspectedToken { gap: size * noise + self.seems_to_lack * predicted, predicted, weight: 1.0 };
        }
    }
}
