//! Are some answers to a prompt preferred to others, by their length or their probability? An engine that draws twice
//! and returns the shorter answer, or draws its longest answers again, has tokens of which each could have been drawn.
//!
//! Answers are taken in order. Where one has so far the same tokens as earlier ones that go on differently, those that
//! ended sooner than their mean have gone on with some tokens: the chance that the answer goes on with one of these is
//! their probability, known from the log-probabilities of the earlier answers without another forward pass. Likewise
//! for those that ended likelier than their mean.

use std::collections::BTreeMap;

use super::redrawn::redrawn;

/// What is staked on each side.
const STAKES: [f64; 2] = [0.3, 0.9];
/// Number of bets: each stake on shorter, longer, likelier and less likely answers, and that the longest are drawn again.
pub const PREFERENCE_BETS: usize = 4 * STAKES.len() + 1;
/// Place of the last of these, that the longest are drawn again.
pub const REDRAWN_BET: usize = PREFERENCE_BETS - 1;
/// A probability that is nearer to 0 or 1 tells nothing.
const NEARLY: f64 = 1e-9;

/// What one answer says about preferences.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preference {
    /// Factor of each bet; for answers that are drawn independently from one distribution, the mean is 1.
    pub factors: [f64; PREFERENCE_BETS],
    /// How many of the bets' tokens with shorter answers were expected, and how many came.
    pub shorter: (f64, f64),
    /// How many tokens with likelier answers were expected, and how many came.
    pub likelier: (f64, f64),
    /// How many tokens with the longest answers were expected, and how many came: the bet that these are drawn again.
    pub longest: (f64, f64),
}

impl Default for Preference {
    fn default() -> Self {
        Self { factors: [1.0; PREFERENCE_BETS], shorter: (0.0, 0.0), likelier: (0.0, 0.0), longest: (0.0, 0.0) }
    }
}

/// The evidence of each answer to one prompt. An answer is its tokens, each with the logarithm of the probability with
/// which it was drawn. None may be missing: those that were left out might have been the long ones.
pub fn preferences(answers: &[Vec<(u32, f64)>]) -> Vec<Preference> {
    (0..answers.len()).map(|at| preference(&answers[..at], &answers[at])).collect()
}

fn preference(earlier: &[Vec<(u32, f64)>], answer: &[(u32, f64)]) -> Preference {
    let mut together: Vec<&Vec<(u32, f64)>> = earlier.iter().collect();
    let mut found = Preference::default();
    let again = redrawn(earlier, answer);
    found.factors[REDRAWN_BET] = again.factor;
    found.longest = again.longest;
    for (at, (token, _)) in answer.iter().enumerate() {
        together.retain(|other| other.len() > at);
        if together.len() < 2 {
            break;
        }
        let shorter = chosen(&together, at, |other| -(other.len() as f64));
        let likelier = chosen(&together, at, |other| other[at..].iter().map(|(_, log_p)| log_p).sum());
        let (short, others) = found.factors.split_at_mut(2 * STAKES.len());
        bet(short, &mut found.shorter, &shorter, *token);
        bet(&mut others[..2 * STAKES.len()], &mut found.likelier, &likelier, *token);
        together.retain(|other| other[at].0 == *token);
    }
    found
}

/// The next tokens, with their probabilities, after which answers were worth more on average than all of these.
fn chosen(answers: &[&Vec<(u32, f64)>], at: usize, worth: impl Fn(&[(u32, f64)]) -> f64) -> BTreeMap<u32, f64> {
    let mut by_token: BTreeMap<u32, (f64, f64, f64)> = BTreeMap::new();
    let mut all = 0.0;
    for answer in answers {
        let worth = worth(answer);
        let (token, log_p) = answer[at];
        let (sum, count, _) = by_token.entry(token).or_insert((0.0, 0.0, log_p));
        *sum += worth;
        *count += 1.0;
        all += worth;
    }
    let mean = all / answers.len() as f64;
    let above = by_token.into_iter().filter(|(_, (sum, count, _))| sum / count > mean + NEARLY);
    above.map(|(token, (_, _, log_p))| (token, libm::exp(log_p))).collect()
}

/// Multiplies each bet that the token is one of these, and each that it is none.
fn bet(factors: &mut [f64], counts: &mut (f64, f64), chosen: &BTreeMap<u32, f64>, token: u32) {
    let chance: f64 = chosen.values().sum();
    if !(NEARLY..=1.0 - NEARLY).contains(&chance) {
        return;
    }
    let came = f64::from(u8::from(chosen.contains_key(&token)));
    counts.0 += chance;
    counts.1 += came;
    for (pair, stake) in factors.chunks_exact_mut(2).zip(STAKES) {
        pair[0] *= 1.0 + stake * (came - chance);
        pair[1] *= 1.0 - stake * (came - chance);
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_seeds::{Stream, Uniforms};

    use super::super::Wealth;
    use super::*;

    /// All answers of at most two tokens out of three, where token 2 ends one, with their probabilities.
    fn all_answers() -> Vec<Vec<(u32, f64)>> {
        let second = [[0.9_f64, 0.05, 0.05], [0.2, 0.2, 0.6]];
        let mut answers = vec![vec![(2, libm::log(0.2))]];
        for (at, (first, row)) in [0.5_f64, 0.3].into_iter().zip(second).enumerate() {
            let second = row.into_iter().zip(0..);
            answers.extend(second.map(|(p, token)| vec![(at as u32, libm::log(first)), (token, libm::log(p))]));
        }
        answers
    }

    fn log_p(answer: &[(u32, f64)]) -> f64 {
        answer.iter().map(|(_, log_p)| log_p).sum()
    }

    #[test]
    fn factors_have_a_mean_of_1_after_any_two_answers() {
        let all = all_answers();
        for one in &all {
            for other in &all {
                let mut mean = [0.0; PREFERENCE_BETS];
                for next in &all {
                    let found = preferences(&[one.clone(), other.clone(), next.clone()])[2];
                    for (mean, factor) in mean.iter_mut().zip(found.factors) {
                        *mean += libm::exp(log_p(next)) * factor;
                    }
                }
                assert!(mean.iter().all(|mean| (mean - 1.0).abs() < 1e-12), "{mean:?} after {one:?} and {other:?}");
            }
        }
    }

    /// The evidence after that many groups of eight answers, each made by this.
    fn after(groups: usize, make: impl Fn(&mut dyn FnMut() -> Vec<(u32, f64)>) -> Vec<(u32, f64)>) -> f64 {
        let all = all_answers();
        let mut uniforms = Uniforms::new(7, Stream::SignFlips);
        let mut at = 0;
        let mut draw = || {
            at += 1;
            let mut left = uniforms.at(at);
            let found = all.iter().find(|answer| {
                left -= libm::exp(log_p(answer));
                left < 0.0
            });
            found.unwrap_or(&all[0]).clone()
        };
        let mut wealth = Wealth::new(PREFERENCE_BETS);
        for _ in 0..groups {
            wealth.begin_round();
            let answers: Vec<_> = (0..8).map(|_| make(&mut draw)).collect();
            preferences(&answers).into_iter().for_each(|found| wealth.multiply(found.factors));
        }
        wealth.evidence()
    }

    #[test]
    fn the_shorter_and_the_likelier_of_two_draws_are_preferred_and_one_draw_is_not() {
        let better = |worth: fn(&[(u32, f64)]) -> f64| {
            move |draw: &mut dyn FnMut() -> Vec<(u32, f64)>| {
                let (one, other) = (draw(), draw());
                if worth(&one) >= worth(&other) { one } else { other }
            }
        };
        assert!(after(150, better(|answer| -(answer.len() as f64))) > 1e6);
        // The short ones, which are the other way to go on, are rarely seen then.
        assert!(after(500, better(|answer| answer.len() as f64)) > 1e6);
        assert!(after(150, better(log_p)) > 1e6);
        assert!(after(300, |draw| draw()) < 10.0);
    }

    #[test]
    fn answers_that_all_go_on_alike_say_nothing() {
        let answer = vec![(1, -0.1), (2, -0.2)];
        for found in preferences(&vec![answer; 5]) {
            assert!(found.factors.iter().all(|factor| (factor - 1.0).abs() < 1e-12), "{found:?}");
            assert_eq!((found.shorter, found.likelier), Default::default());
        }
    }
}
