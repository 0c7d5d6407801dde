//! Are tokens drawn from a known distribution? Bets whose mean the distribution gives exactly.
//!
//! Let p be the distribution that tokens should come from, q the one that the engine reports. Each summand is weighted
//! by p/q of the token, so that its mean is 0 for every engine that samples from what it reports, whatever its noise
//! and age (proofs: the sum over q of p/q g is the sum over p of g). Weights are cut off, which costs exactness only
//! where p and q differ by more than that factor; a *tolerance* states how much of the probability may lie in such
//! tokens.

use super::Wealth;

/// Largest weight of a token in a bet on its surprise.
const MOST_WEIGHT: f64 = 2.0;
/// Largest weight of an event in a bet that it happens too seldom, and the share by which it may happen less often:
/// what the cut takes away while engine and learner are within about a fifth of each other.
const MOST_EVENT_WEIGHT: f64 = 1.1;
const SELDOM: f64 = 0.05;
/// What is staked on an event that happens too seldom, and too often.
const STAKES: [f64; 4] = [0.85, 0.2, -0.5, -0.1];
/// What is staked on a surprise, on each side: about as much as the temperature is off.
const SURPRISE_STAKES: [f64; 8] = [0.006, 0.02, 0.06, 0.15, -0.006, -0.02, -0.06, -0.15];
/// The most that a bounded surprise can be: clipped to 4, minus a mean of at most 4.
const MOST_SURPRISE: f64 = 8.0;

/// exp(learner - engine), the weight of a token by its two log-probabilities. 0 where the learner would never draw it.
pub fn importance_weight(learner: f64, engine: f64) -> f64 {
    if learner == f64::NEG_INFINITY { 0.0 } else { libm::exp((learner - engine).min(700.0)) }
}

/// About how many tokens show that log p is off by `relative` times its variance, five standard errors: 25 / (v d²).
/// `None` where nothing varies, so that no number of tokens would.
pub fn tokens_to_decision(variance: f64, relative: f64) -> Option<f64> {
    let tokens = 25.0 / (variance * relative * relative);
    (tokens.is_finite() && tokens > 0.0).then_some(tokens)
}

/// Bets that tokens are likelier, or less likely, than their distribution says: another temperature, greedy decoding.
#[derive(Debug, Clone, PartialEq)]
pub struct SurpriseBets {
    wealth: Wealth,
    tolerance: f64,
}

impl SurpriseBets {
    /// `tolerance`: share of the probability in tokens of which learner and engine may disagree by more than a factor
    /// of two.
    pub fn new(tolerance: f64) -> Self {
        Self { wealth: Wealth::new(SURPRISE_STAKES.len()), tolerance }
    }

    /// Begins a round: every bet is also placed from here on.
    pub fn begin_round(&mut self) {
        self.wealth.begin_round();
    }

    /// Adds a token: its weight, and its surprise log p + H, clipped to ±4 and less the mean of that under p.
    pub fn add(&mut self, weight: f64, surprise: f64) {
        let tolerance = self.tolerance;
        self.wealth.multiply(SURPRISE_STAKES.map(|stake| surprise_factor(stake, weight, surprise, tolerance)));
    }

    /// The evidence so far.
    pub fn evidence(&self) -> f64 {
        self.wealth.evidence()
    }

    /// Whether tokens are likelier than they should be, by what has won most.
    pub fn are_too_likely(&self) -> bool {
        SURPRISE_STAKES[self.wealth.best()] > 0.0
    }
}

/// Mean at most 1 over tokens drawn from q.
fn surprise_factor(stake: f64, weight: f64, surprise: f64, tolerance: f64) -> f64 {
    let surprise = surprise.clamp(-MOST_SURPRISE, MOST_SURPRISE);
    1.0 + stake * weight.min(MOST_WEIGHT) * surprise - stake.abs() * tolerance * MOST_SURPRISE
}

/// Bets that an event happens more seldom, or more often, than its probability says.
#[derive(Debug, Clone, PartialEq)]
pub struct EventBets {
    wealth: Wealth,
    /// Probability, counts and how many happened.
    expected: f64,
    seen: f64,
}

impl Default for EventBets {
    fn default() -> Self {
        Self { wealth: Wealth::new(STAKES.len()), expected: 0.0, seen: 0.0 }
    }
}

impl EventBets {
    /// Begins a round: every bet is also placed from here on.
    pub fn begin_round(&mut self) {
        self.wealth.begin_round();
    }

    /// Adds a token: its weight, whether the event happened, and the probability of that under p.
    pub fn add(&mut self, weight: f64, happened: bool, probability: f64) {
        let probability = probability.clamp(0.0, 1.0);
        self.expected += probability;
        self.seen += f64::from(u8::from(happened));
        self.wealth.multiply(STAKES.map(|stake| event_factor(stake, weight, happened, probability)));
    }

    /// The evidence so far.
    pub fn evidence(&self) -> f64 {
        self.wealth.evidence()
    }

    /// How often the event was expected, and how often it happened.
    pub fn counts(&self) -> (f64, f64) {
        (self.expected, self.seen)
    }
}

/// Mean at most 1 over tokens drawn from q. Stakes above 0 win where the event stays away, those below 0 where it
/// happens.
fn event_factor(stake: f64, weight: f64, happened: bool, probability: f64) -> f64 {
    let weight = if happened { weight } else { 0.0 };
    if stake > 0.0 {
        return 1.0 + stake * (probability * (1.0 - SELDOM) - weight.min(MOST_EVENT_WEIGHT));
    }
    // Cutting the weight here only makes the bet more careful.
    1.0 - stake * (weight.min(MOST_WEIGHT) - probability)
}

#[cfg(test)]
#[path = "betting_tests.rs"]
mod tests;
