//! The built-in problems for models that can read: sums as they stand and in words, of several kinds.
//!
//! Nothing in them is anybody's data: numbers, names and things are drawn from the seed. Each kind is a source of its
//! own, so that every step asks all of them and metrics keep them apart. There are no demonstrations: these problems
//! are for pretrained models.

use std::collections::HashSet;
use std::sync::Arc;

use evenkeel_chat::Prompt;
use evenkeel_seeds::{Stream, rng};

use crate::dataset::hold_out;
use crate::question::{ProblemDifficulty, ProblemKind, Question};
use crate::{DataReport, DataSource, Dataset, Id, Problem, ProblemOrigin, Rules, Task};

const NAME: &str = "word-problems";
/// Problems of a kind, and how many are drawn for them at most: some kinds have fewer different ones.
const PROBLEMS: usize = 4_000;
const DRAWN: u64 = 3 * PROBLEMS as u64;

/// Problems of these kinds; `held_out` of them apart, as many of each kind as far as it has that many. At most half of
/// a kind's problems are held out. No text is in both parts; numbers may be, with other names and things.
pub fn dataset(
    seed: u64,
    held_out: u32,
    kinds: &[ProblemKind],
    difficulty: ProblemDifficulty,
    rules: &Rules,
) -> Dataset {
    let all: Vec<Vec<Problem>> =
        kinds.iter().enumerate().map(|(source, kind)| problems(*kind, seed, difficulty, source, rules)).collect();
    let available: Vec<usize> = all.iter().map(|problems| problems.len() / 2).collect();
    let apart = shares(held_out as usize, &available);
    let mut train = Vec::new();
    let mut held = Vec::new();
    for (problems, apart) in all.into_iter().zip(apart) {
        let (rest, asked, _) = hold_out(problems, apart as u32, seed, |problem| problem.id.to_string());
        train.extend(rest);
        held.push(asked);
    }
    let report = DataReport::of(NAME, train.len() + held.iter().map(Vec::len).sum::<usize>());
    let sources = kinds.iter().map(|kind| DataSource { name: kind.name().to_owned(), weight: 1.0 }).collect();
    Dataset { name: NAME.to_owned(), sources, train, held_out: in_turn(held), report }
}

/// Different problems of a kind.
fn problems(kind: ProblemKind, seed: u64, difficulty: ProblemDifficulty, source: usize, rules: &Rules) -> Vec<Problem> {
    let place = ProblemKind::ALL.iter().position(|other| *other == kind).unwrap_or_default() as u64;
    let mut asked = HashSet::new();
    let mut problems = Vec::new();
    for number in 0..DRAWN {
        let Question { text, answer } =
            kind.draw(difficulty, &mut rng(seed, Stream::WordProblem { kind: place, number }));
        if asked.insert(text.clone()) {
            problems.push(problem(kind, number, source, &text, answer, rules));
            if problems.len() == PROBLEMS {
                break;
            }
        }
    }
    problems
}

fn problem(kind: ProblemKind, number: u64, source: usize, text: &str, answer: u32, rules: &Rules) -> Problem {
    let task = Task::math([answer.to_string()]).expect("one gold answer is given");
    Problem {
        id: Id::Text(format!("{}-{number}", kind.name())),
        origin: ProblemOrigin { source, file: 0 },
        data_source: Some(Arc::from(kind.name())),
        prompt: Prompt::Text(text.to_owned()),
        context: None,
        suffix: None,
        environment: None,
        task: task.with_prompt(Some(text)).with_rules(rules),
        demonstration: None,
        hint: None,
    }
}

/// Divides `total` as equally as `room` allows: the first parts get one more if it does not divide.
fn shares(total: usize, room: &[usize]) -> Vec<usize> {
    let mut shares = vec![0; room.len()];
    let mut left = total.min(room.iter().sum());
    while left > 0 {
        for (share, room) in shares.iter_mut().zip(room) {
            if left > 0 && *share < *room {
                *share += 1;
                left -= 1;
            }
        }
    }
    shares
}

/// One of each kind, then the next of each: the first of them are of all kinds.
fn in_turn(kinds: Vec<Vec<Problem>>) -> Vec<Problem> {
    let longest = kinds.iter().map(Vec::len).max().unwrap_or_default();
    let mut kinds: Vec<_> = kinds.into_iter().map(Vec::into_iter).collect();
    (0..longest).flat_map(|_| kinds.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn of(seed: u64, held_out: u32, kinds: &[ProblemKind]) -> Dataset {
        dataset(seed, held_out, kinds, ProblemDifficulty::Easy, &Rules::default())
    }

    fn counts(problems: &[Problem]) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        problems.iter().for_each(|problem| *counts.entry(problem.data_source.as_deref().unwrap()).or_default() += 1);
        counts
    }

    #[test]
    fn every_kind_is_held_out_alike_and_no_text_is_in_both_parts() {
        let data = of(7, 1_000, &ProblemKind::ALL);
        assert_eq!(data.held_out.len(), 1_000);
        let held = counts(&data.held_out);
        assert_eq!(held["gain"], held["largest"]);
        assert!(held["product"] < held["gain"], "there are 81 products of small numbers");
        assert_eq!(counts(&data.held_out[..8]).len(), 8, "the first ones are of all kinds");
        let texts: HashSet<_> = data.held_out.iter().map(|problem| format!("{:?}", problem.prompt)).collect();
        assert_eq!(texts.len(), 1_000);
        assert!(data.train.iter().all(|problem| !texts.contains(&format!("{:?}", problem.prompt))));
        assert_eq!(counts(&data.train).len(), 8);
        assert_eq!(data, of(7, 1_000, &ProblemKind::ALL));
        assert_ne!(data.held_out, of(8, 1_000, &ProblemKind::ALL).held_out);
    }

    #[test]
    fn each_kind_is_a_source_and_other_kinds_change_nothing_about_it() {
        let two = of(3, 0, &[ProblemKind::Gain, ProblemKind::Loss]);
        let one = of(3, 0, &[ProblemKind::Loss]);
        let names: Vec<_> = two.sources.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["gain", "loss"]);
        let losses: Vec<_> =
            two.train.iter().filter(|problem| problem.origin.source == 1).map(|problem| &problem.prompt).collect();
        assert_eq!(losses, one.train.iter().map(|problem| &problem.prompt).collect::<Vec<_>>());
        assert!(losses.len() > 3_900, "{}", losses.len());
    }

    #[test]
    fn what_is_held_out_fills_up_from_kinds_that_have_more() {
        assert_eq!(shares(10, &[2, 9, 9]), [2, 4, 4]);
        assert_eq!(shares(11, &[2, 9, 9]), [2, 5, 4]);
        assert_eq!(shares(50, &[2, 9, 9]), [2, 9, 9]);
        assert_eq!(shares(0, &[]), [0; 0]);
    }
}
