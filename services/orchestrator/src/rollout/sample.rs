//! One sample of a group, with what became of it.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_proto::v1::{FinishReason, Outcome, Segment, SegmentSource, TurnContext};
use evenkeel_proto::{Label, NoReward};
use evenkeel_run::{RolloutSegment, RolloutTurn, TurnPrompt, tokens_digest};

use super::played::EpisodeRecord;

/// The reason of verdicts on answers that are copied from their prompt.
pub(crate) const COPIED: &str = "copied";

/// The parts of a shaped reward by name.
pub(crate) type Components = BTreeMap<String, RewardPart>;

/// A part of a shaped reward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RewardPart {
    /// Weight in the sum; 0 where the part is only measured.
    pub(crate) weight: f64,
    /// The value before the weight.
    pub(crate) value: f64,
}

/// What became of a sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SampleStatus {
    /// The sample has a verdict. `outcome` says whether the answer is correct, by the rule of the settings if they have
    /// one.
    Valid { outcome: Outcome, rewards: Rewards, components: Components },
    /// The sample was generated, but has no verdict, for a reason that is not its own. `late`: the reason was time.
    Invalid { reason: String, late: bool },
    /// The sample could not be generated, or its environment failed. `late`: the reason was time.
    Failed { message: String, late: bool, unscored: Option<Unscored> },
}

impl SampleStatus {
    pub(crate) fn rewards(&self) -> Option<Rewards> {
        match self {
            Self::Valid { rewards, .. } => Some(*rewards),
            _ => None,
        }
    }

    /// Why the sample is left out, in one line. `None` where it has a verdict.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure_in_full().map(|failure| failure.lines().next().unwrap_or_default())
    }

    /// Why the sample is left out, with the traceback of the user's own code where there is one.
    pub(crate) fn failure_in_full(&self) -> Option<&str> {
        match self {
            Self::Valid { .. } => None,
            Self::Invalid { reason, .. } => Some(reason),
            Self::Failed { message, .. } => Some(message),
        }
    }

    /// The outcome of its verification; `invalid` without one, `failed` without an answer.
    pub(crate) fn verdict(&self) -> &'static str {
        match self {
            Self::Valid { outcome, .. } => outcome.label(),
            Self::Invalid { .. } => "invalid",
            Self::Failed { .. } => "failed",
        }
    }
}

/// An episode whose environment failed: what the model said until then, which nobody has judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unscored {
    pub(crate) answer: AnswerLook,
    /// Whether the environment's own code failed, such as by an exception.
    pub(crate) is_crash: bool,
}

/// What an answer looks like from outside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AnswerLook {
    /// Tokens that were sampled.
    pub(crate) tokens: usize,
    pub(crate) is_truncated: bool,
    /// Whether it has a mark by which a final answer is found.
    pub(crate) is_marked: bool,
}

/// The reward before and after shaping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rewards {
    pub(crate) raw: f64,
    pub(crate) shaped: f64,
}

/// What a verdict says besides its outcome and reward.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct VerdictDetail {
    /// Stable, finer than the outcome, such as `equal_rational`.
    pub(crate) reason: String,
    /// For people; may be empty.
    pub(crate) detail: String,
    /// The answer or program that was judged.
    pub(crate) extracted: Option<String>,
    /// The answer in canonical form, where it has one.
    pub(crate) canonical: Option<String>,
}

/// A sample whose generation and verification are over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) id: String,
    /// The engines that sampled tokens of it; none where it failed.
    pub(crate) engines: BTreeSet<String>,
    /// Empty where it failed, and once they were taken for the learner.
    pub(crate) segments: Vec<Segment>,
    /// The prompts of turns that have their own.
    pub(crate) contexts: Vec<TurnContext>,
    pub(crate) finish_reason: FinishReason,
    /// The response as the verifier got it; empty where it failed, and where nobody keeps it.
    pub(crate) text: String,
    /// Whether that has a mark by which a final answer is found; the text may be gone.
    pub(crate) is_marked: bool,
    /// Which weights sampled which part of it.
    pub(crate) parts: Vec<RolloutSegment>,
    /// Mean log-probability of its sampled tokens by the engine; `None` without one.
    pub(crate) mean_log_probability: Option<f64>,
    /// Tokens of the response, of an episode with several turns those that were sampled; 0 where it failed.
    pub(crate) tokens: usize,
    pub(crate) status: SampleStatus,
    pub(crate) verdict_detail: VerdictDetail,
    /// Verifications after the first, as far as this side knows.
    pub(crate) verify_retries: u32,
    /// Generations after the first, as far as this side knows.
    pub(crate) rollout_retries: u32,
    /// Record of an episode with several turns.
    pub(crate) episode: Option<Box<EpisodeRecord>>,
}

/// Which weights sampled which part of a response.
pub(super) fn parts_of(segments: &[Segment]) -> Vec<RolloutSegment> {
    let part = |segment: &Segment| RolloutSegment {
        version: segment.policy_version,
        tokens: u32::try_from(segment.token_ids.len()).unwrap_or(u32::MAX),
    };
    segments.iter().map(part).collect()
}

/// The engines that sampled tokens of a response.
pub(crate) fn engines_of(segments: &[Segment]) -> BTreeSet<&str> {
    let sampled = segments.iter().filter(|segment| segment.source() == SegmentSource::Sampled);
    sampled.map(|segment| segment.engine.as_str()).collect()
}

/// Mean log-probability of the sampled tokens of a response.
pub(super) fn mean_log_probability(segments: &[Segment]) -> Option<f64> {
    let sampled = segments.iter().flat_map(|segment| &segment.log_probabilities);
    let (sum, count) = sampled.fold((0.0, 0_u64), |(sum, count), logp| (sum + f64::from(*logp), count + 1));
    Some(sum / count as f64).filter(|mean| mean.is_finite())
}

impl Sample {
    pub(crate) fn rewards(&self) -> Option<Rewards> {
        self.status.rewards()
    }

    /// Takes its tokens, without room that nothing is in. `None` where it has none.
    pub(super) fn take_segments(&mut self) -> Option<Vec<Segment>> {
        let mut segments = std::mem::take(&mut self.segments);
        for segment in &mut segments {
            segment.token_ids.shrink_to_fit();
            segment.log_probabilities.shrink_to_fit();
        }
        segments.shrink_to_fit();
        (!segments.is_empty()).then_some(segments)
    }

    /// Token ids of the answer; `None` where it has none, and once they were taken.
    pub(crate) fn token_ids(&self) -> Option<Vec<u32>> {
        self.of_tokens(|segment| segment.token_ids.clone())
    }

    /// The engine's log-probability of each of them; `None` for one that was not sampled.
    pub(crate) fn token_log_probabilities(&self) -> Option<Vec<Option<f32>>> {
        self.of_tokens(|segment| match &segment.log_probabilities[..] {
            [] => vec![None; segment.token_ids.len()],
            sampled => sampled.iter().copied().map(Some).collect(),
        })
    }

    /// The prompts of turns that have their own; none once its tokens were taken.
    pub(crate) fn turn_prompts(&self) -> Vec<TurnPrompt> {
        let tokens = |until: usize| self.segments[..until].iter().map(|segment| segment.token_ids.len()).sum::<usize>();
        let prompt = |context: &TurnContext| TurnPrompt {
            first: u32::try_from(tokens((context.segment as usize).min(self.segments.len()))).unwrap_or(u32::MAX),
            token_ids: context.token_ids.clone(),
        };
        if self.segments.is_empty() { Vec::new() } else { self.contexts.iter().map(prompt).collect() }
    }

    /// The digest of its tokens for the receipt; `None` where it has none.
    pub(super) fn tokens_digest(&self) -> Option<String> {
        let (ids, values) = self.token_ids().zip(self.token_log_probabilities())?;
        Some(tokens_digest(&self.parts, &ids, &values, &self.turn_prompts()))
    }

    fn of_tokens<T>(&self, of: impl Fn(&Segment) -> Vec<T>) -> Option<Vec<T>> {
        (!self.segments.is_empty()).then(|| self.segments.iter().flat_map(of).collect())
    }

    /// Drops its text, where nobody keeps it.
    pub(super) fn forget_text(&mut self) {
        self.text = String::new();
        if let Some(episode) = &mut self.episode {
            episode.turns = Vec::new();
        }
    }

    /// Turns of an episode in order; empty where there is only one.
    pub(crate) fn turns(&self) -> &[RolloutTurn] {
        self.episode.as_ref().map_or(&[], |episode| &episode.turns)
    }

    /// The budget that ended such an episode.
    pub(crate) fn used_up(&self) -> Option<&'static str> {
        Some(self.episode.as_ref()?.used_up?.name())
    }

    /// The parts of its shaped reward before their weights; none without a verdict.
    pub(crate) fn components(&self) -> impl Iterator<Item = (&str, f64)> {
        self.parts_of_reward().map(|(name, part)| (name, part.value))
    }

    /// Components by name, where there are several.
    pub(crate) fn several_components(&self) -> BTreeMap<String, f64> {
        let all: BTreeMap<_, _> = self.components().map(|(name, value)| (name.to_owned(), value)).collect();
        if all.len() > 1 { all } else { BTreeMap::new() }
    }

    /// The parts that its shaped reward is the weighted sum of; none without a verdict.
    pub(super) fn weighted_components(&self) -> impl Iterator<Item = (&str, RewardPart)> {
        self.parts_of_reward().filter(|(_, part)| part.weight != 0.0)
    }

    fn parts_of_reward(&self) -> impl Iterator<Item = (&str, RewardPart)> {
        let components = match &self.status {
            SampleStatus::Valid { components, .. } => Some(components),
            _ => None,
        };
        components.into_iter().flatten().map(|(name, part)| (name.as_str(), *part))
    }

    /// Whether its answer was refused because it is copied from the prompt.
    pub(crate) fn is_copied(&self) -> bool {
        self.rewards().is_some() && self.verdict_detail.reason == COPIED
    }

    /// The reason of its verdict, where that is undecided.
    pub(crate) fn undecided_reason(&self) -> Option<&str> {
        let is_undecided = matches!(self.status, SampleStatus::Valid { outcome: Outcome::Undecided, .. });
        let reason = self.verdict_detail.reason.as_str();
        is_undecided.then_some(if reason.is_empty() { "unknown" } else { reason })
    }

    /// Whether the answer is correct; `None` without a verdict, and where nobody says so.
    pub(crate) fn correct(&self) -> Option<bool> {
        match self.status {
            SampleStatus::Valid { outcome, .. } => outcome.correct(),
            _ => None,
        }
    }

    /// Whether it is left out because it or its verdict took too long.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self.status, SampleStatus::Invalid { late: true, .. } | SampleStatus::Failed { late: true, .. })
    }

    pub(crate) fn is_generated(&self) -> bool {
        !matches!(self.status, SampleStatus::Failed { .. })
    }

    /// What its answer looks like; `None` where nothing was sampled.
    pub(crate) fn look(&self) -> Option<AnswerLook> {
        let is_truncated = self.finish_reason == FinishReason::Length;
        match self.status {
            SampleStatus::Failed { unscored, .. } => {
                unscored.map(|unscored| unscored.answer).filter(|answer| answer.tokens > 0)
            }
            _ => Some(AnswerLook { tokens: self.tokens, is_truncated, is_marked: self.is_marked }),
        }
    }

    /// Whether its environment's own code failed.
    pub(crate) fn is_crash(&self) -> bool {
        matches!(self.status, SampleStatus::Failed { unscored: Some(Unscored { is_crash: true, .. }), .. })
    }

    /// The failure of a reward function that left it out.
    pub(crate) fn function_failure(&self) -> Option<NoReward> {
        let is_invalid = matches!(self.status, SampleStatus::Invalid { .. });
        let reason = NoReward::from_label(&self.verdict_detail.reason).filter(|_| is_invalid);
        reason.filter(|reason| reason.is_failure())
    }

    /// Why it is left out, in one line. `None` where it has a verdict.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.status.failure()
    }

    /// Why it is left out, with the traceback of the user's own code where there is one.
    pub(crate) fn failure_in_full(&self) -> Option<&str> {
        self.status.failure_in_full()
    }

    /// The outcome of its verification, as [`SampleStatus::verdict`] has it.
    pub(crate) fn verdict(&self) -> &'static str {
        self.status.verdict()
    }

    /// What became of it, as a label of metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self.status {
            SampleStatus::Valid { .. } => "valid",
            SampleStatus::Invalid { late: false, .. } => "invalid",
            SampleStatus::Failed { late: false, .. } => "failed",
            SampleStatus::Invalid { late: true, .. } | SampleStatus::Failed { late: true, .. } => "late",
        }
    }
}
