//! The accuracies of an evaluation, or its mean rewards where nobody says which answers are correct, and what else its
//! metrics say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::Outcome;
use evenkeel_run::at_k::AVERAGE;
use evenkeel_run::metric::{MetricName, table as metric};
use evenkeel_run::{AnswerVerdict, EvaluationAnswer, MetricsLine, Quantity, Statistics, at_k};
use evenkeel_statistics::{Accuracies, Attempt, Estimate, pass_at};

use crate::data::MAX_DATA_SOURCES;
use crate::rollout::COPIED;

/// What became of the answers to one benchmark.
#[derive(Debug, Clone)]
pub(crate) struct Scores {
    name: String,
    samples: u32,
    in_average: bool,
    /// What each problem counts as, by its place; empty where all are of one data source.
    sources: Vec<Arc<str>>,
    problems: BTreeMap<u64, ProblemScores>,
}

/// The answers to one problem.
#[derive(Debug, Clone)]
struct ProblemScores {
    /// Answers of which it is known whether they are correct, each with 1 or 0.
    attempts: Vec<Attempt>,
    /// Rewards of all answers with a verdict.
    rewards: Vec<Attempt>,
    /// Length and whether it was cut off, for each answer that was generated.
    lengths: Vec<(f64, bool)>,
    /// Whether each attempt was refused because its answer is copied from the prompt; in their order.
    copied: Vec<bool>,
    /// Samples without a verdict.
    invalid: usize,
    /// Answers in which the verifier found nothing to judge, and those of them that were cut off.
    unanswered: usize,
    cut_off: usize,
}

/// Most answers of an evaluation have nothing that a verifier finds.
const MOST: f64 = 0.8;

/// Values in addition to the accuracies, by name.
type ExtraMetrics = Vec<(MetricName, Option<f64>)>;

/// What the numbers of a benchmark are, and these by name.
type NamedEstimates = (Quantity, BTreeMap<String, Estimate>);

impl Scores {
    pub(super) fn new(name: &str, samples: u32, in_average: bool) -> Self {
        Self { name: name.to_owned(), samples, in_average, sources: Vec::new(), problems: BTreeMap::new() }
    }

    /// Keeps the accuracies of data sources apart, where there are several and not too many. `sources`: of each
    /// problem.
    pub(super) fn by_source(mut self, sources: Vec<Arc<str>>) -> Self {
        let different: BTreeSet<&str> = sources.iter().map(|source| &**source).collect();
        if (2..=MAX_DATA_SOURCES).contains(&different.len()) {
            self.sources = sources;
        }
        self
    }

    /// Adds the answers to a problem.
    pub(super) fn add(&mut self, index: u64, answers: &[EvaluationAnswer]) {
        let generated = answers.iter().filter(|answer| !answer.token_ids.is_empty());
        let unanswered = answers.iter().filter(|answer| answer.verdict == AnswerVerdict::Outcome(Outcome::NoAnswer));
        let scores = ProblemScores {
            unanswered: unanswered.clone().count(),
            cut_off: unanswered.filter(|answer| answer.is_truncated()).count(),
            attempts: answers.iter().filter_map(attempt).collect(),
            rewards: answers.iter().filter_map(|answer| Some(Attempt { score: answer.score?, answer: None })).collect(),
            copied: answers.iter().filter(|answer| attempt(answer).is_some()).map(is_copied).collect(),
            lengths: generated.map(|answer| (answer.token_ids.len() as f64, answer.is_truncated())).collect(),
            invalid: answers.iter().filter(|answer| !answer.verdict.is_valid()).count(),
        };
        self.problems.insert(index, scores);
    }

    /// Whether it has the answers to a problem.
    pub(super) fn has(&self, index: u64) -> bool {
        self.problems.contains_key(&index)
    }

    /// Accuracies by name, each with its standard error over problems, and values in addition to them. Mean rewards
    /// where it is known of no answer whether it is correct.
    fn estimates(&self) -> (NamedEstimates, ExtraMetrics) {
        let attempts_of = |attempts: fn(&ProblemScores) -> &Vec<Attempt>| -> Vec<Vec<Attempt>> {
            self.problems.values().map(|problem| attempts(problem).clone()).collect()
        };
        let problems = attempts_of(|problem| &problem.attempts);
        let rewards = Accuracies::of(&attempts_of(|problem| &problem.rewards));
        let Some(found) = Accuracies::of(&problems) else { return self.rewards(rewards) };
        let k = self.samples;
        let mut extra = Vec::new();
        let mean = format!("mean@{k}");
        let mut named = BTreeMap::from([(mean.clone(), found.mean)]);
        extra.push((metric::ACCURACY_NOISE.of([&self.name, &mean]), found.sampling_error));
        extra.push((metric::ACCURACY_WITH_COPIED.of([&self.name, &mean]), self.mean_with_copied()));
        let reward = rewards.map(|rewards| rewards.mean.value);
        extra.push((metric::REWARD_BESIDE.of([&self.name, &mean]), reward));
        if k > 1 {
            named.insert(format!("best@{k}"), found.best);
            named.insert(format!("best@{k}/mean"), found.bootstrap_best);
            named.extend(found.majority.as_ref().map(|majority| (format!("maj@{k}"), majority.accuracy)));
            let majority = format!("maj@{k}");
            extra.push((
                metric::MAJORITY_TIES.of([&self.name, &majority]),
                found.majority.map(|majority| majority.ties),
            ));
            let pass = |n: u32| Some((format!("pass@{n}"), pass_at(n as usize, &problems)?));
            named.extend(at_k::pass_numbers(k).into_iter().filter_map(pass));
        }
        ((Quantity::Accuracy, named), extra)
    }

    /// The mean rewards, likewise.
    fn rewards(&self, found: Option<Accuracies>) -> (NamedEstimates, ExtraMetrics) {
        let k = self.samples;
        let mut named = BTreeMap::new();
        let mut extra = Vec::new();
        if let Some(found) = found {
            let mean = format!("mean@{k}");
            extra.push((metric::MEAN_REWARD_NOISE.of([&self.name, &mean]), found.sampling_error));
            named.insert(mean, found.mean);
            named.extend((k > 1).then(|| (format!("best@{k}"), found.best)));
        }
        ((Quantity::Reward, named), extra)
    }

    /// The mean accuracy if answers copied from the prompt were accepted.
    fn mean_with_copied(&self) -> Option<f64> {
        let accepted = |problem: &ProblemScores| {
            let attempts = problem.attempts.iter().zip(&problem.copied);
            let score = |(attempt, copied): (&Attempt, &bool)| if *copied { 1.0 } else { attempt.score };
            Statistics::of(attempts.map(score)).mean()
        };
        Statistics::of(self.problems.values().filter_map(accepted)).mean()
    }

    fn values(&self, line: &mut MetricsLine, named: &NamedEstimates, extra: &[(MetricName, Option<f64>)]) {
        let name = &self.name;
        set(line, &self.name, named);
        for (name, value) in extra {
            line.set(name.clone(), *value);
        }
        let lengths = || self.problems.values().flat_map(|problem| &problem.lengths);
        line.set_statistics(
            |of| metric::EVALUATED_LENGTH.of([name, &of]),
            Statistics::of(lengths().map(|(tokens, _)| *tokens)),
        );
        let clipped = lengths().map(|(_, clipped)| f64::from(u8::from(*clipped)));
        line.set(metric::EVALUATED_TRUNCATED.of([name]), Statistics::of(clipped).mean());
        line.set(metric::EVALUATED_PROBLEMS.of([name]), self.problems.len() as f64);
        let invalid: usize = self.problems.values().map(|problem| problem.invalid).sum();
        line.set(metric::EVALUATED_INVALID.of([name]), invalid as f64);
        let copied = self.problems.values().flat_map(|problem| &problem.copied).filter(|copied| **copied).count();
        line.set(metric::EVALUATED_COPIED.of([name]), copied as f64);
        self.values_of_sources(line);
    }

    fn values_of_sources(&self, line: &mut MetricsLine) {
        let mut by_source: BTreeMap<&str, Vec<&ProblemScores>> = BTreeMap::new();
        for (index, problem) in &self.problems {
            if let Some(source) = usize::try_from(*index).ok().and_then(|index| self.sources.get(index)) {
                by_source.entry(source).or_default().push(problem);
            }
        }
        let name = &self.name;
        let mean = format!("mean@{}", self.samples);
        for (source, problems) in by_source {
            let accuracies = |attempts: fn(&ProblemScores) -> &Vec<Attempt>| {
                Accuracies::of(&problems.iter().map(|problem| attempts(problem).clone()).collect::<Vec<_>>())
            };
            let accuracy = accuracies(|problem| &problem.attempts).map(|found| ("acc", found.mean));
            let found = accuracy.or_else(|| accuracies(|problem| &problem.rewards).map(|found| ("reward", found.mean)));
            if let Some((quantity, found)) = found {
                line.set(metric::SOURCE_MEAN.of([name, &source, &quantity, &mean]), found.value);
                line.set(metric::SOURCE_MEAN_ERROR.of([name, &source, &mean]), found.standard_error);
            }
            let lengths = problems.iter().flat_map(|problem| &problem.lengths).map(|(tokens, _)| *tokens);
            line.set(metric::SOURCE_EVALUATED_LENGTH.of([name, &source]), Statistics::of(lengths).mean());
            line.set(metric::SOURCE_PROBLEMS.of([name, &source]), problems.len() as f64);
        }
    }
}

/// What to do where most answers have nothing that a verifier finds; `None` where they do.
pub(crate) fn advice(all: &[Scores]) -> Option<String> {
    let problems = || all.iter().flat_map(|scores| scores.problems.values());
    let sum = |of: fn(&ProblemScores) -> usize| problems().map(of).sum::<usize>();
    let answers = sum(|problem| problem.rewards.len());
    let unanswered = sum(|problem| problem.unanswered);
    if answers == 0 || unanswered as f64 <= MOST * answers as f64 {
        return None;
    }
    let setting = if 2 * sum(|problem| problem.cut_off) > unanswered {
        "most of them are cut off (sampling.max_tokens, evaluation.max_tokens)"
    } else {
        "ask for a marked answer with data.suffix, or choose another data.math_profile"
    };
    Some(format!(
        "{unanswered} of {answers} answers have nothing that the verifier judges (no_answer), so that their reward \
        says nothing: {setting}"
    ))
}

/// What accuracies count of an answer: whether it is correct. `None` without a verdict, and where nobody says so.
fn attempt(answer: &EvaluationAnswer) -> Option<Attempt> {
    let correct = answer.verdict.correct()?;
    Some(Attempt { score: f64::from(u8::from(correct)), answer: answer.answer.clone() })
}

/// Whether an answer was refused because it is copied from the prompt.
fn is_copied(answer: &EvaluationAnswer) -> bool {
    answer.score.is_some() && answer.reason == COPIED
}

/// Writes the metrics of an evaluation into its line.
pub(crate) fn write_scores(line: &mut MetricsLine, all: &[Scores], elapsed: Duration) {
    let mut averaged: Vec<NamedEstimates> = Vec::new();
    for scores in all {
        let (named, extra) = scores.estimates();
        scores.values(line, &named, &extra);
        if scores.in_average {
            averaged.push(named);
        }
    }
    if let Some((quantity, first)) = averaged.first() {
        // An accuracy and a reward have no mean.
        let is_one_quantity = averaged.iter().all(|(other, _)| other == quantity);
        let average = |metric: &String| {
            let estimates: Option<Vec<Estimate>> =
                averaged.iter().map(|(_, named)| named.get(metric).copied()).collect();
            Some((metric.clone(), Estimate::average(&estimates?)?))
        };
        if is_one_quantity {
            set(line, AVERAGE, &(*quantity, first.keys().filter_map(average).collect()));
        }
        let problems: usize = all.iter().filter(|scores| scores.in_average).map(|scores| scores.problems.len()).sum();
        line.set(metric::EVALUATED_PROBLEMS.of([&AVERAGE]), problems as f64);
    }
    line.set(metric::EVALUATION_TIME, elapsed.as_secs_f64());
}

fn set(line: &mut MetricsLine, name: &str, (quantity, named): &NamedEstimates) {
    let (value, error) = match quantity {
        Quantity::Accuracy => (metric::ACCURACY, metric::ACCURACY_ERROR),
        Quantity::Reward => (metric::MEAN_REWARD, metric::MEAN_REWARD_ERROR),
    };
    for (of, estimate) in named {
        line.set(value.of([&name, of]), estimate.value);
        line.set(error.of([&name, of]), estimate.standard_error);
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::StepKind;

    use super::*;

    fn answer(index: u64, score: Option<f64>, canonical: Option<&str>) -> EvaluationAnswer {
        let verdict = match score {
            Some(1.0) => "correct",
            Some(_) => "incorrect",
            None => "invalid",
        };
        judged(index, verdict, score, canonical)
    }

    fn judged(index: u64, verdict: &str, score: Option<f64>, canonical: Option<&str>) -> EvaluationAnswer {
        serde_json::from_value(serde_json::json!({
            "benchmark": "a", "problem": "p", "index": index, "sample": 0, "prompt": "", "text": "", "token_ids": [1, 2],
            "finish_reason": "length", "verdict": verdict, "reason": "", "score": score, "answer": canonical,
        }))
        .unwrap()
    }

    /// The line of an evaluation with these answers, one to each problem: verdicts and rewards.
    fn line_of(answers: &[(&str, f64)]) -> MetricsLine {
        let mut scores = Scores::new("a", 1, true).by_source(vec!["x".into(), "y".into()]);
        for (index, (verdict, score)) in (0..).zip(answers) {
            scores.add(index, &[judged(index, verdict, Some(*score), None)]);
        }
        let mut line = MetricsLine::new(StepKind::Evaluation, 0, 0);
        write_scores(&mut line, &[scores], Duration::ZERO);
        line
    }

    fn scores(name: &str, problems: &[&[(f64, &str)]]) -> Scores {
        let mut scores = Scores::new(name, 4, true);
        for (index, answers) in (0..).zip(problems) {
            let answers: Vec<_> =
                answers.iter().map(|(score, text)| answer(index, Some(*score), Some(*text))).collect();
            scores.add(index, &answers);
        }
        scores
    }

    #[test]
    fn an_evaluation_in_which_most_have_no_answer_says_which_setting_to_change() {
        let verdict = |verdict: &str, finish: &str| -> EvaluationAnswer {
            let of = answer(0, Some(0.0), None);
            let mut value = serde_json::to_value(of).unwrap();
            (value["verdict"], value["finish_reason"]) = (verdict.into(), finish.into());
            serde_json::from_value(value).unwrap()
        };
        let said = |answers: Vec<EvaluationAnswer>| {
            let mut scores = Scores::new("a", 1, true);
            answers
                .iter()
                .enumerate()
                .for_each(|(index, answer)| scores.add(index as u64, std::slice::from_ref(answer)));
            advice(&[scores])
        };
        let none = |count: usize, finish: &str| vec![verdict("no_answer", finish); count];
        let right = |count: usize| vec![verdict("correct", "stop"); count];
        let text = said([none(9, "stop"), right(1)].concat()).unwrap();
        assert!(text.starts_with("9 of 10 answers") && text.contains("data.suffix"), "{text}");
        assert!(said([none(9, "length"), right(1)].concat()).unwrap().contains("cut off (sampling.max_tokens"));
        assert_eq!(said([none(8, "stop"), right(2)].concat()), None);
        assert_eq!(said(Vec::new()), None);
    }

    #[test]
    fn a_line_has_every_accuracy_with_its_standard_error() {
        let a = scores("a", &[&[(1.0, "1"), (0.0, "2"), (0.0, "2"), (0.0, "3")], &[(0.0, "5"); 4]]);
        let b = scores("b", &[&[(1.0, "1"); 4], &[(1.0, "1"); 4]]);
        let mut line = MetricsLine::new(StepKind::Evaluation, 3, 3);
        write_scores(&mut line, &[a, b], Duration::ZERO);
        let get = |name: &str| line.get(name).unwrap_or_else(|| panic!("{name}: {line:?}"));
        assert_eq!(get("val-core/a/acc/mean@4"), 0.125);
        // Two problems with 1/4 and 0: a deviation of 1/4 / sqrt(2), over sqrt(2).
        assert_eq!(get("val-aux/a/acc/mean@4/standard_error"), 0.125);
        assert_eq!((get("val-core/a/acc/best@4"), get("val-core/a/acc/pass@2")), (0.5, 0.25));
        assert!((get("val-core/a/acc/best@4/mean") - (1.0 - 0.75_f64.powi(4)) / 2.0).abs() < 1e-12);
        assert_eq!((get("val-core/a/acc/maj@4"), get("val-aux/a/acc/maj@4/ties")), (0.0, 0.0));
        assert_eq!((get("val-core/average/acc/mean@4"), get("val-core/average/acc/best@4")), (0.5625, 0.75));
        assert_eq!(get("val-aux/average/acc/mean@4/standard_error"), 0.0625, "half of the one that is not 0");
        assert_eq!((get("val-aux/average/problems"), get("val-aux/a/response_length/clip_ratio")), (4.0, 1.0));
    }

    #[test]
    fn partial_credit_counts_in_the_mean_reward_and_not_in_the_accuracy() {
        let line = line_of(&[("correct", 0.75), ("incorrect", 0.5)]);
        assert_eq!((line.get("val-core/a/acc/mean@1"), line.get("val-aux/a/reward/mean@1")), (Some(0.5), Some(0.625)));
        assert_eq!(
            (line.get("val-source/a/x/acc/mean@1"), line.get("val-core/average/acc/mean@1")),
            (Some(1.0), Some(0.5))
        );
        assert_eq!(line.get("val-core/a/reward/mean@1"), None);
    }

    #[test]
    fn where_nobody_says_which_answers_are_correct_there_is_a_mean_reward_and_no_accuracy() {
        let line = line_of(&[("scored", 1.0), ("scored", 0.5)]);
        assert_eq!(
            (line.get("val-core/a/reward/mean@1"), line.get("val-core/average/reward/mean@1")),
            (Some(0.75), Some(0.75))
        );
        assert_eq!(line.get("val-aux/a/reward/mean@1/standard_error"), Some(0.25));
        assert_eq!(line.get("val-source/a/y/reward/mean@1"), Some(0.5));
        assert!(line.values.keys().all(|name| !name.contains("/acc/")), "{line:?}");
        let some = line_of(&[("scored", 0.0), ("correct", 1.0)]);
        assert_eq!(some.get("val-core/a/acc/mean@1"), Some(1.0), "the mean over those of which it is known");
    }

    #[test]
    fn accuracy_has_a_value_with_copied_answers_too() {
        let mut scores = Scores::new("a", 2, false);
        let copied = EvaluationAnswer { reason: "copied".to_owned(), ..answer(0, Some(0.0), Some("binomial(4, 2)")) };
        scores.add(0, &[answer(0, Some(1.0), Some("6")), copied.clone()]);
        scores.add(1, &[answer(1, Some(0.0), Some("7")), answer(1, None, None)]);
        let mut line = MetricsLine::new(StepKind::Evaluation, 0, 0);
        write_scores(&mut line, &[scores], Duration::ZERO);
        assert_eq!(line.get("val-core/a/acc/mean@2"), Some(0.25));
        assert_eq!(line.get("val-aux/a/acc/mean@2/with_copied"), Some(0.5));
        assert_eq!(line.get("val-aux/a/copied_samples"), Some(1.0));
    }

    #[test]
    fn several_data_sources_have_accuracies_of_their_own() {
        let sources = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<Vec<Arc<str>>>();
        let line_with = |names: &[&str]| {
            let problems: [&[(f64, &str)]; 3] =
                [&[(1.0, "1"); 4], &[(1.0, "1"), (0.0, "2"), (0.0, "2"), (0.0, "3")], &[(0.0, "5"); 4]];
            let mut line = MetricsLine::new(StepKind::Evaluation, 0, 0);
            write_scores(&mut line, &[scores("a", &problems).by_source(sources(names))], Duration::ZERO);
            line
        };
        let line = line_with(&["sum", "gain", "sum"]);
        assert_eq!(line.get(&at_k::of_source("a", "sum", Quantity::Accuracy, "mean@4")), Some(0.5));
        assert_eq!(line.get(&at_k::of_source("a", "gain", Quantity::Accuracy, "mean@4")), Some(0.25));
        assert_eq!(line.get(&at_k::problems_of_source("a", "sum")), Some(2.0));
        assert_eq!(line.get(&at_k::length_of_source("a", "gain")), Some(2.0));
        assert!(
            line.get(&at_k::error_of_source("a", "sum", "mean@4")).is_some_and(|error| (error - 0.5).abs() < 1e-12)
        );
        for one in [line_with(&["sum"; 3]), line_with(&[])] {
            assert!(one.values.keys().all(|name| !name.starts_with("val-source/")), "a single source is the benchmark");
        }
    }

    #[test]
    fn a_sample_without_a_verdict_is_no_wrong_answer() {
        let mut scores = Scores::new("a", 2, false);
        scores.add(0, &[answer(0, Some(1.0), None), answer(0, None, None)]);
        scores.add(1, &[answer(1, None, None), answer(1, None, None)]);
        let mut line = MetricsLine::new(StepKind::Evaluation, 0, 0);
        write_scores(&mut line, &[scores], Duration::ZERO);
        assert_eq!((line.get("val-core/a/acc/mean@2"), line.get("val-core/a/acc/pass@2")), (Some(1.0), None));
        assert_eq!((line.get("val-aux/a/invalid_samples"), line.get("val-core/average/acc/mean@2")), (Some(3.0), None));
    }

    #[test]
    fn a_line_has_the_names_that_settings_know() {
        let mut line = MetricsLine::new(StepKind::Evaluation, 0, 0);
        write_scores(&mut line, &[scores("a", &[&[(1.0, "1"); 4]])], Duration::ZERO);
        let mut known: Vec<String> =
            at_k::accuracies(4).iter().map(|metric| at_k::core("a", Quantity::Accuracy, metric)).collect();
        known.sort();
        let found: Vec<String> = line.values.keys().filter(|name| name.starts_with("val-core/a/")).cloned().collect();
        assert_eq!(found, known);
    }
}
