//! Aggregation is weights: one weight for each trainable token, the same for all tokens of a response.
//!
//! A weight is a part that depends on the group alone times the normalizer of the mini-batch, the groups of one update.
//! [`group_weights`](crate::group_weights) computes the part as soon as a group is complete,
//! [`MiniBatchCounts`](crate::MiniBatchCounts) gives the normalizer (1/P, 1/N or 1/Q) after the last group. A learner
//! sums gradients weighted by the parts and multiplies by the normalizer once at the end.
//!
//! A new rule is a variant of [`Aggregation`], an arm of `Aggregation::rule` and a row in `docs/objective.md`.

use crate::names::{Refused, named};
use crate::sides::SideDial;

const REFUSED: &[Refused] = &[
    (
        &["seq-mean-token-sum"],
        "verl sums the tokens of a response and divides by the number of responses alone",
        "aggregation = sequence-sum with max_tokens = 1",
    ),
    (
        &["bnpo", "token-mean-legacy"],
        "the trainable tokens of each micro-batch divide, so that the loss depends on how a step is split",
        "batch-token, which is the same where one micro-batch holds the step",
    ),
    (&["token-sum"], "nothing divides, so that the learning rate depends on the size of a step", "batch-token"),
    (
        &["cispo", "gspo", "gmpo"],
        "the name of a policy term and not of an aggregation",
        "it as the policy, with aggregation = batch-token (cispo) or sequence (gspo, gmpo)",
    ),
    (&["sapo"], "the name of a policy term and not of an aggregation", "it as the policy, with aggregation = sequence"),
    (
        &["nsr", "w-reinforce"],
        "learning from wrong answers alone, or mostly",
        "aggregation = sides with side_ratio = 0 (nsr) or 0.1 (w-reinforce)",
    ),
    (&["vespo"], "a policy term of TRL that is not one of ours", "aggregation = sequence or batch-token"),
];

named! {
    /// How token terms are summed; each rule's weight, with its source, is in its arm of `Aggregation::rule`.
    Aggregation, field "aggregation", refused REFUSED, formula |rule: Self| rule.formula().to_owned(), {
        /// The mean over the tokens of each group, then over groups.
        Token = "token" ["prompt-mean"],
        /// The mean over the tokens of the mini-batch: verl's `token-mean`, TRL's `dapo`.
        BatchToken = "batch-token" ["token-mean", "dapo"],
        /// The mean over the tokens of each response, then over responses, then over groups.
        Sequence = "sequence" ["seq-mean-token-mean", "sequence-mean", "grpo"],
        /// As `sequence`, with the constant `max_tokens` instead of a response's length.
        SequenceSum = "sequence-sum" ["seq-mean-token-sum-norm", "dr-grpo"],
        /// Token means within the responses of each sign of the advantage, weighted by the sums of abs(A): balanced
        /// aggregation for any rewards.
        Balanced = "balanced" ["balanced-aggregation", "ba"],
        /// Token means within the responses of each sign of the advantage, weighted by the numbers of responses: equal
        /// to `balanced` when rewards are binary.
        BalancedCount = "balanced-count",
        /// The combination of the responses' gradients with the least variance, where that of one grows with its
        /// length (`vl_norm_alpha` = 1), or between it and `sequence-sum` (0): VL Norm, at first called Delta L
        /// Normalization.
        VlNorm = "vl-norm" ["delta-l-norm", "delta-l-normalization"],
        /// The sum over the tokens of each response, then the mean over responses, then over groups: GSPO with weights
        /// by length; only with `policy = "gspo"`.
        Luspo = "luspo",
        /// The family between `sequence` and `balanced`: `length_exponent` says how lengths count inside each side, and
        /// `side_ratio` multiplies the positive side.
        Sides = "sides",
    }
}

/// What turns the group's part of a weight into the weight: a count of the whole mini-batch that divides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalizer {
    /// One over the number of groups, 1/P.
    Groups,
    /// One over the number of trainable tokens, 1/N.
    Tokens,
    /// One over the sum of powers of lengths, 1/Q.
    Lengths,
}

/// A rule, whose weight is `part` over the count that `normalizer` names.
pub(crate) struct Rule {
    /// The weight of a token as one line of text.
    formula: &'static str,
    normalizer: Normalizer,
    /// The settings that are in the weight.
    constants: &'static [Constant],
    /// The part of the weight that depends on the group alone.
    pub(crate) part: fn(&Member<'_>) -> f64,
}

/// A setting that is in a weight.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constant {
    MaxTokens,
    VlNormAlpha,
    LengthExponent,
}

/// A response with a trainable token in its group.
pub(crate) struct Member<'a> {
    /// Responses of the group with a trainable token, G.
    pub(crate) responses: f64,
    /// Trainable tokens of the group, N_g.
    pub(crate) group_tokens: f64,
    /// Trainable tokens of the response, T_i.
    pub(crate) tokens: usize,
    /// The responses on its side; without any if its advantage is 0.
    pub(crate) side: &'a Side,
    /// Whether its advantage is above 0.
    pub(crate) is_positive: bool,
    pub(crate) constants: Constants,
}

impl Aggregation {
    /// P groups with a trainable token in the mini-batch, N trainable tokens in the mini-batch; in a group, G responses
    /// with a trainable token, T_i of them in response i, N_g in all; s the side of A_i's sign; Q the sum of T^-alpha
    /// over the responses of the mini-batch. J_token, J_seq and J_BA are the objectives of arXiv 2605.04077.
    pub(crate) const fn rule(self) -> Rule {
        use Normalizer::{Groups, Lengths, Tokens};
        match self {
            // J_token; DAPO as published, arXiv 2503.14476, eq. 8; SkyRL's `prompt_mean`.
            Self::Token => Rule {
                formula: "1 / (P N_g)",
                normalizer: Groups,
                constants: &[],
                part: |member| 1.0 / member.group_tokens,
            },
            // verl's `token-mean`.
            Self::BatchToken => Rule { formula: "1 / N", normalizer: Tokens, constants: &[], part: |_| 1.0 },
            // J_seq; GRPO, arXiv 2402.03300, eq. 3.
            Self::Sequence => Rule {
                formula: "1 / (P G T_i)",
                normalizer: Groups,
                constants: &[],
                part: |member| 1.0 / (member.responses * member.tokens as f64),
            },
            // Dr.GRPO, arXiv 2503.20783.
            Self::SequenceSum => Rule {
                formula: "1 / (P G max_tokens)",
                normalizer: Groups,
                constants: &[Constant::MaxTokens],
                part: |member| 1.0 / (member.responses * member.constants.max_tokens as f64),
            },
            // J_BA for any rewards: appendix B.
            Self::Balanced => Rule {
                formula: "M_s / (P G Z_s), M_s = sum of abs(A), Z_s = sum of abs(A) T over the side of A's sign",
                normalizer: Groups,
                constants: &[],
                part: |member| member.side.share(member.responses, |side| (side.advantage, side.advantage_tokens)),
            },
            // J_BA as in the main text.
            Self::BalancedCount => Rule {
                formula: "k_s / (P G N_s), k_s responses with N_s tokens on the side of A's sign",
                normalizer: Groups,
                constants: &[],
                part: |member| member.side.share(member.responses, |side| (side.responses, side.tokens)),
            },
            // VL Norm, arXiv 2509.07558. Its M is the longest response and its sum goes over all responses of a
            // mini-batch, as in its authors' program.
            Self::VlNorm => Rule {
                formula: "T_i^-alpha / (max_tokens Q), Q = sum of T^-alpha over the mini-batch",
                normalizer: Lengths,
                constants: &[Constant::MaxTokens, Constant::VlNormAlpha],
                part: |member| member.constants.length_power(member.tokens) / member.constants.max_tokens as f64,
            },
            // LUSPO, arXiv 2602.05261: `luspo.rs` says why the length of a response is a weight.
            Self::Luspo => {
                Rule { formula: "1 / (P G)", normalizer: Groups, constants: &[], part: |member| 1.0 / member.responses }
            }
            // `sides.rs` has the formula with its sources.
            Self::Sides => Rule {
                formula: "r_s M_s T_i^(e - 1) / (P G sum of abs(A) T^e), M_s and the sum of abs(A) T^e over the side of \
                          A's sign, r_s = r for A > 0 and 1 for A < 0",
                normalizer: Groups,
                constants: &[Constant::LengthExponent],
                part: |member| {
                    let of_side = |side: &Side| (side.advantage, side.advantage_lengths);
                    let of_side = member.side.share(member.responses, of_side);
                    member.constants.sides.unwrap_or_default().weight(member.is_positive, of_side, member.tokens)
                },
            },
        }
    }

    /// The weight of a token as one line of text.
    #[must_use]
    pub const fn formula(self) -> &'static str {
        self.rule().formula
    }

    /// The formula of [`formula`](Self::formula), with the values of the constants in it.
    pub(crate) fn formula_with(self, constants: Constants) -> String {
        let Rule { formula, constants: named, .. } = self.rule();
        let assignment = |constant: &Constant| match constant {
            Constant::MaxTokens => format!("max_tokens = {}", constants.max_tokens),
            Constant::VlNormAlpha => format!("alpha = {}", constants.vl_norm_alpha),
            Constant::LengthExponent => format!("e = {}", constants.sides.unwrap_or_default().length_exponent),
        };
        match named.iter().map(assignment).collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => formula.to_owned(),
            numbers => format!("{formula} with {numbers}"),
        }
    }

    /// The count of the whole mini-batch that divides the group's part.
    #[must_use]
    pub const fn normalizer(self) -> Normalizer {
        self.rule().normalizer
    }

    /// Whether the weight is divided by the setting `max_tokens`.
    #[must_use]
    pub fn uses_max_tokens(self) -> bool {
        self.rule().constants.contains(&Constant::MaxTokens)
    }
}

/// The numbers of the settings that enter weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constants {
    /// The length in the rules that divide by `max_tokens`, in tokens.
    pub max_tokens: usize,
    /// The exponent of `vl-norm`, 0 to 1.
    pub vl_norm_alpha: f64,
    /// The numbers of `sides`; absent where that rule is not asked for.
    pub sides: Option<SideDial>,
}

impl Constants {
    /// T^-alpha, with the same bits on every machine; 0 for a response without a trainable token.
    pub(crate) fn length_power(self, tokens: usize) -> f64 {
        if tokens == 0 { 0.0 } else { libm::pow(tokens as f64, -self.vl_norm_alpha) }
    }
}

/// Sums over the responses of a group whose advantages have one sign.
#[derive(Clone, Copy, Default)]
pub(crate) struct Side {
    /// Responses of the side, k_s.
    pub(crate) responses: f64,
    /// N_s, the sum of T.
    tokens: f64,
    /// M_s, the sum of abs(A).
    advantage: f64,
    /// Z_s, the sum of abs(A) T.
    advantage_tokens: f64,
    /// The sum of abs(A) T^e under `sides`.
    advantage_lengths: f64,
}

impl Side {
    /// Adds a response with a trainable token; `dial` is that of `sides`.
    pub(crate) fn add(&mut self, advantage: f64, tokens: usize, dial: Option<SideDial>) {
        self.responses += 1.0;
        self.tokens += tokens as f64;
        self.advantage += advantage.abs();
        let advantage_tokens = advantage.abs() * tokens as f64;
        self.advantage_tokens += advantage_tokens;
        self.advantage_lengths += dial.map_or(0.0, |dial| advantage_tokens * dial.length_factor(tokens));
    }

    /// A size of the side over `responses` times its extent in tokens; 0 for no side.
    fn share(&self, responses: f64, size_and_tokens: fn(&Self) -> (f64, f64)) -> f64 {
        let (size, tokens) = size_and_tokens(self);
        if self.responses == 0.0 { 0.0 } else { size / (responses * tokens) }
    }
}
