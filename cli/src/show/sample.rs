//! What is shown, an answer of an evaluation or a sample of a training step, as filters see it.

use std::collections::BTreeMap;

use evenkeel_proto::v1::Outcome;
use evenkeel_run::{AnswerVerdict, EvaluationAnswer, Rollout};
use serde::Serialize;

use crate::arguments::ShowOptions;

/// Something that can be filtered.
pub(super) trait Sample: Serialize {
    fn verdict(&self) -> &AnswerVerdict;
    fn is_truncated(&self) -> bool;
    fn tokens(&self) -> usize;
    /// Name of its problem, and the problem's number as it is shown, from 1.
    fn problem(&self) -> (&str, u64);
}

impl Sample for EvaluationAnswer {
    fn verdict(&self) -> &AnswerVerdict {
        &self.verdict
    }

    fn is_truncated(&self) -> bool {
        self.is_truncated()
    }

    fn tokens(&self) -> usize {
        self.token_ids.len()
    }

    fn problem(&self) -> (&str, u64) {
        (&self.problem, self.index + 1)
    }
}

impl Sample for Rollout {
    fn verdict(&self) -> &AnswerVerdict {
        &self.verdict
    }

    fn is_truncated(&self) -> bool {
        self.is_truncated()
    }

    fn tokens(&self) -> usize {
        self.tokens as usize
    }

    fn problem(&self) -> (&str, u64) {
        (&self.problem, self.index + 1)
    }
}

/// Without a filter all are wanted; otherwise those that one of them takes, of the problem that is named.
pub(super) fn is_wanted(sample: &impl Sample, options: &ShowOptions) -> bool {
    let verdict = sample.verdict();
    let valid = verdict.is_valid();
    let no_answer = *verdict == AnswerVerdict::Outcome(Outcome::NoAnswer);
    let filters = [
        (options.wrong, verdict.correct() == Some(false)),
        (options.right, verdict.correct() == Some(true)),
        (options.invalid, !valid),
        (options.truncated, sample.is_truncated()),
        (options.no_answer, no_answer),
    ];
    let is_filtered = filters.iter().any(|(is_set, _)| *is_set);
    let is_taken = !is_filtered || filters.iter().any(|(is_set, takes)| *is_set && *takes);
    let (name, number) = sample.problem();
    let is_named = |problem: &String| problem == name || problem.parse() == Ok(number);
    is_taken && options.problem.as_ref().is_none_or(is_named)
}

/// The longest of those that are seen: a few, so that a large file is not held whole.
pub(super) struct Longest<S> {
    most: usize,
    /// By length, then in reverse by place, so that the first of equal ones stays.
    kept: BTreeMap<(usize, std::cmp::Reverse<usize>), S>,
    seen: usize,
}

impl<S: Sample> Longest<S> {
    pub(super) fn of(most: usize) -> Self {
        Self { most, kept: BTreeMap::new(), seen: 0 }
    }

    pub(super) fn add(&mut self, sample: S) {
        self.kept.insert((sample.tokens(), std::cmp::Reverse(self.seen)), sample);
        self.seen += 1;
        if self.kept.len() > self.most {
            self.kept.pop_first();
        }
    }

    pub(super) fn finish(self) -> impl Iterator<Item = S> {
        self.kept.into_values().rev()
    }
}
