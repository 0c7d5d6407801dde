//! The built-in task: two-digit addition with worked answers.
//!
//! Made so that aggregation matters: who stops at the result is short and right, who hesitates is long and wrong. The demonstrations
//! of the warm start are of both kinds, so that GRPO has something to prefer, and response length goes with the sign of the advantage.

use rand::Rng;

use crate::data::{Dataset, Problem, hold_out};
use crate::settings::Task;

/// Share of demonstrations that stop at the right result.
const DECIDED: f64 = 0.08;
/// What wrong results are off by.
const ERRORS: [i64; 6] = [-10, 10, 1, -1, 2, -2];
/// The smallest and the largest number of a problem.
const OPERANDS: std::ops::RangeInclusive<u32> = 10..=99;

/// All problems; `held_out` of them apart, with their mirror images.
pub(super) fn dataset(seed: u64, held_out: u32) -> Dataset {
    let all = OPERANDS.flat_map(|a| OPERANDS.map(move |b| problem(a, b))).collect();
    // Who has seen 12+34 knows 34+12.
    let (train, held_out) = hold_out(all, held_out, seed, |problem| {
        let (a, b) = operands(&problem.prompt);
        (a.min(b), a.max(b))
    });
    Dataset { source: "arithmetic".to_owned(), task: Task::Arithmetic, train, held_out }
}

fn problem(a: u32, b: u32) -> Problem {
    Problem { id: format!("{a}+{b}"), prompt: format!("{a}+{b}=\n"), gold: (a + b).to_string(), demonstration: None }
}

/// The numbers of a prompt that [`problem`] wrote.
pub(super) fn operands(prompt: &str) -> (u32, u32) {
    let (a, b) = prompt.trim_end_matches("=\n").split_once('+').unwrap_or_default();
    (a.parse().unwrap_or_default(), b.parse().unwrap_or_default())
}

/// An answer as a teacher writes it who works well and then mostly talks himself out of it. Every answer begins with the right
/// working, so that all of them teach addition; who stops there is short and right.
pub(super) fn demonstration(rng: &mut impl Rng, a: u32, b: u32) -> String {
    if rng.random::<f64>() < DECIDED {
        return worked_answer(a, b, 0, 0);
    }
    let hesitations = rng.random_range(1..=2);
    let error = ERRORS[rng.random_range(0..ERRORS.len())];
    worked_answer(a, b, hesitations, error)
}

/// The longest that [`demonstration`] writes.
pub(super) fn longest_demonstration() -> String {
    worked_answer(*OPERANDS.end(), *OPERANDS.end(), 2, 10)
}

/// The working, so many hesitations, and a result that is off by `error`.
fn worked_answer(a: u32, b: u32, hesitations: usize, error: i64) -> String {
    let (x, y, p, q) = (a % 10, b % 10, a / 10, b / 10);
    let units = x + y;
    let mut text = format!("{x}+{y}={units}, {p}+{q}+{}={}.", units / 10, p + q + units / 10);
    if hesitations > 0 {
        text.push_str(&format!(" hmm, {x}+{y}={units}?").repeat(hesitations));
        text.push_str(" no.");
    }
    text.push_str(&format!(" \\boxed{{{}}}", i64::from(a + b) + error));
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use evenkeel_seeds::{Stream, rng};

    use super::*;

    #[test]
    fn held_out_problems_have_no_twin_in_training() {
        let data = dataset(7, 256);
        assert_eq!(data.held_out.len(), 256);
        let unordered = |problem: &Problem| {
            let (a, b) = operands(&problem.prompt);
            (a.min(b), a.max(b))
        };
        let held: HashSet<_> = data.held_out.iter().map(unordered).collect();
        assert_eq!(held.len(), 256);
        assert!(data.train.iter().all(|problem| !held.contains(&unordered(problem))));
        assert!(data.train.len() > 7_500);
        assert_eq!(data, dataset(7, 256));
        assert_ne!(data.held_out, dataset(8, 256).held_out);
    }

    #[test]
    fn wrong_demonstrations_are_longer_than_right_ones() {
        let (mut right, mut wrong) = (Vec::new(), Vec::new());
        for index in 0..1_000 {
            let mut rng = rng(1, Stream::Demonstration { step: 0, row: index });
            let (a, b) = (rng.random_range(OPERANDS), rng.random_range(OPERANDS));
            let text = demonstration(&mut rng, a, b);
            let correct = text.ends_with(&format!("\\boxed{{{}}}", a + b));
            if correct { &mut right } else { &mut wrong }.push(text.len());
        }
        let mean = |lengths: &[usize]| lengths.iter().sum::<usize>() / lengths.len();
        assert!((50..120).contains(&right.len()), "{}", right.len());
        assert!(mean(&wrong) > mean(&right) + 10);
        assert!(*wrong.iter().max().unwrap() <= longest_demonstration().len());
        assert!(longest_demonstration().len() < 80);
        assert!(wrong.iter().min().unwrap() > right.iter().max().unwrap());
    }
}
