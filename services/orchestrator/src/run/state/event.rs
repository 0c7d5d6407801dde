//! What happens to a run, and what it does next.

use serde::{Deserialize, Serialize};

use super::weights::PublishedWeights;
use crate::rollout::{MissingWeights, UpdateCounts};

/// One sample of one prompt: a response that is sampled in one segment or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct EpisodeId {
    /// Number of its prompt in the data order.
    pub(crate) prompt: u64,
    /// Number of the episode among the samples of that prompt.
    pub(crate) sample: u32,
}

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) enum LoopEvent {
    /// The generation service has accepted a segment of an episode.
    SegmentBegan(EpisodeId),
    /// A segment is sampled, and its response goes on.
    SegmentEnded(EpisodeId),
    /// The last segment of a response is sampled, or given up; the response is verified next.
    ResponseEnded(EpisodeId),
    /// All episodes of a prompt have their rewards, or have none for good.
    GroupFinished {
        /// Number of the prompt.
        prompt: u64,
        /// Whether nothing can be learned from it, since all rewards are the same.
        zero_advantage: bool,
        /// Whether every sample is there that the audit of its step has chosen.
        audit_is_ready: bool,
    },
    /// Nothing of a step is left to sample, what it has is good enough, and engines sleep where they share the
    /// learner's memory.
    Sampled(u64),
    /// The audited samples of a step are scored.
    Audited(u64),
    /// The generation service has accepted everything that was sent to it.
    Settled,
    /// The run has updated the engines to these weights.
    EnginesUpdated { version: u64 },
    /// The engines have these weights, and a proof of them is done where one is due.
    EnginesReady { version: u64 },
    /// An evaluation is over. One that a stop has cut short is not `complete`.
    Evaluated {
        /// Version of the weights.
        version: u64,
        /// Whether nothing is left of it.
        complete: bool,
    },
    /// Engines lack the weights of a sample or a proof, which waits for an answer.
    WeightsMissing {
        /// Number of the request among those that are not answered.
        request: u64,
        /// Version of the weights; `None` for those that the run has updated the engines to.
        version: Option<u64>,
        /// The updates of the engines when the sample or the proof began.
        seen: UpdateCounts,
    },
    /// The engines have these weights again.
    Restored { version: u64 },
    /// The learner has done the step.
    Trained(u64),
    /// The weights after the step are published.
    Published(PublishedWeights),
    /// The metrics line of the step is written.
    Recorded(u64),
    /// The checkpoint is written, where one was due.
    Kept,
    /// A stop is requested: the run ends after the step that is trained.
    Stop,
    /// The run ends at once, at the last whole step.
    AbandonStep,
}

impl LoopEvent {
    /// Whether it is of one episode alone.
    pub(super) fn is_of_segment(&self) -> bool {
        matches!(self, Self::SegmentBegan(_) | Self::SegmentEnded(_) | Self::ResponseEnded(_))
    }
}

/// Something to do. Each is answered by an event of [`LoopEvent`], but for those that only move what there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) enum Action {
    /// A step begins: its groups are sampled from now on.
    BeginStep(BegunStep),
    /// A prompt becomes a group of episodes, whose seeds are those of this step.
    StartGroup {
        /// The step that seeds name.
        step: u64,
        /// Number of the prompt.
        prompt: u64,
    },
    /// The next segment of an episode is sampled, by these weights; without a version by those that the engines have.
    Sample {
        episode: EpisodeId,
        /// Version of the weights.
        version: Option<u64>,
        /// Which of its segments it is, from 0.
        segment: u8,
        /// Whether no other follows, however long it gets.
        is_last: bool,
    },
    /// The step takes a finished group, which goes to the learner at this place.
    Take {
        step: u64,
        /// Number of the prompt.
        prompt: u64,
        /// Place of the group in the step, from 0.
        index: u32,
        /// Whether the group waits until the step is released.
        is_held: bool,
    },
    /// Dynamic sampling leaves a finished group out of the step.
    Drop {
        step: u64,
        /// Number of the prompt.
        prompt: u64,
    },
    /// The step has all its groups.
    Close(ClosedStep),
    /// The samples of the step that the audit has chosen are scored.
    Audit(u64),
    /// The learner gets the groups of the step that wait, in their order.
    Release(u64),
    /// What the audit saw of the step counts. Then the learner gets the groups that still wait, and is told that it has
    /// the last one.
    EndStep(u64),
    /// Answered once the generation service has accepted everything that is on its way to it: an update that overtook a
    /// sample would take its weights away.
    Settle,
    /// The engines get these weights. Samples that follow may ask for them.
    UpdateEngines { version: u64 },
    /// The weights that the engines have got are proven, where that is due.
    Prove { version: u64 },
    /// The engines get weights back that a request asked for.
    Restore {
        /// Number of the request.
        request: u64,
        /// Version of the weights.
        version: u64,
    },
    /// A request for weights is answered: who asked may try again.
    Answer {
        /// Number of the request.
        request: u64,
        /// Why the engines lacked the weights.
        cause: MissingWeights,
    },
    /// The weights are evaluated, which the engines have.
    Evaluate { version: u64 },
    /// The learner trains on the groups of a step, those that are there and those that come.
    Train(u64),
    /// The learner publishes its weights.
    Publish { version: u64 },
    /// The metrics line of a step is written.
    Record(u64),
    /// The checkpoint at the last recorded step is written, if it is due.
    Keep(Next),
    Finish {
        /// Whether all steps are done.
        completed: bool,
    },
}

/// How a step begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) struct BegunStep {
    pub(in crate::run) step: u64,
    /// Version of the weights that sample it, or its first groups.
    pub(in crate::run) version: u64,
    /// Number of its first prompt, where it has one in advance (in data order).
    pub(in crate::run) first_prompt: u64,
    /// Whether samples of it are audited.
    pub(in crate::run) is_audited: bool,
}

/// What a step was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) struct ClosedStep {
    pub(in crate::run) step: u64,
    /// Number of the prompt with which the data order goes on.
    pub(in crate::run) next_prompt: u64,
    /// Numbers before it that are in no step so far.
    pub(in crate::run) waiting: Vec<u64>,
    /// Groups without an advantage that fill it up.
    pub(in crate::run) filled_up: u64,
    /// Groups that later prompts of the data order overtook: these are in an earlier step.
    pub(in crate::run) overtaken: u64,
    /// The first prompt in the data order.
    pub(in crate::run) first_prompt: u64,
}

/// What follows a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) enum Next {
    Step,
    /// The end of the run, since all steps are done.
    End,
    /// The end of the run, since a stop is requested.
    Stop,
}
