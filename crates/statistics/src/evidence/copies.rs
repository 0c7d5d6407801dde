//! Are equal answers to a prompt as rare as their probability says?
//!
//! Answers are taken in order. Where one has so far the same tokens as earlier ones, let A be the next tokens of those:
//! the chance that its own next token is in A is the probability of A, known from the log-probabilities of the earlier
//! answers without another forward pass. Counting equal answers alone would accuse an honest engine: short and certain
//! answers repeat.

use std::collections::BTreeMap;

/// Chances that are supposed for a copy of a whole answer, and at each token.
const WHOLE: f64 = 0.001;
const PARTIAL: f64 = 0.02;
/// A probability that is nearer to 1 tells nothing.
const NEARLY_CERTAIN: f64 = 1.0 - 1e-9;
/// Largest exponent of a factor: far beyond every threshold.
const MOST: f64 = 600.0;

/// What one answer says about copies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CopyEvidence {
    /// Factor for the answer as a whole; for answers that are drawn independently, the mean is at most 1.
    pub whole: f64,
    /// Factor for the answer token by token; for answers that are drawn independently, the mean is at most 1.
    pub partial: f64,
    /// How many answers were expected to be equal to an earlier one: the probability of all distinct earlier ones.
    pub expected: f64,
    /// Whether the answer equals an earlier one.
    pub is_copy: bool,
}

/// The evidence of each answer to one prompt, drawn from one distribution. An answer is its tokens, each with the
/// logarithm of the probability with which it was drawn. An end token counts: an answer without one that begins another
/// is no copy of it.
pub fn copies(answers: &[Vec<(u32, f64)>]) -> Vec<CopyEvidence> {
    (0..answers.len()).map(|at| evidence(&answers[..at], &answers[at])).collect()
}

fn evidence(earlier: &[Vec<(u32, f64)>], answer: &[(u32, f64)]) -> CopyEvidence {
    let same = |a: &[(u32, f64)], b: &[(u32, f64)]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0);
    let log_p = |answer: &[(u32, f64)]| answer.iter().map(|(_, log_p)| log_p).sum::<f64>();
    let mut distinct: Vec<&Vec<(u32, f64)>> = Vec::new();
    for other in earlier {
        if !distinct.iter().any(|known| same(known, other)) {
            distinct.push(other);
        }
    }
    let expected = distinct.iter().map(|other| libm::exp(log_p(other))).sum::<f64>().min(1.0);
    // A copy may be of any of them, each with the same supposed chance.
    let copied = distinct.iter().find(|other| same(other, answer));
    let whole = match (distinct.len(), copied) {
        (0, _) => 1.0,
        (count, Some(other)) => 1.0 - WHOLE + WHOLE / count as f64 * libm::exp((-log_p(other)).min(MOST)),
        (_, None) => 1.0 - WHOLE,
    };
    CopyEvidence { whole, partial: partial(&distinct, answer), expected, is_copy: copied.is_some() }
}

/// The product over the tokens at which an earlier answer goes on from the same tokens.
fn partial(distinct: &[&Vec<(u32, f64)>], answer: &[(u32, f64)]) -> f64 {
    let mut together = distinct.to_vec();
    let mut log_factor = 0.0;
    for (at, (token, _)) in answer.iter().enumerate() {
        together.retain(|other| other.len() > at);
        if together.is_empty() {
            break;
        }
        let next: BTreeMap<u32, f64> = together.iter().map(|other| other[at]).collect();
        let chance = next.values().map(|log_p| libm::exp(*log_p)).sum::<f64>();
        if chance < NEARLY_CERTAIN && chance > 0.0 {
            log_factor += if next.contains_key(token) {
                libm::log((PARTIAL + (1.0 - PARTIAL) * chance) / chance)
            } else {
                libm::log1p(-PARTIAL)
            };
        }
        together.retain(|other| other[at].0 == *token);
    }
    libm::exp(log_factor.min(MOST))
}

#[cfg(test)]
mod tests {
    use evenkeel_seeds::{Stream, Uniforms};

    use super::*;

    /// All answers of at most two tokens out of three, where token 2 ends one, with their probabilities.
    fn all_answers() -> Vec<Vec<(u32, f64)>> {
        let first = [0.5_f64, 0.3, 0.2];
        let second = [[0.9_f64, 0.05, 0.05], [0.2, 0.2, 0.6]];
        let mut answers = vec![vec![(2, libm::log(first[2]))]];
        for (at, row) in second.iter().enumerate() {
            for (token, p) in row.iter().enumerate() {
                answers.push(vec![(at as u32, libm::log(first[at])), (token as u32, libm::log(*p))]);
            }
        }
        answers
    }

    fn probability(answer: &[(u32, f64)]) -> f64 {
        libm::exp(answer.iter().map(|(_, log_p)| log_p).sum::<f64>())
    }

    #[test]
    fn factors_have_a_mean_of_at_most_1_over_all_groups_of_three() {
        let all = all_answers();
        assert!((all.iter().map(|answer| probability(answer)).sum::<f64>() - 1.0).abs() < 1e-12);
        let mut whole = 0.0;
        let mut partial = 0.0;
        let mut expected = 0.0;
        let mut seen = 0.0;
        for first in &all {
            for second in &all {
                for third in &all {
                    let p = probability(first) * probability(second) * probability(third);
                    let group = copies(&[first.clone(), second.clone(), third.clone()]);
                    whole += p * group.iter().map(|found| found.whole).product::<f64>();
                    partial += p * group.iter().map(|found| found.partial).product::<f64>();
                    expected += p * group.iter().map(|found| found.expected).sum::<f64>();
                    seen += p * group.iter().map(|found| f64::from(u8::from(found.is_copy))).sum::<f64>();
                }
            }
        }
        assert!((whole - 1.0).abs() < 1e-9, "{whole}");
        assert!((partial - 1.0).abs() < 1e-9, "{partial}");
        assert!((expected - seen).abs() < 1e-9, "{expected} {seen}");
    }

    /// A long answer drawn from four tokens of equal probability.
    fn drawn(uniforms: &mut Uniforms, at: u64, length: u64) -> Vec<(u32, f64)> {
        (0..length).map(|token| ((uniforms.at(at * 1000 + token) * 4.0) as u32, libm::log(0.25))).collect()
    }

    #[test]
    fn one_seed_for_a_group_shows_in_its_second_answer() {
        let answer = drawn(&mut Uniforms::new(1, Stream::Bootstrap), 0, 24);
        let found = copies(&vec![answer; 3]);
        assert_eq!((found[0].whole, found[0].is_copy), (1.0, false));
        assert!(found[1].is_copy && found[1].whole > 1e10, "{:?}", found[1]);
    }

    #[test]
    fn answers_that_share_most_of_their_tokens_show_token_by_token() {
        let mut uniforms = Uniforms::new(2, Stream::Bootstrap);
        let first = drawn(&mut uniforms, 0, 200);
        let mut second = first.clone();
        second[180].0 = (second[180].0 + 1) % 4;
        let found = copies(&[first, second]);
        assert!(!found[1].is_copy && found[1].partial > 1e3, "{:?}", found[1]);
    }

    #[test]
    fn certain_answers_repeat_without_being_copies_of_seeds() {
        let certain = vec![(7, -1e-6), (8, -2e-6)];
        let found = copies(&vec![certain; 40]);
        let product: f64 = found.iter().map(|found| found.whole * found.partial).product();
        assert!(product < 1.1, "{product}");
        assert!(found.iter().all(|found| found.expected <= 1.0));
    }

    #[test]
    fn independent_answers_are_no_evidence() {
        let mut uniforms = Uniforms::new(3, Stream::Bootstrap);
        let most = (0..200).map(|group| {
            let answers: Vec<_> = (0..8).map(|answer| drawn(&mut uniforms, group * 8 + answer, 12)).collect();
            copies(&answers).iter().map(|found| found.partial).product::<f64>()
        });
        let above = most.filter(|product| *product >= 10.0).count();
        assert!(above <= 20, "{above} of 200, allowed a tenth");
    }
}
