//! Honest runs: engines with the right weights, some of which join late, over steps in which the movement grows past
//! their noise.
//!
//! A contrast sees of a sequence one number, the sum of its products in units of their root sum of squares, and of the
//! engine's share of the budget. So sequences are drawn once, token by token, for each shape of noise and size of
//! movement, and runs draw from their numbers: 100,000 runs of 500 steps are 6e9 of them.

use evenkeel_seeds::RngCore;
use evenkeel_statistics::evidence::{SignBets, SuspectedToken, self_normalized};

use super::noise::SHAPES;
use super::{SEQUENCES, SUSPICIONS, TOKENS, looked_at, random, threshold, uniform};

/// Sizes of movement over noise: 2^-6 to 2^6.
const SIZES: i32 = 13;
/// Sequences that are drawn for each shape and size.
const POOL: usize = 1 << 14;
/// Most engines of a run.
const ENGINES: usize = 3;
/// Thresholds at which single evidence is counted.
pub(crate) const LEVELS: [f64; 4] = [10.0, 100.0, 1000.0, 10_000.0];

/// What sequences of honest engines come to, by shape and size.
pub(crate) struct Pools {
    honest: Vec<Vec<f32>>,
}

/// What runs came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alarms {
    pub(crate) runs: u64,
    pub(crate) proofs: u64,
    /// Runs that were accused.
    pub(crate) accused: u64,
    /// Runs in which the evidence of the first suspicion about the first engine ever reached each level.
    pub(crate) reached: [u64; LEVELS.len()],
    /// The highest share of its threshold that any evidence reached.
    pub(crate) highest: f64,
}

impl Pools {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = random(seed);
        let mut tokens = [SuspectedToken { gap: 0.0, predicted: 0.0, weight: 1.0 }; TOKENS];
        let mut honest = Vec::new();
        for shape in &SHAPES {
            for size in 0..SIZES {
                let movement = libm::exp2(f64::from(size - SIZES / 2));
                // Each with its mirror image, so that the pool has no direction that the noise does not have.
                let numbers = (0..POOL / 2).flat_map(|_| {
                    shape.sequence(movement, &mut rng, &mut tokens);
                    let number_of = |tokens: &[SuspectedToken]| number(tokens, shape.tolerated) as f32;
                    let one = number_of(&tokens);
                    for token in &mut tokens {
                        token.gap = 2.0 * shape.seems_to_lack * token.predicted - token.gap;
                    }
                    [one, number_of(&tokens)]
                });
                honest.push(numbers.collect());
            }
        }
        Self { honest }
    }

    fn of(&self, shape: usize, size: f64) -> &[f32] {
        let size = (size.round() as i32 + SIZES / 2).clamp(0, SIZES - 1);
        &self.honest[shape * SIZES as usize + size as usize]
    }

    /// Runs of that many steps with the given seeds, each with one shape of noise for all of its engines.
    pub(crate) fn run(&self, seeds: std::ops::Range<u64>, steps: usize) -> [Alarms; SHAPES.len()] {
        let mut found = <[Alarms; SHAPES.len()]>::default();
        for seed in seeds {
            let shape = (seed % SHAPES.len() as u64) as usize;
            self.one(seed, steps, shape, &mut found[shape]);
        }
        found
    }

    fn one(&self, seed: u64, steps: usize, shape: usize, found: &mut Alarms) {
        let mut rng = random(seed ^ 1 << 63);
        let mut quick = Quick(rng.next_u64() | 1);
        // A third of the runs each has one, two and three engines; the last of several joins in the middle.
        let engines = 1 + (uniform(&mut rng) * ENGINES as f64) as usize;
        let joins = if engines > 1 { (uniform(&mut rng) * steps as f64) as usize } else { 0 };
        // The movement of the first step over the noise, and by how much noise grows until the end.
        let first = libm::exp2(12.0 * uniform(&mut rng) - 10.0);
        let growth = if uniform(&mut rng) < 0.5 { 0.0 } else { 9.0 };
        let mut bets: Vec<SignBets> = (0..engines * SUSPICIONS).map(|_| SignBets::default()).collect();
        let mut highest = 0.0_f64;
        let mut highest_of_first = 0.0_f64;
        for step in 0..steps {
            let noise = 1.0 + growth * step as f64 / steps as f64;
            let movement = libm::log2(first * libm::pow(step as f64 + 1.0, 0.78) / noise);
            for engine in (0..engines).filter(|engine| engine + 1 < engines || step >= joins) {
                for suspicion in looked_at(step) {
                    // A part of the model has a tenth of its movement or so.
                    let movement = if suspicion == 0 { movement } else { movement - 3.0 };
                    let pool = self.of(shape, movement);
                    let bets = &mut bets[engine * SUSPICIONS + suspicion];
                    bets.begin_round();
                    for _ in 0..SEQUENCES {
                        bets.add(f64::from(pool[quick.next() as usize % POOL]));
                    }
                    let evidence = bets.evidence();
                    highest = highest.max(evidence / threshold(engine));
                    if engine == 0 && suspicion == 0 {
                        highest_of_first = highest_of_first.max(evidence);
                    }
                }
                found.proofs += 1;
            }
        }
        found.runs += 1;
        found.accused += u64::from(highest >= 1.0);
        found.highest = found.highest.max(highest);
        for (count, level) in found.reached.iter_mut().zip(LEVELS) {
            *count += u64::from(highest_of_first >= level);
        }
    }
}

/// What a contrast sees of a sequence.
pub(crate) fn number(tokens: &[SuspectedToken], tolerated: f64) -> f64 {
    self_normalized(
        tokens.iter().map(|token| token.weight * token.predicted * (token.gap - tolerated * token.predicted)),
    )
}

impl Alarms {
    /// Adds those of other runs.
    pub(crate) fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.proofs += other.proofs;
        self.accused += other.accused;
        self.highest = self.highest.max(other.highest);
        self.reached.iter_mut().zip(other.reached).for_each(|(count, other)| *count += other);
    }
}

/// xorshift64*: a number for each sequence, where the generator of seeds would be most of the time.
struct Quick(u64);

impl Quick {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }
}
