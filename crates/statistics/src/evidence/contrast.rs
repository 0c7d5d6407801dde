//! Does an engine still have a part of other weights? A suspicion predicts a gap for every token; the evidence is
//! whether gaps follow it.

use super::{SignBets, self_normalized};

/// A part that is stale by at least this share is what "not stale" denies.
const HALF: f64 = 0.5;
/// Correlation of an engine's noise with a prediction that is no fault. Noise of a narrow type follows from weights and
/// tokens, and where both change little from step to step it keeps a direction: of bf16 up to 0.12 was seen
/// (docs/proofs.md).
pub(super) const CORRELATION: f64 = 0.15;
/// Squared prediction over noise, less what is tolerated, summed over tokens, after which 19 of 20 runs have decided.
const INFORMATION: f64 = 165.0;
/// A prediction above this many nats, root mean square, is far above what sums in f32 of the learner itself are off by.
const CLEAR: f64 = 5e-5;

/// A token as a suspicion sees it, in nats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SuspectedToken {
    /// The engine's log-probability minus the learner's.
    pub gap: f64,
    /// The gap that the suspicion predicts: the log-probability under the suspected weights minus that under the right
    /// ones.
    pub predicted: f64,
    /// One over the variance of the engine's noise, in nats⁻².
    pub weight: f64,
}

/// Evidence about one suspicion.
///
/// The noise of a sequence is assumed to be as likely as its negative; it need not be normal, small or independent from
/// token to token. A sequence counts by the sign of the sum of its products weight × predicted × (gap − share ×
/// predicted), and a little by its size.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contrast {
    stale: SignBets,
    fresh: SignBets,
    /// Sums over sequences of numerator and denominator of the slope, and of their products.
    sums: [f64; 2],
    products: [f64; 3],
    tokens: u64,
}

impl Contrast {
    /// Chance that an honest run is accused by contrasts of scored text, over all of its steps, suspicions and engines.
    pub const FALSE_ALARMS: f64 = 3e-4;

    /// A round begins: from here on a fault may have begun.
    pub fn begin_round(&mut self) {
        self.stale.begin_round();
        self.fresh.begin_round();
    }

    /// Adds a sequence. `tolerated` is the share of the predicted gap that is no fault.
    ///
    /// A prediction that is as small as rounding is no evidence. The learner's score of a token under the right weights
    /// is a part of the gap as well as of the prediction, and so is its rounding error: where nothing else is left of
    /// both, the one is half of the other.
    pub fn add(&mut self, sequence: &[SuspectedToken], tolerated: f64) {
        let known = |token: &&SuspectedToken| token.gap.is_finite() && token.predicted.is_finite();
        let tokens = || sequence.iter().filter(known);
        let products = |share: f64| {
            tokens().map(move |token| token.weight * token.predicted * (token.gap - share * token.predicted))
        };
        let size: f64 = tokens().map(|token| token.weight * token.predicted * token.predicted).sum();
        if size <= 0.0 || is_rounding(tokens(), tolerated) {
            return;
        }
        let by_correlation = CORRELATION * (tokens().count() as f64).sqrt();
        self.stale.add(self_normalized(products(tolerated)) - by_correlation);
        self.fresh.add(-self_normalized(products(HALF)) - by_correlation);
        let along: f64 = products(0.0).sum();
        self.sums[0] += along;
        self.sums[1] += size;
        self.products[0] += along * along;
        self.products[1] += along * size;
        self.products[2] += size * size;
        self.tokens += tokens().count() as u64;
    }

    /// Evidence that the part is stale by more than the tolerated share: an e-process.
    pub fn stale(&self) -> f64 {
        self.stale.evidence()
    }

    /// Evidence that it is stale by less than half: an e-process.
    pub fn fresh(&self) -> f64 {
        self.fresh.evidence()
    }

    /// The share of the predicted gap that is there, with its standard error from the differences between sequences: 0
    /// for right weights, 1 for a part that is stale. `None` before there is a prediction.
    pub fn share(&self) -> Option<(f64, f64)> {
        let [along, size] = self.sums;
        let share = (size > 0.0).then(|| along / size)?;
        let [square, cross, sizes] = self.products;
        let variance = (square - 2.0 * share * cross + share * share * sizes).max(0.0) / (size * size);
        Some((share, variance.sqrt()))
    }

    /// Number of tokens seen so far.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Squared predicted gap over noise, summed over the tokens: what evidence there can be at most is about half of
    /// it.
    pub fn information(&self) -> f64 {
        self.sums[1]
    }

    /// About how many more tokens of such predictions it takes until it is decided in 19 of 20 runs. `None` where the
    /// predictions are no more than the correlation of noise that is tolerated, so that no number of them would do.
    pub fn tokens_needed(&self) -> Option<f64> {
        let tokens = self.tokens.max(1) as f64;
        let clear = (self.information() / tokens).sqrt() - CORRELATION;
        (clear > 0.0).then(|| (INFORMATION / (clear * clear) - tokens).max(1.0)).filter(|needed| needed.is_finite())
    }

    /// The root mean square prediction, in nats, that this many tokens decide for an engine with that noise.
    pub fn decided_by(tokens: usize, noise: f64) -> f64 {
        noise * ((INFORMATION / tokens.max(1) as f64).sqrt() + CORRELATION)
    }
}

/// Whether rounding errors may be more than the tolerated share of the prediction. The learner's have at most the
/// variance of the engine's noise, of which `weight` is the inverse.
pub(super) fn is_rounding<'a>(tokens: impl Iterator<Item = &'a SuspectedToken>, tolerated: f64) -> bool {
    let mut squares = 0.0;
    let mut weights = 0.0;
    let mut count = 0.0;
    for token in tokens {
        squares += token.predicted * token.predicted;
        weights += token.weight;
        count += 1.0;
    }
    let noise = count / weights;
    squares / count < (noise / tolerated).min(CLEAR * CLEAR)
}

#[cfg(test)]
mod tests {
    use evenkeel_seeds::{Stream, Uniforms};
    use proptest::prelude::*;

    use super::*;

    /// Sequences with a movement of root mean square `movement` of which the engine lacks `missing`, with noise of
    /// width `noise`.
    fn sequences(seed: u64, count: u64, movement: f64, missing: f64, noise: f64) -> Vec<Vec<SuspectedToken>> {
        let mut uniforms = Uniforms::new(seed, Stream::SignFlips);
        let mut uniform = move |position: u64| 2.0 * uniforms.at(position) - 1.0;
        let mut position = 0;
        let mut next = || {
            position += 1;
            uniform(position)
        };
        (0..count)
            .map(|_| {
                (0..12)
                    .map(|_| {
                        let predicted = 1.7 * movement * next();
                        let gap = missing * predicted + 1.7 * noise * next();
                        SuspectedToken { gap, predicted, weight: 1.0 / (noise * noise) }
                    })
                    .collect()
            })
            .collect()
    }

    fn after(rounds: &[Vec<Vec<SuspectedToken>>], tolerated: f64) -> Contrast {
        let mut contrast = Contrast::default();
        for round in rounds {
            contrast.begin_round();
            round.iter().for_each(|sequence| contrast.add(sequence, tolerated));
        }
        contrast
    }

    proptest! {
        #[test]
        fn a_sequence_and_its_mirror_image_together_win_nothing(
            gaps in prop::collection::vec((-1.0_f64..1.0, -1.0_f64..1.0), 1..20), tolerated in 0.0_f64..0.3,
        ) {
            // Noise and its negative around the tolerated share: the least favourable engine without a fault.
            let evidence = |sign: f64| {
                let sequence: Vec<_> = gaps.iter().map(|&(noise, predicted)| {
                    SuspectedToken { gap: tolerated * predicted + sign * noise, predicted, weight: 1.0 }
                }).collect();
                after(&[vec![sequence]], tolerated).stale()
            };
            prop_assert!(evidence(1.0) + evidence(-1.0) <= 2.0 + 1e-9);
        }

        #[test]
        fn neither_scale_of_gaps_nor_that_of_weights_matters(seed in 0_u64..1000, scale in 1e-2_f64..1e4) {
            let plain = sequences(seed, 4, 0.01, 0.5, 0.01);
            let scaled: Vec<Vec<_>> = plain.iter().map(|sequence| sequence.iter().map(|token| SuspectedToken {
                gap: token.gap * scale, predicted: token.predicted * scale, weight: token.weight,
            }).collect()).collect();
            let plain = after(&[plain], 0.1);
            let scaled = after(&[scaled], 0.1);
            prop_assert!((plain.stale() / scaled.stale() - 1.0).abs() < 1e-6);
            prop_assert!((plain.share().unwrap().0 - scaled.share().unwrap().0).abs() < 1e-9);
        }
    }

    #[test]
    fn in_f32_a_fifth_of_a_step_at_1e_6_is_found_by_the_first_32_sequences() {
        // A first step at a learning rate of 1e-6 moves a token by 0.0022 nats; sums in f32 differ by 1.4e-6.
        let contrast = after(&[sequences(1, 32, 0.0022, 0.2, 1.4e-6)], 0.02);
        assert!(contrast.stale() > 1e6, "{}", contrast.stale());
        let (share, error) = contrast.share().unwrap();
        assert!((share - 0.2).abs() < 0.01 && error < 0.001, "{share} ± {error}");
        // The norms' part of that movement, a fiftieth, stale as a whole.
        assert!(after(&[sequences(2, 32, 4.4e-5, 1.0, 1.4e-6)], 0.02).stale() > 1e6);
    }

    #[test]
    fn right_weights_are_told_from_half_stale_ones_and_never_accused() {
        for seed in 0..50 {
            let contrast = after(&[sequences(seed, 32, 0.0022, 0.0, 1.4e-6)], 0.02);
            assert!(contrast.fresh() > 1e6 && contrast.stale() < 2.0);
        }
    }

    #[test]
    fn rounding_errors_of_the_learner_are_no_sign_of_old_weights() {
        // Weights that hardly moved: what is left of prediction and gap are sums in f32, those of the right weights in
        // both.
        let mut uniforms = Uniforms::new(5, Stream::SignFlips);
        let mut position = 0;
        let mut error = |size: f64| {
            position += 1;
            size * (2.0 * uniforms.at(position) - 1.0)
        };
        let noise = 1.4e-6;
        let movement = 3e-6;
        let mut contrast = Contrast::default();
        for _ in 0..200 {
            contrast.begin_round();
            for _ in 0..32 {
                let sequence: Vec<_> = (0..12)
                    .map(|_| {
                        let right = error(noise);
                        let engine = error(noise);
                        let old = error(noise);
                        let predicted = error(movement) + old - right;
                        SuspectedToken { gap: engine - right, predicted, weight: 1.5 / (noise * noise) }
                    })
                    .collect();
                contrast.add(&sequence, 0.02);
            }
            assert!(contrast.stale() < 100.0, "{}", contrast.stale());
        }
    }

    #[test]
    fn noise_with_a_trace_of_the_direction_of_a_tiny_movement_is_no_fault() {
        // The movement is a hundredth of the noise, of which twelve hundredths go its way: twelve times the movement.
        let mut contrast = Contrast::default();
        for step in 0..150 {
            contrast.begin_round();
            for mut sequence in sequences(step, 64, 5e-4, 0.0, 0.05) {
                sequence.iter_mut().for_each(|token| token.gap += 12.0 * token.predicted);
                contrast.add(&sequence, 0.1);
            }
            assert!(contrast.stale() < 1e4, "{step}: {}", contrast.stale());
        }
    }

    #[test]
    fn a_movement_below_the_noise_decides_nothing() {
        let contrast = after(&[sequences(3, 64, 1e-3, 0.0, 0.047)], 0.1);
        assert!(contrast.fresh() < 100.0 && contrast.stale() < 100.0);
        assert!(contrast.information() < 1.0 && contrast.tokens() == 64 * 12);
        assert_eq!(
            after(&[vec![vec![SuspectedToken { gap: 0.1, predicted: 0.0, weight: 1.0 }; 9]]], 0.1).share(),
            None
        );
    }

    #[test]
    fn in_bf16_nothing_loaded_is_found_within_steps_that_the_movement_needs() {
        // 64 sequences of 64 tokens a step, movement as it grows at 1e-6, noise of a bf16 engine.
        let mut contrast = Contrast::default();
        let found = (1..60_u64).find(|&step| {
            contrast.begin_round();
            let movement = 0.0022 * (step as f64).powf(0.78);
            for part in 0..5 {
                sequences(step * 7 + part, 64, movement, 1.0, 0.047).iter().for_each(|s| contrast.add(s, 0.1));
            }
            contrast.stale() > 6e4
        });
        assert!(found.is_some_and(|steps| steps <= 14), "{found:?}");
    }
}
