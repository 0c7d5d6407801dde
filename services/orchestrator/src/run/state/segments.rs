//! The episodes in flight, segment by segment: which may be sampled now, and what has become of them.

use super::episodes::{GroupProgress, Phase, SampledEpisode, find};
use super::event::EpisodeId;
use super::{Action, LoopState, Rules};

impl LoopState {
    /// Begins a prompt of a step; in order of completion it is in none yet.
    pub(super) fn start_group(&mut self, prompt: u64, seeded_by: u64, group: GroupProgress, out: &mut Vec<Action>) {
        out.push(Action::StartGroup { step: seeded_by, prompt });
        self.groups.insert(prompt, group);
    }

    /// Makes everything ready whose weights the engines have, or are about to have.
    pub(super) fn make_ready(&mut self, prompt: u64, through: u64) {
        let Some(group) = self.groups.get_mut(&prompt) else { return };
        for sample in group.make_ready(through) {
            match self.ready.back_mut() {
                Some((last, first, count)) if *last == prompt && *first + *count == sample => *count += 1,
                _ => self.ready.push_back((prompt, sample, 1)),
            }
        }
    }

    pub(super) fn send_segments(&mut self, rules: &Rules, out: &mut Vec<Action>) {
        while self.in_flight < rules.most_in_flight {
            let Some((prompt, sample, count)) = self.ready.pop_front() else { return };
            if count > 1 {
                self.ready.push_front((prompt, sample + 1, count - 1));
            }
            let episode = EpisodeId { prompt, sample };
            let Some(group) = self.groups.get_mut(&episode.prompt) else { continue };
            let Some(at) = group.episodes.get_mut(episode.sample as usize) else { continue };
            at.phase = Phase::Sent;
            let segment = at.segment;
            let version = group.versions.get(usize::from(segment)).copied().filter(|_| rules.is_in_data_order());
            self.in_flight += 1;
            out.push(Action::Sample { episode, version, segment, is_last: group.is_last(segment) });
        }
    }

    pub(super) fn segment_began(&mut self, id: EpisodeId) {
        let Some((episode, versions)) = find(&mut self.groups, id) else { return };
        if episode.phase == Phase::Sent {
            episode.phase = Phase::Sampling;
            self.left.begin(versions[usize::from(episode.segment)]);
        }
    }

    pub(super) fn segment_ended(&mut self, id: EpisodeId, is_whole: bool) {
        self.segment_began(id);
        let Some((episode, versions)) = find(&mut self.groups, id) else { return };
        if episode.phase != Phase::Sampling {
            return;
        }
        let segment = usize::from(episode.segment);
        self.in_flight -= 1;
        self.left.end(versions[segment]);
        if is_whole {
            episode.phase = Phase::Verifying;
            versions[segment + 1..].iter().for_each(|&version| self.left.remove(version));
            return;
        }
        *episode = SampledEpisode { segment: episode.segment + 1, phase: Phase::Waiting };
        if let Some(through) = self.engines.version {
            self.make_ready(id.prompt, through);
        }
    }
}
