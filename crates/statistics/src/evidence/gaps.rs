//! The gap between two log-probabilities of the same tokens, engine minus learner: is it noise around zero, and is it
//! small?

use super::Wealth;

/// What is staked on the direction of a sum.
const SIGN_STAKES: [f64; 3] = [0.1, 0.3, 0.9];
/// A sum of this many standard deviations counts as much as any larger one.
const CLEAR: f64 = 2.0;
/// Shares that are supposed instead of the tolerated one.
const SUPPOSED: [f64; 3] = [0.05, 0.2, 0.8];

/// The sum of `terms` over the root of the sum of their squares: about standard normal for independent terms without a
/// direction, and symmetric around 0 for all noise that is. 0 without terms.
pub fn self_normalized(terms: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, squares) = terms.into_iter().fold((0.0, 0.0), |(sum, squares), term| (sum + term, squares + term * term));
    if squares > 0.0 { sum / squares.sqrt() } else { 0.0 }
}

/// Bets that sums are above 0 which should be as often below, at each size (or lower still).
#[derive(Debug, Clone, PartialEq)]
pub struct SignBets(Wealth);

impl Default for SignBets {
    fn default() -> Self {
        Self(Wealth::new(SIGN_STAKES.len()))
    }
}

impl SignBets {
    /// Begins a round: every bet is also placed from here on.
    pub fn begin_round(&mut self) {
        self.0.begin_round();
    }

    /// Adds a sum, in standard deviations. What is no number is no evidence.
    pub fn add(&mut self, sum: f64) {
        let direction = (sum / CLEAR).clamp(-1.0, 1.0);
        self.0.multiply(SIGN_STAKES.map(|stake| 1.0 + stake * direction));
    }

    /// The evidence so far.
    pub fn evidence(&self) -> f64 {
        self.0.evidence()
    }
}

/// Bets that an event happens in more than the tolerated share of cases.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareBets {
    wealth: Wealth,
    tolerated: f64,
}

impl ShareBets {
    /// `tolerated`: above 0 and below all of the supposed shares, of which the smallest is 0.05.
    pub fn new(tolerated: f64) -> Self {
        Self { wealth: Wealth::new(SUPPOSED.len()), tolerated: bounded(tolerated) }
    }

    /// Tolerates another share from here on, which nothing that follows has decided.
    pub fn tolerate(&mut self, tolerated: f64) {
        self.tolerated = bounded(tolerated);
    }

    /// Begins a round: every bet is also placed from here on.
    pub fn begin_round(&mut self) {
        self.wealth.begin_round();
    }

    /// Adds a case, in which the event happened or did not.
    pub fn add(&mut self, happened: bool) {
        let tolerated = self.tolerated;
        self.wealth.multiply(
            SUPPOSED.map(|supposed| if happened { supposed / tolerated } else { (1.0 - supposed) / (1.0 - tolerated) }),
        );
    }

    /// The evidence so far.
    pub fn evidence(&self) -> f64 {
        self.wealth.evidence()
    }
}

fn bounded(tolerated: f64) -> f64 {
    tolerated.clamp(1e-6, 0.04)
}

#[cfg(test)]
mod tests {
    use evenkeel_seeds::{Stream, Uniforms};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn noise_and_its_negative_together_win_nothing(sum in -9.0_f64..9.0) {
            let after = |sum: f64| {
                let mut bets = SignBets::default();
                bets.begin_round();
                bets.add(sum);
                bets.evidence()
            };
            prop_assert!((after(sum) + after(-sum) - 2.0).abs() < 1e-12);
        }

        #[test]
        fn a_share_up_to_the_tolerated_one_wins_nothing(tolerated in 0.001_f64..0.04, part in 0.0_f64..=1.0) {
            let after = |happened: bool| {
                let mut bets = ShareBets::new(tolerated);
                bets.begin_round();
                bets.add(happened);
                bets.evidence()
            };
            let share = part * tolerated;
            prop_assert!(share * after(true) + (1.0 - share) * after(false) <= 1.0 + 1e-12);
        }

        #[test]
        fn a_normalised_sum_does_not_depend_on_scale(
            terms in prop::collection::vec(-5.0_f64..5.0, 1..20),
            scale in 1e-6_f64..1e6,
        ) {
            let scaled = self_normalized(terms.iter().map(|term| term * scale));
            prop_assert!((self_normalized(terms) - scaled).abs() < 1e-9);
        }
    }

    #[test]
    fn a_slope_far_above_noise_takes_twenty_sequences() {
        let mut bets = SignBets::default();
        let found = (1..100).find(|_| {
            bets.begin_round();
            bets.add(8.0);
            bets.evidence() > 2.5e4
        });
        assert!(found.is_some_and(|sequences| sequences <= 20), "{found:?}");
    }

    #[test]
    fn large_gaps_of_every_sequence_take_four() {
        let mut bets = ShareBets::new(0.01);
        bets.begin_round();
        let found = (1..100).find(|_| {
            bets.add(true);
            bets.evidence() > 2.5e4
        });
        assert!(found.is_some_and(|sequences| sequences <= 4), "{found:?}");
    }

    #[test]
    fn heavy_tailed_symmetric_noise_is_no_evidence() {
        let above = (0..500_u64).filter(|&seed| {
            let mut bets = SignBets::default();
            let mut uniforms = Uniforms::new(seed, Stream::SignFlips);
            (0..500).any(|position| {
                bets.begin_round();
                // A Cauchy number: no mean, and symmetric.
                bets.add(libm::tan(std::f64::consts::PI * (uniforms.at(position) - 0.5)));
                bets.evidence() >= 50.0
            })
        });
        let above = above.count();
        assert!(above <= 10, "{above} of 500, allowed 2 %");
    }
}
