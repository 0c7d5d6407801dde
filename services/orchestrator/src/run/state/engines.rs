//! Which weights the engines get next, and which are evaluated.

use serde::{Deserialize, Serialize};

use super::{Action, LoopState, PublishedWeights, Rules};
use crate::settings::StepOrder;

/// The engines, as far as the run has moved them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EngineVersions {
    /// The weights that they have, or are on their way to.
    pub(super) version: Option<u64>,
    /// The weights that the run has last updated them to.
    #[serde(default)]
    pub(super) target: Option<u64>,
    /// The weights that they have, proven where that is due.
    pub(super) ready: Option<u64>,
    /// In order of completion: the newest weights that samples may begin with.
    pub(super) usable: Option<u64>,
    /// The weights that are being evaluated.
    pub(super) evaluating: Option<u64>,
    /// Nothing is left to begin with the weights that they have, and the next ones are not published.
    awaits_weights: bool,
    /// A stop has cut an evaluation short: the resumed run does the rest.
    pub(super) was_cut_short: bool,
    stage: Stage,
}

/// Where an update of the engines is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    #[default]
    Idle,
    /// What was sent to the generation service is to be accepted before.
    Settling(u64),
    /// What was sent is accepted.
    Settled(u64),
    /// The update is on its way.
    Moving,
    /// The engines have the weights, which are proven.
    Proving,
}

impl EngineVersions {
    pub(super) fn has_settled(&mut self) {
        if let Stage::Settling(version) = self.stage {
            self.stage = Stage::Settled(version);
        }
    }

    pub(super) fn is_ready_with(&mut self, version: u64) {
        self.stage = Stage::Idle;
        self.ready = Some(version);
    }

    /// The weights that the run updates them to at the moment.
    pub(super) fn updating_to(&self) -> Option<u64> {
        self.version.filter(|_| self.stage == Stage::Moving)
    }

    /// The weights that are proven at the moment.
    pub(super) fn proving(&self) -> Option<u64> {
        self.version.filter(|_| self.stage == Stage::Proving)
    }

    /// Whether they have weights and are not on their way to others.
    fn are_settled(&self) -> bool {
        self.stage == Stage::Idle && self.evaluating.is_none() && self.ready == self.version
    }
}

impl LoopState {
    /// The earliest version that engines have, or that anything is sampled with which is not trained yet.
    pub(in crate::run) fn oldest_weights(&self) -> u64 {
        let published = self.published.iter().map(PublishedWeights::version);
        published.chain(self.engines.target.or(self.engines.version)).min().unwrap_or_default()
    }

    /// Whether nothing is left to begin before other weights are published, in data order.
    pub(in crate::run) fn awaits_weights(&self) -> bool {
        self.engines.awaits_weights
    }

    /// Moves the engines to the next weights. Returns whether anything has changed.
    pub(super) fn move_engines(&mut self, rules: &Rules, out: &mut Vec<Action>) -> bool {
        self.engines.awaits_weights = false;
        if let Stage::Settled(version) = self.engines.stage {
            self.update_engines(version, out);
            return true;
        }
        if !self.engines.are_settled() || self.engines.version.is_some_and(|at| self.evaluates(rules, self.step_of(at)))
        {
            return false;
        }
        match rules.order {
            StepOrder::Data => self.move_in_data_order(rules, out),
            StepOrder::Completion => self.move_to_newest(rules, out),
        }
    }

    /// In data order the engines go through all weights that sample anything, in order, and end with the last. They are
    /// moved on once all that they sample has begun: they finish it, each on its own, while others have the next
    /// weights already.
    fn move_in_data_order(&mut self, rules: &Rules, out: &mut Vec<Action>) -> bool {
        let first = match self.engines.version {
            None => rules.needed_from(self.step),
            Some(at) if self.is_busy_with(rules, at) => return false,
            Some(at) => self.step_of(at) + 1,
        };
        let is_needed = |by: u64| rules.samples(by, self.step + 1) || self.evaluates(rules, by) || by == rules.steps;
        let Some(next) = (first..=rules.steps).find(|&by| is_needed(by)) else { return false };
        let version = self.version_of(next);
        if !self.is_published(version) {
            self.engines.awaits_weights = true;
            return false;
        }
        self.engines.stage = Stage::Settling(version);
        out.push(Action::Settle);
        true
    }

    /// Whether something that these weights sample has not begun, or too many steps have samples out.
    fn is_busy_with(&self, rules: &Rules, version: u64) -> bool {
        let next = self.next_step();
        let is_next = next <= rules.steps && self.ends_before.is_none_or(|end| next < end);
        let begins_step = is_next && self.version_of(rules.sampled_by(next, 0)) <= version;
        let adds_prompts = self.steps.back().is_some_and(|open| {
            rules.dynamic
                && !open.is_full
                && self.version_of(rules.sampled_by(open.step, rules.places() - 1)) <= version
        });
        begins_step || adds_prompts || !self.left.have_begun(version) || self.has_too_many_steps(rules)
    }

    /// In order of completion the engines get the newest weights, and none that are evaluated are passed over.
    fn move_to_newest(&mut self, rules: &Rules, out: &mut Vec<Action>) -> bool {
        let first = self.engines.version.map_or(self.step, |at| self.step_of(at) + 1);
        let newest = self.published.back().map_or(0, PublishedWeights::version);
        let newest = self.step_of(newest);
        if newest < first || self.published.is_empty() {
            return false;
        }
        let next = (first..newest).find(|&by| self.evaluates(rules, by)).unwrap_or(newest);
        let version = self.version_of(next);
        self.is_published(version) && {
            self.update_engines(version, out);
            true
        }
    }

    fn update_engines(&mut self, version: u64, out: &mut Vec<Action>) {
        self.engines.version = Some(version);
        self.engines.stage = Stage::Moving;
        out.push(Action::UpdateEngines { version });
        let prompts: Vec<u64> = self.groups.keys().copied().collect();
        prompts.into_iter().for_each(|prompt| self.make_ready(prompt, version));
    }

    /// The run has updated the engines.
    pub(super) fn engines_updated(&mut self, version: u64, out: &mut Vec<Action>) {
        self.restores.updated(version);
        self.engines.target = Some(version);
        self.engines.stage = Stage::Proving;
        out.push(Action::Prove { version });
    }

    /// Evaluates the weights that the engines have. Without a lag the step before is over first. Returns whether
    /// anything has changed.
    pub(super) fn evaluate(&mut self, rules: &Rules, out: &mut Vec<Action>) -> bool {
        let Some(version) = self.engines.version.filter(|_| self.engines.are_settled()) else { return false };
        let by = self.step_of(version);
        if !self.evaluates(rules, by) || !(rules.samples_ahead() || self.step >= by) {
            return false;
        }
        self.engines.evaluating = Some(version);
        out.push(Action::Evaluate { version });
        true
    }

    pub(super) fn evaluated(&mut self, version: u64, complete: bool) {
        self.engines.evaluating = None;
        if complete {
            self.evaluated.insert(self.step_of(version));
        } else {
            // A resumed run begins with these weights, and evaluates them, as long as the next step is not done.
            self.engines.was_cut_short = true;
            let next = self.next_step();
            self.ends_before = Some(self.ends_before.map_or(next, |end| end.min(next)));
        }
    }

    /// Whether the weights after a step are still to be evaluated.
    pub(super) fn evaluates(&self, rules: &Rules, step: u64) -> bool {
        rules.is_evaluated(step) && !self.evaluated.contains(&step) && !self.engines.was_cut_short
    }

    /// Whether what samples these weights may begin: they are there, or on their way, and nothing is to be evaluated
    /// before.
    pub(super) fn may_sample(&self, rules: &Rules) -> Option<u64> {
        self.engines.version.filter(|&at| !self.evaluates(rules, self.step_of(at)))
    }

    fn is_published(&self, version: u64) -> bool {
        self.published.iter().any(|weights| weights.version() == version)
    }
}
