//! What the criterion expects of the arms of a task, and whether it held.

use std::collections::BTreeMap;

use evenkeel_errors::FieldError;
use serde::{Deserialize, Serialize};

use super::no_worse::NoWorse;
use super::plane::Preference;
use crate::arms::ArmSummary;
use crate::measure::Measure;
use crate::options::Options;
use crate::pairs::{Finding, PairedDifference};

/// The setting in which arms of different rules differ.
const SETTING: &str = "learner.objective.aggregation";
/// The paper's formula, and what verl, in which it trained, calls a token mean.
pub(super) const TOKEN: [&str; 2] = ["token", "batch-token"];
pub(super) const SEQUENCE: [&str; 1] = ["sequence"];
/// Appendix B and the main text.
const BALANCED: [&str; 2] = ["balanced", "balanced-count"];

/// An expectation about two arms that differ in their rule alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    pub kind: ClaimKind,
    /// The arm that the claim is about, by position among the task's arms.
    pub arm: usize,
    /// The arm that `arm` is compared with, by position.
    pub other: usize,
    pub measure: Measure,
    /// Whether the expectation held.
    pub verdict: Verdict,
    /// The test of [`ClaimKind::Robust`]; absent for others, and where the arms share no seed.
    pub no_worse: Option<NoWorse>,
}

/// What the paper expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// This arm, token or sequence, is the better of the two here.
    Preferred,
    /// Balanced is robust: no worse than token or sequence anywhere, by the margin of the options.
    Robust,
    /// Token falls further from its peak accuracy to its last one than the other.
    LargestDrop,
}

/// Verdict on an expectation. A difference counts where it is [shown](Finding).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// What was expected is shown: the arm is better, no worse, or falls further.
    Held,
    /// The opposite is shown.
    Contradicted,
    /// The evidence neither supports nor refutes what was expected.
    Open,
}

impl Verdict {
    /// How tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Contradicted => "contradicted",
            Self::Open => "open",
        }
    }
}

impl Claim {
    /// What is expected of the arm, and the verdict, for a cell of a table.
    pub(crate) fn words(&self, other: &str) -> String {
        let expected = match self.kind {
            ClaimKind::Preferred => "better than",
            ClaimKind::Robust => "no worse than",
            ClaimKind::LargestDrop => "falls further than",
        };
        format!("{expected} {other}: {}", self.verdict.name())
    }
}

/// What expectations are judged by.
pub(super) struct Judged<'a> {
    pub(super) arms: &'a [ArmSummary],
    pub(super) pairs: &'a [PairedDifference],
    pub(super) options: &'a Options,
}

impl Judged<'_> {
    /// All expectations about arms that differ in their rule alone: those of the preference, of balanced, and of drops.
    ///
    /// # Errors
    /// Values that are not finite.
    pub(super) fn claims(&self, preference: Preference, measure: Measure) -> Result<Vec<Claim>, FieldError> {
        let preferred = match preference {
            Preference::Token => twins(self.arms, &TOKEN, &SEQUENCE),
            Preference::Sequence => twins(self.arms, &SEQUENCE, &TOKEN),
            Preference::Neither | Preference::Alike => Vec::new(),
        };
        let mut claims: Vec<Claim> =
            preferred.into_iter().map(|twins| self.better_is(ClaimKind::Preferred, twins, measure)).collect();
        claims.extend(self.robust(measure)?);
        let others = [SEQUENCE[0], BALANCED[0], BALANCED[1]];
        let has_drop = self.arms.iter().any(|arm| arm.measure(Measure::AccuracyDrop).is_some());
        if has_drop {
            let falls = |(arm, other): (usize, usize)| {
                // The better one falls less.
                let Claim { verdict, .. } = self.better_is(ClaimKind::LargestDrop, (other, arm), Measure::AccuracyDrop);
                let (kind, measure) = (ClaimKind::LargestDrop, Measure::AccuracyDrop);
                Claim { kind, arm, other, measure, verdict, no_worse: None }
            };
            claims.extend(twins(self.arms, &TOKEN, &others).into_iter().map(falls));
        }
        Ok(claims)
    }

    /// Held where the first arm is shown to be better.
    fn better_is(&self, kind: ClaimKind, (arm, other): (usize, usize), measure: Measure) -> Claim {
        let verdict = match better(self.pairs, arm, other, measure) {
            Some(better) if better == arm => Verdict::Held,
            Some(_) => Verdict::Contradicted,
            None => Verdict::Open,
        };
        Claim { kind, arm, other, measure, verdict, no_worse: None }
    }

    /// Each balanced arm against token and sequence. A family of tests for each of them.
    fn robust(&self, measure: Measure) -> Result<Vec<Claim>, FieldError> {
        let mut claims = Vec::new();
        for rule in BALANCED {
            let twins = twins(self.arms, &[rule], &[TOKEN[0], TOKEN[1], SEQUENCE[0]]);
            for family in twins.chunk_by(|one, other| one.0 == other.0) {
                let arms: Vec<_> = family.iter().map(|(arm, other)| (&self.arms[*arm], &self.arms[*other])).collect();
                let tests = NoWorse::of(&arms, measure, self.options.margin, self.options.seed)?;
                claims.extend(family.iter().zip(tests).map(|(twins, no_worse)| {
                    let claim = self.better_is(ClaimKind::Robust, *twins, measure);
                    let is_shown = no_worse.is_some_and(|test| test.is_shown());
                    let verdict = if is_shown { Verdict::Held } else { claim.verdict };
                    Claim { verdict, no_worse, ..claim }
                }));
            }
        }
        Ok(claims)
    }
}

/// Arms of one of these and one of the other rules that have everything else in common, in the order of the rules.
pub(super) fn twins(arms: &[ArmSummary], one: &[&str], other: &[&str]) -> Vec<(usize, usize)> {
    let of_rules = |rules: &[&str]| -> Vec<usize> {
        let arms_with = |rule: &&str| {
            let rule = (*rule).to_owned();
            (0..arms.len()).filter(move |arm| arms[*arm].rule.as_deref() == Some(rule.as_str()))
        };
        rules.iter().flat_map(arms_with).collect()
    };
    let rest = |arm: usize| -> BTreeMap<&String, &String> {
        arms[arm].arm.0.iter().filter(|(key, _)| *key != SETTING).collect()
    };
    let others = of_rules(other);
    let pairs = of_rules(one).into_iter().flat_map(|one| others.iter().map(move |other| (one, *other)));
    pairs.filter(|(one, other)| rest(*one) == rest(*other)).collect()
}

/// The arm of a pair that is shown to be better.
fn better(pairs: &[PairedDifference], one: usize, other: usize, measure: Measure) -> Option<usize> {
    let first = one.min(other);
    let second = one.max(other);
    let is_pair = |pair: &&PairedDifference| (pair.first, pair.second, pair.measure) == (first, second, measure);
    let higher = match pairs.iter().find(is_pair)?.finding {
        Finding::FirstHigher => first,
        Finding::SecondHigher => second,
        Finding::TooFewSeeds { .. } | Finding::NoSpread | Finding::NotShown => return None,
    };
    let lower = if higher == first { second } else { first };
    Some(if measure.is_higher_better() { higher } else { lower })
}
