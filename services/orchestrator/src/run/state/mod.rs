//! The state of a run, as a value: what may be sampled with which weights, what is in flight, what waits, and what is
//! trained next.
//!
//! [`LoopState::apply`] is told what has happened and answers with what to do. It waits for nothing, reads no clock and
//! knows no service, so the same events always have the same answers. A checkpoint holds the state as it is;
//! [`LoopState::resumed`] is the same run without what was in flight, which is sampled again.
//!
//! Nothing else decides order, version or lag; others hold a copy for one request. `rules` is what the settings say,
//! `event` what happens and what is done; `episodes` is what is in flight. `engines`, `learner` and one of
//! `data_order` and `completion` decide in turn. `holds` says when the learner gets the groups of a step, `restores`
//! who gets weights back.

mod completion;
mod data_order;
mod engines;
mod episodes;
mod event;
mod holds;
mod learner;
mod open_step;
mod prompts;
mod restores;
mod resume;
mod rules;
mod segments;
mod staleness;
mod weights;

#[cfg(test)]
mod any_run;
#[cfg(test)]
pub(super) mod example;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod laws_of_holds;
#[cfg(test)]
mod laws_of_restores;
#[cfg(test)]
mod outside;
#[cfg(test)]
mod simulation;

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::settings::StepOrder;
use engines::EngineVersions;
use episodes::{Fate, Groups, SegmentsLeft};
use learner::LearnerWork;
use open_step::OpenStep;
use prompts::PromptQueue;
use restores::Restores;
use staleness::GroupsOut;

pub(crate) use event::EpisodeId;
pub(in crate::run) use event::{Action, BegunStep, ClosedStep, LoopEvent, Next};
pub(in crate::run) use rules::Rules;
pub(in crate::run) use weights::PublishedWeights;

/// The state of the loop. Steps count from 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::run) struct LoopState {
    /// The last step that is done.
    step: u64,
    /// Version of the weights after it. Every step makes one version.
    version: u64,
    /// Prompts that are not started.
    prompts: PromptQueue,
    /// Prompts that are started and in no step that is done.
    groups: Groups,
    /// Steps that are not done and have begun, in order.
    steps: VecDeque<OpenStep>,
    /// Segments that are left of these groups, in data order.
    left: SegmentsLeft,
    /// Episodes whose next segment may be sampled, in order: the prompt, the first of them, and how many.
    ready: VecDeque<(u64, u32, u32)>,
    /// Segments that are on their way to the generation service, or there.
    in_flight: usize,
    /// In order of completion: finished groups that no step has taken yet, in the order in which they finished.
    finished: VecDeque<u64>,
    /// In order of completion: how many groups are in no step.
    out: GroupsOut,
    /// In order of completion: the highest number of a prompt in a step.
    highest: Option<u64>,
    /// The published weights that what is not trained yet is sampled with, in order, and the newest.
    published: VecDeque<PublishedWeights>,
    engines: EngineVersions,
    #[serde(default)]
    restores: Restores,
    learner: LearnerWork,
    /// Steps whose weights are evaluated, as far back as any is asked for.
    evaluated: BTreeSet<u64>,
    /// A stop is requested, and that no further step is trained.
    stops: bool,
    abandons: bool,
    /// No step from this one on is sampled: the run stops before.
    ends_before: Option<u64>,
}

impl LoopState {
    /// The last step that is done.
    pub(in crate::run) fn step(&self) -> u64 {
        self.step
    }

    /// Version of the weights after it.
    pub(in crate::run) fn version(&self) -> u64 {
        self.version
    }

    /// A supervised step has made other weights before the first step.
    pub(in crate::run) fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    /// Version of the weights after a step.
    pub(in crate::run) fn version_of(&self, step: u64) -> u64 {
        (self.version + step).saturating_sub(self.step)
    }

    /// The step that made weights of this version.
    pub(in crate::run) fn step_of(&self, version: u64) -> u64 {
        (self.step + version).saturating_sub(self.version)
    }

    /// The published weights that what is not trained yet is sampled with, in order.
    pub(in crate::run) fn published(&self) -> impl Iterator<Item = &PublishedWeights> {
        self.published.iter()
    }

    /// The earliest version that a segment in flight, an evaluation or a sample to come still needs, as far as engines
    /// have had it.
    fn earliest_in_flight(&self) -> Option<u64> {
        let segments = self.left.earliest().filter(|&version| Some(version) <= self.engines.version);
        segments.into_iter().chain(self.engines.evaluating).min()
    }

    /// Whether a stop is requested.
    pub(in crate::run) fn stops(&self) -> bool {
        self.stops
    }

    /// Whether no further step is trained.
    pub(in crate::run) fn abandons(&self) -> bool {
        self.abandons
    }

    /// Whether the learner trains a step of which nothing is missing.
    pub(in crate::run) fn trains_whole_step(&self) -> bool {
        self.learner == LearnerWork::Training && self.steps.front().is_some_and(|open| open.is_closed)
    }

    /// Whether the learner trains a step or waits for it, so that its report is not in.
    #[cfg(test)]
    pub(in crate::run) fn may_be_abandoned(&self) -> bool {
        self.learner.may_be_abandoned()
    }

    /// Versions of published weights that steps after `step` are sampled with, or that step itself made.
    pub(in crate::run) fn needed_after(&self, step: u64, rules: &Rules) -> Vec<u64> {
        let first = self.version_of(rules.needed_from(step));
        self.published.iter().map(PublishedWeights::version).filter(|&version| version >= first).collect()
    }

    /// What to do first, with weights that are published.
    pub(in crate::run) fn begin(&mut self, rules: &Rules, newest: PublishedWeights) -> Vec<Action> {
        self.published.push_back(newest);
        self.decide(rules, Vec::new())
    }

    /// Takes note of what has happened, and says what to do.
    pub(in crate::run) fn apply(&mut self, rules: &Rules, event: LoopEvent) -> Vec<Action> {
        let mut actions = Vec::new();
        let is_of_segment = event.is_of_segment();
        match event {
            LoopEvent::SegmentBegan(episode) => self.segment_began(episode),
            LoopEvent::SegmentEnded(episode) => self.segment_ended(episode, false),
            LoopEvent::ResponseEnded(episode) => self.segment_ended(episode, true),
            LoopEvent::GroupFinished { prompt, zero_advantage, audit_is_ready } => {
                if let Some(step) = self.groups.get(&prompt).and_then(|group| group.step).filter(|_| audit_is_ready) {
                    self.audit_has_samples(rules, step, &mut actions);
                }
                self.group_finished(rules, prompt, zero_advantage, &mut actions);
            }
            LoopEvent::Sampled(step) => self.sampled(step, &mut actions),
            LoopEvent::Audited(step) => self.audited(step, &mut actions),
            LoopEvent::WeightsMissing { request, version, seen } => {
                self.weights_missing(request, version, seen, &mut actions);
            }
            LoopEvent::Restored { version } => self.restored(version, &mut actions),
            LoopEvent::Settled => self.engines.has_settled(),
            LoopEvent::EnginesUpdated { version } => self.engines_updated(version, &mut actions),
            LoopEvent::EnginesReady { version } => self.engines.is_ready_with(version),
            LoopEvent::Evaluated { version, complete } => self.evaluated(version, complete),
            LoopEvent::Trained(step) if step == self.step + 1 => self.learner.has_trained(),
            LoopEvent::Trained(_) => {}
            LoopEvent::Published(weights) => self.weights_published(weights),
            LoopEvent::Recorded(step) => self.recorded(rules, step),
            LoopEvent::Kept => self.learner.has_kept(),
            LoopEvent::Stop => self.stops = true,
            LoopEvent::AbandonStep => {
                self.stops = true;
                self.abandons = true;
                self.learner.abandon();
            }
        }
        if is_of_segment && !rules.is_in_data_order() {
            // There may be many thousands, and nothing else waits for one of them.
            self.send_segments(rules, &mut actions);
            return actions;
        }
        self.decide(rules, actions)
    }

    /// Everything that can be done now, in the order in which it is to be begun.
    fn decide(&mut self, rules: &Rules, mut actions: Vec<Action>) -> Vec<Action> {
        loop {
            let before = actions.len();
            let end = self.ends_before;
            let has_changed = self.move_engines(rules, &mut actions)
                | self.evaluate(rules, &mut actions)
                | self.learn(rules, &mut actions)
                | match rules.order {
                    StepOrder::Data => self.fill_in_data_order(rules, &mut actions),
                    StepOrder::Completion => self.fill_by_completion(rules, &mut actions),
                }
                | self.restore(&mut actions);
            self.send_segments(rules, &mut actions);
            // Where the run ends is also a decision: what waited for the steps after it goes on.
            if !has_changed && actions.len() == before && self.ends_before == end {
                return actions;
            }
        }
    }

    /// Whether a step may begin to be sampled. A stop lets only the step begin that the learner waits for. Samples wait
    /// neither for the proof of their weights, as training does, nor for a checkpoint.
    fn may_begin(&mut self, rules: &Rules, step: u64) -> bool {
        let has_begun = self.learner.has_begun(self.step, step);
        if step > rules.steps || self.ends_before.is_some_and(|end| step >= end) {
            return false;
        }
        if rules.samples_ahead() && self.stops && !has_begun {
            self.ends_before = Some(step);
            return false;
        }
        let is_next = !self.stops && self.learner.will_begin(self.step, step);
        rules.samples_ahead() || has_begun || is_next
    }

    fn group_finished(&mut self, rules: &Rules, prompt: u64, zero_advantage: bool, out: &mut Vec<Action>) {
        let Some(group) = self.groups.get_mut(&prompt) else { return };
        group.fate = Fate::Finished { zero_advantage };
        let step = group.step;
        match rules.order {
            StepOrder::Data => {
                let open = self.steps.iter_mut().find(|open| Some(open.step) == step);
                open.into_iter().for_each(|open| open.zero_advantage += u64::from(zero_advantage));
            }
            StepOrder::Completion => self.keep_or_drop(rules, prompt, zero_advantage, out),
        }
    }

    fn weights_published(&mut self, weights: PublishedWeights) {
        self.published.push_back(weights);
        self.learner.has_published();
    }

    /// A step is done: nothing of it is needed any more.
    fn recorded(&mut self, rules: &Rules, step: u64) {
        if step != self.step + 1 {
            return;
        }
        self.version = self.version_of(step);
        self.step = step;
        self.steps.retain(|open| open.step != step);
        self.groups.retain(|_, group| group.step != Some(step));
        let oldest = rules.needed_from(step);
        let needed = self.version_of(oldest);
        self.published.retain(|weights| weights.version() >= needed);
        self.evaluated = self.evaluated.split_off(&oldest);
        self.learner.has_recorded();
    }
}
