//! Quantities by which aggregation bias is measured on a step: how much response lengths vary and how length correlates
//! with the sign of the advantage, which the paper (arXiv 2605.04077) plots without definitions, and how much weight
//! each side, and short and long responses, get under every rule, which are ours.
//!
//! A response counts if it is valid and has a trainable token; its length is the number of its trainable tokens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::by_length::{ByLength, QUARTERS, Quarters};
use crate::error::{Error, validate_length};
use crate::{Aggregation, Constants, MiniBatchCounts, group_weights};

/// The parts of a group that the quantities are computed from. Each slice has one element for each response.
#[derive(Debug, Clone, Copy)]
pub struct GroupView<'a> {
    /// Advantage of each response.
    pub advantages: &'a [f64],
    /// Trainable tokens; 0 for an invalid response.
    pub trainable_tokens: &'a [usize],
    /// Whether the answer is correct; `None` where nobody says so, which leaves it out of what compares right and
    /// wrong.
    pub correct: &'a [Option<bool>],
}

impl GroupView<'_> {
    fn counted(&self) -> impl Iterator<Item = (f64, f64, Option<bool>)> + Clone {
        let lengths = self.trainable_tokens.iter().map(|&t| t as f64);
        let all = self.advantages.iter().copied().zip(lengths).zip(self.correct.iter().copied());
        all.map(|((advantage, length), correct)| (advantage, length, correct)).filter(|(_, length, _)| *length > 0.0)
    }
}

/// The pull of each side, the sum of w abs(A) T over its responses, w with the normalizer of the whole step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Pull {
    /// Over responses with A > 0.
    pub positive: f64,
    /// Over responses with A < 0.
    pub negative: f64,
}

impl Pull {
    /// The bias that the paper describes, `positive / negative`. If advantages sum to 0 in each group it is 1 under
    /// `sequence` and `balanced`; under `token` it is above 1 if the better responses are the longer ones. Absent if no
    /// response has A < 0.
    #[must_use]
    pub fn bias(&self) -> Option<f64> {
        (self.negative > 0.0).then(|| self.positive / self.negative)
    }
}

/// The quantities of one step. A quantity that is undefined for a step is absent, never NaN.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Quantities {
    /// Coefficient of variation of lengths within a group, population deviation / mean, averaged over the groups with
    /// at least two counted responses; absent if there are none.
    pub length_variation: Option<f64>,
    /// Coefficient of variation of lengths over all counted responses of the step; absent if there are fewer than two.
    pub length_variation_pooled: Option<f64>,
    /// Mean length of the counted responses with A < 0 minus that of those with A > 0, averaged over the groups that
    /// have both; absent if there are none.
    pub length_gap: Option<f64>,
    /// The number of groups that `length_gap` is averaged over.
    pub length_gap_groups: usize,
    /// Mean length of the counted responses that are known to be wrong minus that of those known to be right, over the
    /// whole step; absent if there are no responses of one kind.
    pub length_gap_pooled: Option<f64>,
    /// The pull of each side under every rule, not only the one in use; rules that divide by `max_tokens` are absent if
    /// it is 0, and `sides` without its constants.
    pub pulls: BTreeMap<Aggregation, Pull>,
    /// Mean length in each quarter of the responses that have an advantage, from the shortest to the longest; absent if
    /// there are none.
    pub length_quarters: Option<[f64; QUARTERS]>,
    /// What every rule gives to each of these quarters; empty if there are none.
    pub by_length: BTreeMap<Aggregation, ByLength>,
}

impl Quantities {
    /// Measures a step. `constants` are those of the settings.
    ///
    /// # Errors
    /// Slices of different lengths; an advantage that is not finite.
    pub fn of(groups: &[GroupView<'_>], constants: Constants) -> Result<Self, Error> {
        for (g, group) in groups.iter().enumerate() {
            let expected = group.trainable_tokens.len();
            validate_length("advantages", group.advantages.len(), "trainable_tokens", expected)
                .and_then(|()| validate_length("correct", group.correct.len(), "trainable_tokens", expected))
                .map_err(|error| error.at(g, None))?;
        }
        let within: Mean = groups.iter().filter_map(|group| variation(group.counted().map(|(_, t, _)| t))).collect();
        let gaps: Mean = groups.iter().filter_map(|group| gap(group.counted().map(|(a, t, _)| (a, t)))).collect();
        let everyone = || groups.iter().flat_map(GroupView::counted);
        let by_correctness = everyone().filter_map(|(_, t, correct)| Some((if correct? { 1.0 } else { -1.0 }, t)));
        let with_advantage = everyone().filter(|(advantage, ..)| *advantage != 0.0).map(|(_, t, _)| t);
        let quarters = Quarters::of(with_advantage.collect());
        let (pulls, by_length) = of_rules(groups, constants, &quarters)?;
        Ok(Self {
            length_variation: within.value(),
            length_variation_pooled: variation(everyone().map(|(_, t, _)| t)),
            length_gap: gaps.value(),
            length_gap_groups: gaps.count,
            length_gap_pooled: gap(by_correctness),
            pulls,
            length_quarters: quarters.lengths(),
            by_length,
        })
    }
}

#[derive(Default)]
struct Mean {
    sum: f64,
    count: usize,
}

impl Mean {
    fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

impl FromIterator<f64> for Mean {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        values.into_iter().fold(Self::default(), |m, x| Self { sum: m.sum + x, count: m.count + 1 })
    }
}

/// Population deviation / mean of at least two positive lengths.
fn variation(lengths: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let all: Mean = lengths.clone().collect();
    let mean = all.value().filter(|_| all.count >= 2)?;
    let variance: Mean = lengths.map(|t| (t - mean).powi(2)).collect();
    variance.value().map(|variance| variance.sqrt() / mean)
}

/// Mean length of the negative ones minus that of the positive ones.
fn gap(signed_lengths: impl Iterator<Item = (f64, f64)> + Clone) -> Option<f64> {
    let negative: Mean = signed_lengths.clone().filter(|(sign, _)| *sign < 0.0).map(|(_, t)| t).collect();
    let positive: Mean = signed_lengths.filter(|(sign, _)| *sign > 0.0).map(|(_, t)| t).collect();
    Some(negative.value()? - positive.value()?)
}

type OfRules<T> = BTreeMap<Aggregation, T>;

fn of_rules(
    groups: &[GroupView<'_>],
    constants: Constants,
    quarters: &Quarters,
) -> Result<(OfRules<Pull>, OfRules<ByLength>), Error> {
    let mut pulls = BTreeMap::new();
    let mut by_length = BTreeMap::new();
    let mut weights = Vec::new();
    let mut terms = Vec::new();
    for &aggregation in Aggregation::ALL {
        let has_constants = match aggregation {
            Aggregation::Sides => constants.sides.is_some(),
            rule => !rule.uses_max_tokens() || constants.max_tokens > 0,
        };
        if !has_constants {
            continue;
        }
        let mut pull = Pull::default();
        let mut counts = MiniBatchCounts::default();
        terms.clear();
        for (g, group) in groups.iter().enumerate() {
            weights.clear();
            weights.resize(group.trainable_tokens.len(), 0.0);
            let a = group.advantages;
            let t = group.trainable_tokens;
            let added = group_weights(aggregation, a, t, constants, &mut weights).map_err(|error| error.at(g, None))?;
            counts.add(added);
            for ((&a, &t), &w) in a.iter().zip(t).zip(&weights) {
                let side = if a > 0.0 { &mut pull.positive } else { &mut pull.negative };
                *side += w * a.abs() * t as f64;
                if a != 0.0 && t > 0 {
                    terms.push((w, a.abs()));
                }
            }
        }
        let scale = counts.normalizer(aggregation);
        pulls.insert(aggregation, Pull { positive: pull.positive * scale, negative: pull.negative * scale });
        by_length.extend(quarters.of_rule(&terms).map(|of_rule| (aggregation, of_rule)));
    }
    Ok((pulls, by_length))
}
