//! Weights of a group's responses, and the counts of groups and mini-batches that they are made of.

use crate::aggregation::{Member, Side};
use crate::error::{Error, Location, validate_length};
use crate::gdpo::{self, RewardComponent, component_advantages};
use crate::{Advantage, Aggregation, Constants, Normalizer, Settings, advantages};

/// The largest absolute value of an advantage, far above what any allowed reward leads to.
const MAX_ADVANTAGE: f64 = 1e30;

/// The contribution of a group to the counts of its mini-batch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GroupCounts {
    /// Responses with at least one trainable token, the G of the formulas.
    pub responses: usize,
    /// Trainable tokens of the group, N_g. A group with none is not counted in P.
    pub tokens: usize,
    /// The sum of T^-alpha over its responses, its part of Q.
    pub length_powers: f64,
    /// The sum of A^2 over its responses with a trainable token.
    pub advantage_squares: f64,
}

impl GroupCounts {
    /// Counts a group. `advantages` and `trainable_tokens` have one number for each response; `trainable_tokens` is 0
    /// for an invalid one.
    #[must_use]
    pub fn of(advantages: &[f64], trainable_tokens: &[usize], constants: Constants) -> Self {
        let trained = advantages.iter().zip(trainable_tokens).filter(|(_, tokens)| **tokens > 0);
        Self {
            advantage_squares: trained.map(|(advantage, _)| advantage * advantage).sum(),
            responses: trainable_tokens.iter().filter(|tokens| **tokens > 0).count(),
            tokens: trainable_tokens.iter().sum(),
            length_powers: trainable_tokens.iter().map(|&tokens| constants.length_power(tokens)).sum(),
        }
    }
}

/// The counts of a mini-batch, the groups of one update, from which the normalizer of every weight follows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MiniBatchCounts {
    /// Groups with a trainable token, P.
    pub groups: usize,
    /// Responses with a trainable token.
    pub responses: usize,
    /// Number of trainable tokens, N.
    pub tokens: usize,
    /// The sum of T^-alpha over the responses, Q.
    pub length_powers: f64,
    /// The sum of A^2 over the responses.
    pub advantage_squares: f64,
}

impl MiniBatchCounts {
    /// Adds the counts of a group.
    pub fn add(&mut self, group: GroupCounts) {
        self.groups += usize::from(group.tokens > 0);
        self.responses += group.responses;
        self.tokens += group.tokens;
        self.length_powers += group.length_powers;
        self.advantage_squares += group.advantage_squares;
    }

    /// The mini-batch normalizer of a rule: 1 over the count that its [`Normalizer`] names; 0 if nothing is trainable.
    ///
    /// Terms weighted by [`regularizer_weights`] use that of [`Aggregation::Token`], whatever rule is in use.
    #[must_use]
    pub fn normalizer(&self, aggregation: Aggregation) -> f64 {
        let count = match aggregation.normalizer() {
            Normalizer::Groups => self.groups as f64,
            Normalizer::Tokens => self.tokens as f64,
            Normalizer::Lengths => self.length_powers,
        };
        if count == 0.0 { 0.0 } else { 1.0 / count }
    }

    /// What the parts of policy weights are multiplied by once the mini-batch is complete: its normalizer, and under
    /// `gdpo` the factor of its advantages.
    #[must_use]
    pub fn policy_scale(&self, aggregation: Aggregation, advantage: Advantage) -> f64 {
        let of_advantages = match advantage {
            Advantage::Gdpo => gdpo::scale(self.responses, self.advantage_squares),
            _ => 1.0,
        };
        self.normalizer(aggregation) * of_advantages
    }
}

impl Extend<GroupCounts> for MiniBatchCounts {
    fn extend<I: IntoIterator<Item = GroupCounts>>(&mut self, groups: I) {
        groups.into_iter().for_each(|group| self.add(group));
    }
}

impl FromIterator<GroupCounts> for MiniBatchCounts {
    fn from_iter<I: IntoIterator<Item = GroupCounts>>(groups: I) -> Self {
        let mut counts = Self::default();
        counts.extend(groups);
        counts
    }
}

/// What depends on one group alone: its advantages and its parts of all weights, with one element for each response.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupTerms {
    /// Advantage of each response: see [`advantages`].
    pub advantages: Vec<f64>,
    /// The group's part of the policy weight of a token: see [`group_weights`].
    pub weights: Vec<f64>,
    /// The group's part of the weight of KL and entropy terms of a token: see [`regularizer_weights`].
    pub regularizer_weights: Vec<f64>,
    /// The group's part of the counts of its mini-batch.
    pub counts: GroupCounts,
}

impl GroupTerms {
    /// Computes the terms of a group from its rewards, whether each response is valid, and the numbers of trainable
    /// tokens: 0 for an invalid response.
    ///
    /// # Errors
    /// Slices of different lengths; a valid reward that is out of range; `max_tokens` 0 with a rule that divides by it.
    pub fn of(settings: &Settings, rewards: &[f64], valid: &[bool], trainable_tokens: &[usize]) -> Result<Self, Error> {
        Self::with_components(settings, rewards, &[], valid, trainable_tokens)
    }

    /// Computes the terms of a group whose rewards are sums of components, which `gdpo` normalises one by one. Without
    /// components, the reward is the only one.
    ///
    /// # Errors
    /// As [`Self::of`]; a component of another length, or out of range.
    pub fn with_components(
        settings: &Settings,
        rewards: &[f64],
        components: &[RewardComponent],
        valid: &[bool],
        trainable_tokens: &[usize],
    ) -> Result<Self, Error> {
        let [mut advantage, mut weights, mut regularizer] = [(); 3].map(|()| vec![0.0; rewards.len()]);
        match settings.advantage {
            Advantage::Gdpo if !components.is_empty() => component_advantages(components, valid, &mut advantage)?,
            mode => advantages(mode, rewards, valid, &mut advantage)?,
        }
        let constants = settings.constants();
        let counts = group_weights(settings.aggregation, &advantage, trainable_tokens, constants, &mut weights)?;
        regularizer_weights(trainable_tokens, &mut regularizer)?;
        Ok(Self { advantages: advantage, weights, regularizer_weights: regularizer, counts })
    }
}

/// Writes the group's part of the weight of each response's tokens, and returns the group's counts.
///
/// `advantages`, `trainable_tokens` and `out` have one element for each response; `trainable_tokens` is 0 for an
/// invalid one. A response without a trainable token has weight 0, and so does one
/// with advantage 0 under `sides` and the balanced rules, since it is on neither side.
///
/// # Errors
/// Slices of different lengths; an advantage that is not finite or exceeds 1e30 in absolute value; `max_tokens` 0 with
/// a rule that divides by it.
pub fn group_weights(
    aggregation: Aggregation,
    advantages: &[f64],
    trainable_tokens: &[usize],
    constants: Constants,
    out: &mut [f64],
) -> Result<GroupCounts, Error> {
    validate_length("advantages", advantages.len(), "trainable_tokens", trainable_tokens.len())?;
    validate_length("weights", out.len(), "trainable_tokens", trainable_tokens.len())?;
    if aggregation.uses_max_tokens() && constants.max_tokens == 0 {
        return Err(Error::refused("max_tokens", 0, format!("at least 1 with {aggregation}")));
    }
    let dial = (aggregation == Aggregation::Sides).then(|| constants.sides.unwrap_or_default());
    let mut positive = Side::default();
    let mut negative = Side::default();
    let neither = Side::default();
    for (i, (&advantage, &tokens)) in advantages.iter().zip(trainable_tokens).enumerate() {
        // Below the limit no sum overflows.
        if advantage.is_nan() || advantage.abs() > MAX_ADVANTAGE {
            let allowed = "a finite number up to 1e30 in magnitude";
            return Err(Error::refused("advantage", advantage, allowed).within(Location::response(i)));
        }
        if tokens > 0 && advantage != 0.0 {
            if advantage > 0.0 { &mut positive } else { &mut negative }.add(advantage, tokens, dial);
        }
    }
    let counts = GroupCounts::of(advantages, trainable_tokens, constants);
    let responses = counts.responses as f64;
    let group_tokens = counts.tokens as f64;
    let part = aggregation.rule().part;
    for ((out, &advantage), &tokens) in out.iter_mut().zip(advantages).zip(trainable_tokens) {
        let side = match advantage {
            0.0 => &neither,
            advantage if advantage > 0.0 => &positive,
            _ => &negative,
        };
        let is_positive = advantage > 0.0;
        let member = Member { responses, group_tokens, tokens, side, is_positive, constants };
        *out = if tokens == 0 { 0.0 } else { part(&member) };
    }
    Ok(counts)
}

/// Writes the group's part of the weights of KL and entropy terms: those of `token`, over all valid responses, whatever
/// the aggregation. Their normalizer is that of [`Aggregation::Token`].
///
/// `trainable_tokens` and `out` have one element for each response; `trainable_tokens` is 0 for an invalid one.
///
/// # Errors
/// Slices of different lengths.
pub fn regularizer_weights(trainable_tokens: &[usize], out: &mut [f64]) -> Result<(), Error> {
    validate_length("weights", out.len(), "trainable_tokens", trainable_tokens.len())?;
    let group_tokens: usize = trainable_tokens.iter().sum();
    for (out, &tokens) in out.iter_mut().zip(trainable_tokens) {
        *out = if tokens == 0 { 0.0 } else { 1.0 / group_tokens as f64 };
    }
    Ok(())
}
