//! Aggregation is weights: one weight for each trainable token, the same for all tokens of a response.
//!
//! A weight is a part that depends on the group alone times a scalar of the step. [`group_weights`] computes
//! the part as soon as a group is complete, [`StepCounts::scale`] the scalar (1/P, 1/N or 1/Q) after the last group. A
//! learner sums gradients weighted by the parts and multiplies by the scalar once at the end.
//!
//! A new rule is a variant of [`Aggregation`], an arm in each `match` of its methods and a row in `docs/objective.md`.

use crate::error::{Error, Location, validate_length};
use crate::names::{Refused, canonical, named};

/// verl's name for a sum over tokens and a mean over responses: `sequence-sum` with `max_tokens` = 1.
const TOKEN_SUM_ALIAS: &str = "seq-mean-token-sum";

const REFUSED: &[Refused] = &[
    (
        &[TOKEN_SUM_ALIAS],
        "verl sums the tokens of a response and divides by the number of responses alone",
        "aggregation = sequence-sum with max_tokens = 1 (whole settings accept the alias and set both)",
    ),
    (
        &["bnpo", "token-mean-legacy"],
        "the trainable tokens of each micro-batch divide, so that the loss depends on how a step is split",
        "batch-token, which is the same where one micro-batch holds the step",
    ),
    (&["token-sum"], "nothing divides, so that the learning rate depends on the size of a step", "batch-token"),
    (
        &["luspo"],
        "TRL multiplies each response's mean by its length and takes the ratio of the sequence",
        "policy = gspo with aggregation = sequence-sum and max_tokens = 1",
    ),
    (
        &["cispo", "gspo", "gmpo"],
        "the name of a policy term and not of an aggregation",
        "it as the policy, with aggregation = batch-token (cispo) or sequence (gspo, gmpo)",
    ),
    (&["sapo", "vespo"], "a policy term of TRL that is not one of ours", "aggregation = sequence or batch-token"),
];

named! {
    /// How token terms are summed. P groups with a trainable token in the step, N trainable tokens in the step; in a
    /// group, G responses with a trainable token, T_i of them in response i, N_g in all; s the side of A_i's sign; Q the sum
    /// of T^-alpha over the responses of the step.
    Aggregation, field "aggregation", refused REFUSED, {
        /// `1 / (P N_g)`: the mean over the tokens of a group, J_token of arXiv 2605.04077 (DAPO as published, arXiv
        /// 2503.14476, eq. 8; SkyRL's `prompt_mean`).
        Token = "token" ["prompt-mean"],
        /// `1 / N`: the mean over the tokens of the step, verl's `token-mean`, TRL's `dapo`.
        BatchToken = "batch-token" ["token-mean", "dapo"],
        /// `1 / (P G T_i)`: the mean over responses of the mean over tokens, J_seq (GRPO, arXiv 2402.03300, eq. 3).
        Sequence = "sequence" ["seq-mean-token-mean", "sequence-mean", "grpo"],
        /// `1 / (P G max_tokens)`: a constant in the place of the length (Dr.GRPO, arXiv 2503.20783).
        SequenceSum = "sequence-sum" ["seq-mean-token-sum-norm", "dr-grpo"],
        /// `M_s / (P G Z_s)`, M_s the sum of abs(A) over the side and Z_s that of abs(A) T: balanced aggregation for any
        /// rewards (arXiv 2605.04077, appendix B).
        Balanced = "balanced" ["balanced-aggregation", "ba"],
        /// `k_s / (P G N_s)`, k_s responses and N_s tokens on the side: J_BA as in the main text of arXiv 2605.04077;
        /// equal to `balanced` when rewards are binary.
        BalancedCount = "balanced-count",
        /// `T_i^-alpha / (max_tokens Q)`: the combination of the responses' gradients with the least variance, where that of
        /// one grows with its length (alpha = 1), or between it and `sequence-sum` (alpha = 0). VL Norm, at first called
        /// Delta L Normalization (arXiv 2509.07558; as in its authors' program, M is the longest answer and the sum goes
        /// over all responses of a step).
        VlNorm = "vl-norm" ["delta-l-norm", "delta-l-normalization"],
    }
}

/// The divisor of a weight that depends on the whole step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalizer {
    /// 1/P.
    Groups,
    /// 1/N.
    Tokens,
    /// 1/Q.
    Lengths,
}

impl Aggregation {
    /// The weight of a token as one line of text.
    #[must_use]
    pub const fn formula(self) -> &'static str {
        match self {
            Self::Token => "1 / (P N_g)",
            Self::BatchToken => "1 / N",
            Self::Sequence => "1 / (P G T_i)",
            Self::SequenceSum => "1 / (P G max_tokens)",
            Self::Balanced => "M_s / (P G Z_s), M_s = sum of abs(A), Z_s = sum of abs(A) T over the side of A's sign",
            Self::BalancedCount => "k_s / (P G N_s), k_s responses with N_s tokens on the side of A's sign",
            Self::VlNorm => "T_i^-alpha / (max_tokens Q), Q = sum of T^-alpha over the step",
        }
    }

    /// The same, with the constants that are in it.
    pub(crate) fn formula_with(self, constants: Constants) -> String {
        let Constants { max_tokens, vl_norm_alpha } = constants;
        let formula = self.formula();
        match self {
            Self::SequenceSum => format!("{formula} with max_tokens = {max_tokens}"),
            Self::VlNorm => format!("{formula} with max_tokens = {max_tokens}, alpha = {vl_norm_alpha}"),
            _ => formula.to_owned(),
        }
    }

    /// The part of the weight that depends on the group alone, for each token of a response with T of them.
    ///
    /// If the advantage is 0 the response has no side, and the balanced rules give 0.
    fn group_part(self, group: GroupCounts, side: &Side, tokens: usize, constants: Constants) -> f64 {
        let (responses, group_tokens) = (group.responses as f64, group.tokens as f64);
        let max_tokens = constants.max_tokens as f64;
        match self {
            Self::Token => 1.0 / group_tokens,
            Self::BatchToken => 1.0,
            Self::Sequence => 1.0 / (responses * tokens as f64),
            Self::SequenceSum => 1.0 / (responses * max_tokens),
            Self::Balanced | Self::BalancedCount if side.responses == 0.0 => 0.0,
            Self::Balanced => side.advantage / (responses * side.advantage_tokens),
            Self::BalancedCount => side.responses / (responses * side.tokens),
            Self::VlNorm => constants.length_power(tokens) / max_tokens,
        }
    }

    /// The divisor of the group's part that depends on the whole step.
    #[must_use]
    pub const fn normalizer(self) -> Normalizer {
        match self {
            Self::BatchToken => Normalizer::Tokens,
            Self::VlNorm => Normalizer::Lengths,
            _ => Normalizer::Groups,
        }
    }

    /// Whether the weight is divided by the setting `max_tokens`.
    #[must_use]
    pub const fn uses_max_tokens(self) -> bool {
        matches!(self, Self::SequenceSum | Self::VlNorm)
    }

    /// The rule of this name, and the `max_tokens` that the name implies: verl's `seq-mean-token-sum` is
    /// `sequence-sum` with `max_tokens` 1.
    pub(crate) fn with_implied_max_tokens(name: &str) -> Result<(Self, Option<usize>), Error> {
        match name.parse() {
            Ok(aggregation) => Ok((aggregation, None)),
            Err(Error::OtherFormula { .. }) if canonical(name) == TOKEN_SUM_ALIAS => Ok((Self::SequenceSum, Some(1))),
            Err(error) => Err(error),
        }
    }
}

/// The numbers of the settings that enter weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constants {
    /// The length by which `sequence-sum` and `vl-norm` divide, in tokens.
    pub max_tokens: usize,
    /// The exponent of `vl-norm`, 0 to 1.
    pub vl_norm_alpha: f64,
}

impl Constants {
    /// T^-alpha; 0 for a response without a trainable token.
    fn length_power(self, tokens: usize) -> f64 {
        if tokens == 0 { 0.0 } else { (tokens as f64).powf(-self.vl_norm_alpha) }
    }
}

/// The largest absolute value of an advantage, far above what any allowed reward leads to.
const MAX_ADVANTAGE: f64 = 1e30;

/// The contribution of a group to the counts of its step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GroupCounts {
    /// Responses with at least one trainable token, the G of the formulas.
    pub responses: usize,
    /// Trainable tokens of the group, N_g. A group with none is not counted in P.
    pub tokens: usize,
    /// The sum of T^-alpha over its responses, its part of Q.
    pub length_powers: f64,
}

impl GroupCounts {
    /// Counts a group. `trainable_tokens` has one number for each response, 0 for an invalid one.
    #[must_use]
    pub fn of(trainable_tokens: &[usize], constants: Constants) -> Self {
        Self {
            responses: trainable_tokens.iter().filter(|tokens| **tokens > 0).count(),
            tokens: trainable_tokens.iter().sum(),
            length_powers: trainable_tokens.iter().map(|&tokens| constants.length_power(tokens)).sum(),
        }
    }
}

/// The counts of a step, from which the scalar of every weight follows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepCounts {
    /// Groups with a trainable token, P.
    pub groups: usize,
    /// Responses with a trainable token.
    pub responses: usize,
    /// Trainable tokens, N.
    pub tokens: usize,
    /// The sum of T^-alpha over the responses, Q.
    pub length_powers: f64,
}

impl StepCounts {
    /// Adds a group.
    pub fn add(&mut self, group: GroupCounts) {
        self.groups += usize::from(group.tokens > 0);
        self.responses += group.responses;
        self.tokens += group.tokens;
        self.length_powers += group.length_powers;
    }

    /// The scalar of the step: 1/N for `batch-token`, 1/Q for `vl-norm`, 1/P for every other rule; 0 if nothing is trainable.
    ///
    /// Terms weighted by [`regularizer_weights`] use the scalar of [`Aggregation::Token`], whatever rule is in use.
    #[must_use]
    pub fn scale(&self, aggregation: Aggregation) -> f64 {
        let count = match aggregation.normalizer() {
            Normalizer::Groups => self.groups as f64,
            Normalizer::Tokens => self.tokens as f64,
            Normalizer::Lengths => self.length_powers,
        };
        if count == 0.0 { 0.0 } else { 1.0 / count }
    }
}

impl Extend<GroupCounts> for StepCounts {
    fn extend<I: IntoIterator<Item = GroupCounts>>(&mut self, groups: I) {
        groups.into_iter().for_each(|group| self.add(group));
    }
}

impl FromIterator<GroupCounts> for StepCounts {
    fn from_iter<I: IntoIterator<Item = GroupCounts>>(groups: I) -> Self {
        let mut counts = Self::default();
        counts.extend(groups);
        counts
    }
}

/// Sums over the responses of a group whose advantages have one sign.
#[derive(Clone, Copy, Default)]
struct Side {
    /// k_s.
    responses: f64,
    /// N_s, the sum of T.
    tokens: f64,
    /// M_s, the sum of abs(A).
    advantage: f64,
    /// Z_s, the sum of abs(A) T.
    advantage_tokens: f64,
}

impl Side {
    fn add(&mut self, advantage: f64, tokens: usize) {
        self.responses += 1.0;
        self.tokens += tokens as f64;
        self.advantage += advantage.abs();
        self.advantage_tokens += advantage.abs() * tokens as f64;
    }
}

/// Writes the group's part of the weight of each response's tokens, and returns the group's counts.
///
/// `advantages`, `trainable_tokens` and `out` have one element for each response; `trainable_tokens` is 0 for an
/// invalid one. A response without a trainable token has weight 0, and so does one
/// with advantage 0 under the balanced rules, since it is on neither side.
///
/// # Errors
/// Slices of different lengths; an advantage that is not finite or exceeds 1e30 in absolute value; `max_tokens` 0 with
/// `sequence-sum` or `vl-norm`.
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
    let (mut positive, mut negative, neither) = (Side::default(), Side::default(), Side::default());
    for (i, (&advantage, &tokens)) in advantages.iter().zip(trainable_tokens).enumerate() {
        // Below the limit no sum overflows.
        if advantage.is_nan() || advantage.abs() > MAX_ADVANTAGE {
            let allowed = "a finite number up to 1e30 in size";
            return Err(Error::refused("advantage", advantage, allowed).within(Location::response(i)));
        }
        if tokens > 0 && advantage != 0.0 {
            if advantage > 0.0 { &mut positive } else { &mut negative }.add(advantage, tokens);
        }
    }
    let counts = GroupCounts::of(trainable_tokens, constants);
    for ((out, &advantage), &tokens) in out.iter_mut().zip(advantages).zip(trainable_tokens) {
        let side = match advantage {
            0.0 => &neither,
            advantage if advantage > 0.0 => &positive,
            _ => &negative,
        };
        *out = if tokens == 0 { 0.0 } else { aggregation.group_part(counts, side, tokens, constants) };
    }
    Ok(counts)
}

/// Writes the group's part of the weights of KL and entropy terms: those of `token`, over all valid responses, whatever
/// the aggregation. Their scalar is [`StepCounts::scale`] of [`Aggregation::Token`].
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
