//! Accuracies of an evaluation that samples every problem several times.
//!
//! With k samples for a problem, of which c are right:
//!
//! | | of one problem | |
//! |---|---|---|
//! | mean@k | c / k | the expected accuracy of one sample |
//! | best@k | 1 where c > 0 | any of the k samples is right: pass@k without bias, where n = k |
//! | pass@n | 1 - C(k - c, n) / C(k, n) | any of n right: the unbiased estimate of Chen et al. (2021, arXiv 2107.03374, equation 1) |
//! | bootstrap best@n | 1 - (1 - c / k)^n | n samples drawn from the k with replacement, as verl draws them a thousand times; its exact expectation. Lower than pass@n, because it may draw a wrong sample twice |
//! | maj@k | the score of the most frequent answer | ties count as their mean |

use std::collections::BTreeMap;

use crate::Estimate;

/// One sample of a problem that has a verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// Score of the sample, 0 to 1: the raw correctness.
    pub score: f64,
    /// Final answer in a canonical form, by which votes are counted; `None` where there is none, or none that can be
    /// compared.
    pub answer: Option<String>,
}

/// Accuracies over the problems of a benchmark. Every problem counts the same, however many of its samples have a
/// verdict; one without any does not count.
#[derive(Debug, Clone, PartialEq)]
pub struct Accuracies {
    /// Accuracy of single samples, mean@k.
    pub mean: Estimate,
    /// The part of its standard error that is due to sampling alone: by how much another evaluation of the same weights
    /// on the same problems differs. `None` where a problem has a single attempt.
    pub sampling_error: Option<f64>,
    /// best@k: the best of a problem's samples. A problem with fewer verdicts than others has fewer chances.
    pub best: Estimate,
    /// best@k by drawing with replacement, as verl reports it: the expected best of k draws.
    pub bootstrap_best: Estimate,
    /// maj@k; `None` where no sample has an answer to compare.
    pub majority: Option<Majority>,
}

/// maj@k and how often it was undecided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Majority {
    /// The score of the most frequent answer; where several are, the mean of theirs.
    pub accuracy: Estimate,
    /// Share of problems in which several answers were the most frequent.
    pub ties: f64,
}

impl Accuracies {
    /// Accuracies from the attempts at each problem. `None` where no problem has an attempt.
    pub fn of(problems: &[Vec<Attempt>]) -> Option<Self> {
        let attempted = || problems.iter().filter(|attempts| !attempts.is_empty());
        let scores = |attempts: &[Attempt]| attempts.iter().map(|attempt| attempt.score).collect::<Vec<_>>();
        let over = |of: fn(&[f64]) -> f64| Estimate::of_mean(attempted().map(|attempts| of(&scores(attempts))));
        let votes: Vec<_> = attempted().map(|attempts| vote(attempts)).collect();
        let has_answers = attempted().flatten().any(|attempt| attempt.answer.is_some());
        let majority = has_answers.then(|| {
            let accuracy = Estimate::of_mean(votes.iter().map(|vote| vote.score))?;
            let ties = votes.iter().filter(|vote| vote.is_tied).count() as f64 / votes.len() as f64;
            Some(Majority { accuracy, ties })
        });
        Some(Self {
            mean: over(mean)?,
            sampling_error: sampling_error(attempted().map(|attempts| scores(attempts))),
            best: over(best)?,
            bootstrap_best: over(bootstrap_best)?,
            majority: majority.flatten(),
        })
    }
}

/// pass@n over the problems, by the unbiased estimate. Problems with fewer than `n` attempts do not count; `None` where
/// no problem has as many, or `n` is 0. An attempt is right where its score is 1.
pub fn pass_at(n: usize, problems: &[Vec<Attempt>]) -> Option<Estimate> {
    let enough = problems.iter().filter(|attempts| n > 0 && attempts.len() >= n);
    Estimate::of_mean(enough.map(|attempts| {
        let right = attempts.iter().filter(|attempt| attempt.score >= 1.0).count();
        pass_of(n, attempts.len(), right)
    }))
}

/// `1 - C(k - c, n) / C(k, n)`, as a product that neither overflows nor cancels.
fn pass_of(n: usize, k: usize, right: usize) -> f64 {
    if k - right < n {
        return 1.0;
    }
    1.0 - (k - right + 1..=k).map(|i| 1.0 - n as f64 / i as f64).product::<f64>()
}

fn mean(scores: &[f64]) -> f64 {
    scores.iter().sum::<f64>() / scores.len() as f64
}

/// The root of the variances of the problems' means, added up, over the number of problems.
fn sampling_error(problems: impl Iterator<Item = Vec<f64>>) -> Option<f64> {
    let errors = problems.map(|scores| Estimate::of_mean(scores)?.standard_error).collect::<Option<Vec<_>>>()?;
    Some(errors.iter().map(|error| error * error).sum::<f64>().sqrt() / errors.len() as f64)
}

fn best(scores: &[f64]) -> f64 {
    scores.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// The expected maximum of as many draws with replacement as there are scores: of `k` sorted scores the i-th is the
/// maximum with probability `(i / k)^k - ((i - 1) / k)^k`.
fn bootstrap_best(scores: &[f64]) -> f64 {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    let k = sorted.len() as f64;
    let below = |i: usize| libm::pow(i as f64 / k, k);
    (1..).zip(&sorted).map(|(i, score)| score * (below(i) - below(i - 1))).sum()
}

struct Vote {
    score: f64,
    is_tied: bool,
}

/// The most frequent answer. Attempts without an answer do not vote; where none has one, the score is 0.
fn vote(attempts: &[Attempt]) -> Vote {
    let mut answers: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for attempt in attempts {
        if let Some(answer) = &attempt.answer {
            answers.entry(answer).or_default().push(attempt.score);
        }
    }
    let most = answers.values().map(Vec::len).max().unwrap_or(0);
    let winners: Vec<f64> = answers.values().filter(|scores| scores.len() == most).map(|scores| mean(scores)).collect();
    let score = if winners.is_empty() { 0.0 } else { mean(&winners) };
    Vote { score, is_tied: winners.len() > 1 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attempts(scores: &[f64]) -> Vec<Attempt> {
        scores.iter().map(|score| Attempt { score: *score, answer: None }).collect()
    }

    fn voting(votes: &[(&str, f64)]) -> Vec<Attempt> {
        let answer = |answer: &str| (!answer.is_empty()).then(|| answer.to_owned());
        votes.iter().map(|(text, score)| Attempt { score: *score, answer: answer(text) }).collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn every_problem_counts_the_same() {
        let problems = [attempts(&[1.0, 0.0, 0.0, 0.0]), attempts(&[1.0]), vec![]];
        let accuracies = Accuracies::of(&problems).unwrap();
        assert!(close(accuracies.mean.value, (0.25 + 1.0) / 2.0));
        assert!(close(accuracies.best.value, 1.0));
        assert_eq!(accuracies.mean.units, 2);
        assert_eq!((Accuracies::of(&[]), Accuracies::of(&[vec![]])), (None, None));
    }

    #[test]
    fn the_sampling_error_leaves_out_how_much_problems_differ() {
        let sampling_error = |problems: &[Vec<Attempt>]| Accuracies::of(problems).unwrap().sampling_error;
        let decided = [attempts(&[1.0, 1.0]), attempts(&[0.0, 0.0])];
        assert_eq!(sampling_error(&decided), Some(0.0));
        // Variance 1/3 of a score, over 4 scores and 2 problems.
        let open = vec![attempts(&[1.0, 0.0, 1.0, 0.0]); 2];
        assert!(close(sampling_error(&open).unwrap(), (1.0_f64 / 3.0 / 4.0 / 2.0).sqrt()));
        assert_eq!(sampling_error(&[attempts(&[1.0, 0.0]), attempts(&[1.0])]), None);
    }

    /// verl#7240: one of four right gives 0.684, where an unbiased best@4 is 1.
    #[test]
    fn drawing_with_replacement_is_lower_than_the_best() {
        let accuracies = Accuracies::of(&[attempts(&[0.0, 0.0, 1.0, 0.0])]).unwrap();
        assert!(close(accuracies.bootstrap_best.value, 1.0 - 0.75_f64.powi(4)));
        assert!((accuracies.bootstrap_best.value - 0.684).abs() < 1e-3);
        assert!(close(accuracies.best.value, 1.0));
    }

    #[test]
    fn a_majority_wins_whether_it_is_right_or_not() {
        let problems =
            [voting(&[("3", 0.0), ("2", 1.0), ("3", 0.0), ("", 0.0)]), voting(&[("7", 1.0), ("7", 1.0), ("8", 0.0)])];
        let majority = Accuracies::of(&problems).unwrap().majority.unwrap();
        assert!(close(majority.accuracy.value, 0.5));
        assert!(close(majority.ties, 0.0));
    }

    #[test]
    fn tied_answers_count_as_their_mean_and_are_said() {
        let problems = [voting(&[("3", 0.0), ("2", 1.0)]), voting(&[("", 0.0), ("", 0.0)])];
        let majority = Accuracies::of(&problems).unwrap().majority.unwrap();
        assert!(close(majority.accuracy.value, 0.25), "half for the tie, nothing where nobody votes");
        assert!(close(majority.ties, 0.5));
        assert_eq!(Accuracies::of(&[attempts(&[1.0])]).unwrap().majority, None);
    }

    #[test]
    fn pass_at_n_needs_n_attempts() {
        let problems = [attempts(&[1.0, 0.0]), attempts(&[0.0, 0.0, 1.0])];
        assert_eq!(pass_at(0, &problems), None);
        assert_eq!(pass_at(4, &problems), None);
        assert_eq!(pass_at(3, &problems).unwrap().units, 1);
        assert!(close(pass_at(2, &problems).unwrap().value, (1.0 + 2.0 / 3.0) / 2.0));
    }

    /// All choices of `n` out of the scores, and all draws with replacement: the maxima.
    fn maxima(scores: &[f64], n: usize, with_replacement: bool) -> Vec<f64> {
        fn go(scores: &[f64], n: usize, from: usize, repeat: bool, so_far: f64, out: &mut Vec<f64>) {
            if n == 0 {
                return out.push(so_far);
            }
            for (index, score) in scores.iter().enumerate().skip(if repeat { 0 } else { from }) {
                go(scores, n - 1, index + 1, repeat, so_far.max(*score), out);
            }
        }
        let mut out = Vec::new();
        go(scores, n, 0, with_replacement, f64::NEG_INFINITY, &mut out);
        out
    }

    proptest! {
        #[test]
        fn pass_at_n_is_the_mean_over_all_choices(
            right in prop::collection::vec(any::<bool>(), 1..8),
            n in 1_usize..8,
        ) {
            let scores: Vec<f64> = right.iter().map(|right| f64::from(u8::from(*right))).collect();
            let expected = maxima(&scores, n, false);
            match pass_at(n, &[attempts(&scores)]) {
                None => prop_assert!(expected.is_empty()),
                Some(pass) => prop_assert!(close(pass.value, mean(&expected)), "{} {}", pass.value, mean(&expected)),
            }
        }

        #[test]
        fn the_bootstrap_is_the_mean_over_all_draws(scores in prop::collection::vec(0.0_f64..1.0, 1..6)) {
            let expected = mean(&maxima(&scores, scores.len(), true));
            let found = Accuracies::of(&[attempts(&scores)]).unwrap().bootstrap_best.value;
            prop_assert!(close(found, expected), "{found} {expected}");
        }
    }
}
