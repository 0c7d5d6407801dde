//! One sample of a group, with what became of it.

use std::collections::BTreeMap;

use evenkeel_proto::Label;
use evenkeel_proto::v1::{FinishReason, Outcome, Segment, TurnContext};
use evenkeel_run::{RolloutSegment, RolloutTurn};

use super::played::EpisodeRecord;

/// The reason of verdicts on answers that are copied from their prompt.
pub(crate) const COPIED: &str = "copied";

/// Reason codes of reward functions that failed. One that gives None says so on purpose.
const FUNCTION_FAILURES: [&str; 7] = [
    "reward_exception",
    "reward_timeout",
    "reward_crashed",
    "reward_not_a_number",
    "reward_out_of_range",
    "reward_file_fails",
    "reward_file_changed",
];

/// The parts of a shaped reward by name.
pub(crate) type Components = BTreeMap<String, RewardPart>;

/// A part of a shaped reward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RewardPart {
    /// Its weight in the sum; 0 where it is only measured.
    pub(crate) weight: f64,
    /// The value before the weight.
    pub(crate) value: f64,
}

/// What became of a sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SampleStatus {
    /// The sample has a verdict. Its outcome says whether the answer is correct, by the rule of the settings if they have
    /// one.
    Valid { outcome: Outcome, rewards: Rewards, components: Components },
    /// The sample was generated, but has no verdict, for a reason that is not its own. `late`: the reason was time.
    Invalid { reason: String, late: bool },
    /// The sample could not be generated. `late`: the reason was time.
    Failed { message: String, late: bool },
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
    /// The engine that sampled it, or its last part; empty where it failed.
    pub(crate) engine: String,
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
    /// Of an episode with several turns.
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

/// Mean log-probability of the sampled tokens of a response.
pub(super) fn mean_log_probability(segments: &[Segment]) -> Option<f64> {
    let sampled = segments.iter().flat_map(|segment| &segment.log_probabilities);
    let (sum, count) = sampled.fold((0.0, 0_u64), |(sum, count), logp| (sum + f64::from(*logp), count + 1));
    Some(sum / count as f64).filter(|mean| mean.is_finite())
}

impl Sample {
    pub(crate) fn rewards(&self) -> Option<Rewards> {
        match self.status {
            SampleStatus::Valid { rewards, .. } => Some(rewards),
            _ => None,
        }
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

    /// Something of each of its tokens, in order. `None` where it has none, and once they were taken.
    pub(crate) fn logged_tokens<T>(&self, of: impl Fn(&Segment) -> Vec<T>) -> Option<Vec<T>> {
        (!self.segments.is_empty()).then(|| self.segments.iter().flat_map(of).collect())
    }

    /// Drops its text, where nobody keeps it.
    pub(super) fn forget_text(&mut self) {
        self.text = String::new();
        if let Some(episode) = &mut self.episode {
            episode.turns = Vec::new();
        }
    }

    /// Of an episode with several turns what was said, in its order.
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

    /// The same by name, where there are several.
    pub(super) fn several_components(&self) -> BTreeMap<String, f64> {
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

    /// The reason code of a reward function's failure, where that left it out.
    pub(crate) fn function_failure(&self) -> Option<&str> {
        let code = self.verdict_detail.reason.as_str();
        let is_invalid = matches!(self.status, SampleStatus::Invalid { .. });
        (is_invalid && FUNCTION_FAILURES.contains(&code)).then_some(code)
    }

    /// Why it is left out. `None` where it has a verdict.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.status {
            SampleStatus::Valid { .. } => None,
            SampleStatus::Invalid { reason, .. } => Some(reason),
            SampleStatus::Failed { message, .. } => Some(message),
        }
    }

    /// The outcome of its verification; `invalid` without one, `failed` without an answer.
    pub(crate) fn verdict(&self) -> &'static str {
        match self.status {
            SampleStatus::Valid { outcome, .. } => outcome.label(),
            SampleStatus::Invalid { .. } => "invalid",
            SampleStatus::Failed { .. } => "failed",
        }
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
