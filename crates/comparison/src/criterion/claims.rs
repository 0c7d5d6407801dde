//! What the criterion expects of the arms of a task, and whether it held.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::plane::Preference;
use crate::arms::ArmSummary;
use crate::measure::Measure;
use crate::pairs::{Finding, PairedDifference};

/// The setting in which arms of different rules differ.
const SETTING: &str = "learner.objective.aggregation";
pub(super) const TOKEN: &str = "token";
pub(super) const SEQUENCE: &str = "sequence";
const BALANCED: &str = "balanced";

/// An expectation about two arms that differ in their rule alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub kind: ClaimKind,
    /// The arm that is expected to be the better one, or at least no worse, by position among the task's arms.
    pub arm: usize,
    /// The arm that it is compared with.
    pub other: usize,
    pub measure: Measure,
    /// What became of it.
    pub verdict: Verdict,
}

/// What the criterion expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// Of token and sequence this one is better here.
    Preferred,
    /// Balanced is robust: no worse than token or sequence anywhere.
    Robust,
}

/// What became of an expectation. A difference counts where it is [shown](Finding).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The arm is shown to be better.
    Held,
    /// The other arm is shown to be better.
    Contradicted,
    /// Neither is: what was expected is neither supported nor refuted.
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

/// All expectations about arms that differ in their rule alone: those of the preference, then those of balanced.
pub(super) fn claims(
    preference: Preference,
    arms: &[ArmSummary],
    pairs: &[PairedDifference],
    measure: Measure,
) -> Vec<Claim> {
    let of = |kind, (arm, other): (usize, usize)| {
        let verdict = match better(pairs, arm, other, measure) {
            Some(better) if better == arm => Verdict::Held,
            Some(_) => Verdict::Contradicted,
            None => Verdict::Open,
        };
        Claim { kind, arm, other, measure, verdict }
    };
    let preferred = match preference {
        Preference::Token => twins(arms, TOKEN, SEQUENCE),
        Preference::Sequence => twins(arms, SEQUENCE, TOKEN),
        Preference::Neither | Preference::Alike => Vec::new(),
    };
    let preferred = preferred.into_iter().map(|twins| of(ClaimKind::Preferred, twins));
    let robust = [TOKEN, SEQUENCE].into_iter().flat_map(|rule| twins(arms, BALANCED, rule));
    preferred.chain(robust.map(|twins| of(ClaimKind::Robust, twins))).collect()
}

/// Arms of these two rules that have everything else in common.
pub(super) fn twins(arms: &[ArmSummary], one: &str, other: &str) -> Vec<(usize, usize)> {
    let of_rule =
        |rule: &str| -> Vec<usize> { (0..arms.len()).filter(|arm| arms[*arm].rule.as_deref() == Some(rule)).collect() };
    let rest = |arm: usize| -> BTreeMap<&String, &String> {
        arms[arm].arm.0.iter().filter(|(key, _)| *key != SETTING).collect()
    };
    let others = of_rule(other);
    let pairs = of_rule(one).into_iter().flat_map(|one| others.iter().map(move |other| (one, *other)));
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
