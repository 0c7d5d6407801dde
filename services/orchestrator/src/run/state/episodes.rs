//! Groups of episodes: where each episode is, segment by segment.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::event::EpisodeId;

/// Where an episode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The engines do not have the weights of its next segment yet.
    Waiting,
    /// The next segment may be sampled.
    Ready,
    /// The segment is on its way to the generation service.
    Sent,
    /// The generation service has it.
    Sampling,
    /// The response is whole.
    Verifying,
}

/// The phases, in the order in which they are written.
const PHASES: [Phase; 5] = [Phase::Waiting, Phase::Ready, Phase::Sent, Phase::Sampling, Phase::Verifying];
/// The letter of the first segment in the first phase.
const FIRST_LETTER: u32 = 'a' as u32;

/// The response to a prompt, as far as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SampledEpisode {
    /// The segment that is sampled, or that is next, from 0.
    pub(super) segment: u8,
    pub(super) phase: Phase,
}

/// What becomes of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Fate {
    /// Episodes are not all finished.
    #[default]
    Sampling,
    /// The episodes are finished, and no step has them so far.
    Finished {
        /// Whether nothing can be learned from it.
        zero_advantage: bool,
    },
    /// A step has taken it.
    Taken,
    /// A step has left it out.
    Dropped,
}

/// All episodes of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GroupProgress {
    /// The step that has it; in order of completion that shows late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<u64>,
    /// Versions that sample its segments, one after the other. In order of completion the version that it was started
    /// with.
    pub(super) versions: Vec<u64>,
    #[serde(serialize_with = "write_letters", deserialize_with = "read_letters")]
    pub(super) episodes: Vec<SampledEpisode>,
    #[serde(default, skip_serializing_if = "Fate::is_sampling")]
    pub(super) fate: Fate,
}

impl Fate {
    fn is_sampling(&self) -> bool {
        *self == Self::Sampling
    }
}

/// How many segments of a version have not begun and not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Left {
    to_begin: u64,
    to_end: u64,
}

/// The segments that are left to sample, by the version that samples them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SegmentsLeft(BTreeMap<u64, Left>);

impl SegmentsLeft {
    /// A segment is to be sampled.
    pub(super) fn add(&mut self, version: u64) {
        let left = self.0.entry(version).or_default();
        left.to_begin += 1;
        left.to_end += 1;
    }

    /// A segment has begun.
    pub(super) fn begin(&mut self, version: u64) {
        self.change(version, |left| left.to_begin = left.to_begin.saturating_sub(1));
    }

    /// A segment that had begun has ended.
    pub(super) fn end(&mut self, version: u64) {
        self.change(version, |left| left.to_end = left.to_end.saturating_sub(1));
    }

    /// A segment is not sampled after all.
    pub(super) fn remove(&mut self, version: u64) {
        self.begin(version);
        self.end(version);
    }

    /// Whether every segment of these versions and earlier ones has begun.
    pub(super) fn have_begun(&self, through: u64) -> bool {
        self.0.range(..=through).all(|(_, left)| left.to_begin == 0)
    }

    /// The earliest version that a segment is left of.
    pub(super) fn earliest(&self) -> Option<u64> {
        self.0.first_key_value().map(|(version, _)| *version)
    }

    fn change(&mut self, version: u64, change: impl FnOnce(&mut Left)) {
        if let Some(left) = self.0.get_mut(&version) {
            change(left);
            if *left == Left::default() {
                self.0.remove(&version);
            }
        }
    }
}

impl GroupProgress {
    pub(super) fn new(step: Option<u64>, versions: Vec<u64>, size: u32) -> Self {
        Self {
            step,
            versions,
            episodes: vec![SampledEpisode { segment: 0, phase: Phase::Waiting }; size as usize],
            fate: Fate::Sampling,
        }
    }

    /// Whether the segment of an episode is its last one, however long it gets.
    pub(super) fn is_last(&self, segment: u8) -> bool {
        usize::from(segment) + 1 >= self.versions.len()
    }

    /// Makes the episodes ready whose next segment is of that version or an earlier one. Returns their numbers.
    pub(super) fn make_ready(&mut self, through: u64) -> Vec<u32> {
        let mut ready = Vec::new();
        for (episode, number) in self.episodes.iter_mut().zip(0..) {
            let version = self.versions.get(usize::from(episode.segment));
            if episode.phase == Phase::Waiting && version.is_some_and(|&version| version <= through) {
                episode.phase = Phase::Ready;
                ready.push(number);
            }
        }
        ready
    }
}

/// Groups by the number of their prompt.
pub(super) type Groups = BTreeMap<u64, GroupProgress>;

/// An episode and its versions; `None` where there is none, which an answer that comes too late may name.
pub(super) fn find(groups: &mut Groups, id: EpisodeId) -> Option<(&mut SampledEpisode, &[u64])> {
    let group = groups.get_mut(&id.prompt)?;
    Some((group.episodes.get_mut(id.sample as usize)?, &group.versions))
}

/// A checkpoint may hold many thousands of episodes.
fn write_letters<S: Serializer>(episodes: &[SampledEpisode], serializer: S) -> Result<S::Ok, S::Error> {
    let letter = |episode: &SampledEpisode| {
        let phase = PHASES.iter().position(|phase| *phase == episode.phase).unwrap_or_default();
        let number = u32::from(episode.segment) * PHASES.len() as u32 + phase as u32;
        char::from_u32(FIRST_LETTER + number).unwrap_or('a')
    };
    serializer.serialize_str(&episodes.iter().map(letter).collect::<String>())
}

fn read_letters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SampledEpisode>, D::Error> {
    let episode = |letter: char| {
        let number = (letter as u32).checked_sub(FIRST_LETTER)?;
        let segment = number / PHASES.len() as u32;
        let phase = number % PHASES.len() as u32;
        Some(SampledEpisode { segment: u8::try_from(segment).ok()?, phase: PHASES[phase as usize] })
    };
    let letters = String::deserialize(deserializer)?;
    let episodes: Option<Vec<SampledEpisode>> = letters.chars().map(episode).collect();
    episodes.ok_or_else(|| Error::custom("episodes are letters from `a` on"))
}
