//! What services have and do in a simulated run.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_proto::v1::WeightsRef;

use super::simulation::TrainedStep;
use super::{EpisodeId, LoopEvent, PublishedWeights};
use crate::rollout::UpdateCounts;

/// What is under way outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Work {
    /// A segment that the generation service has not accepted, and one that it has.
    Sent(EpisodeId, bool),
    Sampled(EpisodeId, bool, UpdateCounts),
    /// All episodes of a prompt have their rewards.
    Finished(u64),
    /// An event that comes, where the engines keep the weights that it needs.
    Needs(u64, UpdateCounts, LoopEvent),
    /// An event that comes.
    Comes(LoopEvent),
}

/// What the services have.
#[derive(Default)]
pub(super) struct Outside {
    pub(super) work: Vec<Work>,
    /// The versions that sampled each episode of a prompt, and the episodes that are whole.
    pub(super) versions: BTreeMap<u64, Vec<Vec<u64>>>,
    pub(super) whole: BTreeMap<u64, u32>,
    pub(super) open: BTreeMap<u64, TrainedStep>,
    /// Prompts of each step whose samples the audit has chosen and that are not finished.
    pub(super) chosen: BTreeMap<u64, BTreeSet<u64>>,
    pub(super) seeded_by: BTreeMap<u64, u64>,
    /// What waits for weights, by the number of its request.
    pub(super) lacking: BTreeMap<u64, Work>,
    pub(super) engines: Option<u64>,
    /// The weights that are proven, and those that each step is begun with.
    pub(super) proven: Option<u64>,
    pub(super) begun_with: BTreeMap<u64, u64>,
    pub(super) training: Option<u64>,
    pub(super) closed: BTreeSet<u64>,
    pub(super) stopped: bool,
}

impl Outside {
    /// Work stops until a request for weights is answered.
    pub(super) fn ask(&mut self, version: Option<u64>, seen: UpdateCounts, work: Work) -> LoopEvent {
        let request = self.lacking.last_key_value().map_or(0, |(last, _)| last + 1);
        self.lacking.insert(request, work);
        LoopEvent::WeightsMissing { request, version, seen }
    }

    /// The request is answered: the work goes on.
    pub(super) fn go_on(&mut self, request: u64, seen: UpdateCounts) {
        let again = match self.lacking.remove(&request) {
            Some(Work::Sampled(episode, is_last, _)) => Work::Sampled(episode, is_last, seen),
            Some(Work::Needs(version, _, event)) => Work::Needs(version, seen, event),
            other => panic!("{other:?} waits for no weights"),
        };
        self.work.push(again);
    }

    /// A group is finished. Returns whether all samples are there that the audit of its step has chosen.
    pub(super) fn finish(&mut self, prompt: u64) -> bool {
        let chosen = self.chosen.get_mut(&self.seeded_by[&prompt]);
        chosen.is_some_and(|chosen| {
            chosen.remove(&prompt);
            chosen.is_empty()
        })
    }
}

/// Weights as the learner publishes them.
pub(super) fn weights(version: u64) -> PublishedWeights {
    PublishedWeights::new(&WeightsRef::at_path(version, "sha256:ab", format!("/weights/{version}"), 1))
}
