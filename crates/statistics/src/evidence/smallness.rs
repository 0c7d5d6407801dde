//! Are gaps too small for an engine that has a part of other weights?

use super::ShareBets;
use super::contrast::{SuspectedToken, is_rounding};

/// A gap counts as small up to this share of the squared prediction: a tenth of the prediction.
const SMALL: f64 = 0.01;
/// Tokens of equal weight that a sequence must be worth.
const LEAST_TOKENS: f64 = 11.0;
/// With a part that is stale by half or more, a token's gap is below half of its prediction only where its noise points
/// the other way, and a small gap of the sequence takes that of 96 % of the weight. For noise whose signs are
/// independent from token to token this has at most this chance (Hoeffding), with so many tokens.
const CHANCE: f64 = 0.01;

/// Evidence that a part is not stale by half or more, from the size of gaps: where noise is far below a prediction, three
/// sequences decide. It is of no use where noise is larger.
#[derive(Debug, Clone, PartialEq)]
pub struct SmallnessBets(ShareBets);

impl Default for SmallnessBets {
    fn default() -> Self {
        Self(ShareBets::new(CHANCE))
    }
}

impl SmallnessBets {
    /// Begins a round: every bet is also placed from here on.
    pub fn begin_round(&mut self) {
        self.0.begin_round();
    }

    /// Adds a sequence, of which a prediction that is as small as rounding is no evidence.
    pub fn add(&mut self, sequence: &[SuspectedToken], tolerated: f64) {
        let known = |token: &&SuspectedToken| token.gap.is_finite() && token.predicted.is_finite();
        let tokens = || sequence.iter().filter(known);
        let (mut gaps, mut predictions, mut squares) = (0.0, 0.0, 0.0);
        for token in tokens() {
            let prediction = token.weight * token.predicted * token.predicted;
            gaps += token.weight * token.gap * token.gap;
            predictions += prediction;
            squares += prediction * prediction;
        }
        let is_worth = predictions > 0.0 && predictions * predictions >= LEAST_TOKENS * squares;
        if is_worth && !is_rounding(tokens(), tolerated) {
            self.0.add(gaps <= SMALL * predictions);
        }
    }

    /// The evidence so far.
    pub fn evidence(&self) -> f64 {
        self.0.evidence()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_seeds::{Stream, Uniforms};

    use super::*;

    /// After so many sequences of which the engine lacks `missing`, with noise of that width.
    fn after(sequences: u64, tokens: u64, missing: f64, noise: f64) -> f64 {
        let mut uniforms = Uniforms::new(3, Stream::SignFlips);
        let mut position = 0;
        let mut next = || {
            position += 1;
            2.0 * uniforms.at(position) - 1.0
        };
        let mut bets = SmallnessBets::default();
        bets.begin_round();
        for _ in 0..sequences {
            let token = |_| {
                let predicted = 1e-3 * next();
                SuspectedToken { gap: missing * predicted + noise * next(), predicted, weight: 1e12 }
            };
            bets.add(&(0..tokens).map(token).collect::<Vec<_>>(), 0.02);
        }
        bets.evidence()
    }

    #[test]
    fn three_sequences_far_above_the_noise_decide() {
        assert!(after(3, 48, 0.0, 2e-6) > 2_000.0);
    }

    #[test]
    fn neither_a_stale_part_nor_noise_nor_a_few_tokens_are_small_gaps() {
        for (tokens, missing, noise) in [(48, 0.5, 2e-6), (48, 0.5, 5e-4), (48, 0.0, 1e-3), (8, 0.0, 2e-6)] {
            let evidence = after(2_000, tokens, missing, noise);
            assert!(evidence <= 1.0, "{tokens} {missing} {noise}: {evidence}");
        }
    }
}
