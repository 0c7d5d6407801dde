//! A run without services: everything that the state asks for happens, in an order that a seed decides.

use std::collections::{BTreeMap, BTreeSet};

use super::outside::{Outside, Work, weights};
use super::{Action, BegunStep, ClosedStep, LoopEvent, LoopState, Next, Rules};
use crate::settings::StepOrder;

/// Numbers that a seed decides.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end.max(1)
    }
}

/// What has happened, and what was asked for then.
pub(super) type History = Vec<(LoopEvent, Vec<Action>)>;

/// What a step that is done was made of: the prompts of its groups in order, with the versions that sampled each
/// segment of each episode, and the prompts that it left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TrainedStep {
    pub(super) groups: Vec<(u64, Vec<Vec<u64>>)>,
    pub(super) dropped: Vec<u64>,
    /// Where the data order goes on, and what waits.
    pub(super) next_prompt: u64,
    pub(super) waiting: Vec<u64>,
}

pub(super) struct Simulation<'a> {
    pub(super) rules: &'a Rules,
    pub(super) dice: Dice,
    /// Which prompts have no advantage.
    pub(super) zero_advantage: &'a dyn Fn(u64) -> bool,
    /// The steps that are recorded.
    pub(super) done: BTreeMap<u64, TrainedStep>,
    pub(super) evaluated: BTreeSet<u64>,
    pub(super) checkpoint: (u64, String),
    pub(super) state: LoopState,
    /// What has happened and what was asked for then, where a test wants to know.
    pub(super) history: Option<History>,
    at: Outside,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(rules: &'a Rules, seed: u64, zero_advantage: &'a dyn Fn(u64) -> bool) -> Self {
        let state = LoopState { step: rules.origin, version: rules.origin + 7, ..LoopState::default() };
        let checkpoint = (state.step, serde_json::to_string(&state).unwrap());
        Self {
            rules,
            dice: Dice(seed),
            zero_advantage,
            done: BTreeMap::new(),
            evaluated: BTreeSet::new(),
            checkpoint,
            state,
            history: None,
            at: Outside::default(),
        }
    }

    /// Starts, or starts again from the last checkpoint: what was done after it is forgotten.
    pub(super) fn start(&mut self) {
        let (step, checkpoint) = self.checkpoint.clone();
        self.done.retain(|done, _| *done <= step);
        self.evaluated.retain(|evaluated| *evaluated <= step);
        self.state = serde_json::from_str::<LoopState>(&checkpoint).unwrap().resumed(self.evaluated.clone());
        self.at = Outside::default();
        assert_eq!(self.state.missing_weights(self.rules), None);
        let actions = self.state.begin(self.rules, weights(self.state.version()));
        self.perform(actions);
    }

    /// Begins the first step of a run that is too large to look at everything.
    pub(super) fn start_untested(&mut self) {
        self.state.begin(self.rules, weights(self.state.version()));
        self.state.apply(self.rules, LoopEvent::Settled);
        let version = self.state.version();
        self.state.apply(self.rules, LoopEvent::EnginesUpdated { version });
        self.state.apply(self.rules, LoopEvent::EnginesReady { version });
        self.state.apply(self.rules, LoopEvent::Kept);
    }

    /// Goes on until the run ends, for so many events at most. Returns whether all steps were done, once it has ended.
    pub(super) fn run(&mut self, most: usize) -> Option<bool> {
        for _ in 0..most {
            if let Some(completed) = self.finished() {
                return Some(completed);
            }
            let event = self.next();
            self.tell(event);
        }
        self.finished()
    }

    pub(super) fn tell(&mut self, event: LoopEvent) {
        match event {
            LoopEvent::Stop => self.at.stopped = true,
            LoopEvent::EnginesReady { version } => self.at.proven = Some(version),
            _ => {}
        }
        let actions = self.state.apply(self.rules, event.clone());
        if let Some(history) = &mut self.history {
            history.push((event, actions.clone()));
        }
        self.perform(actions);
    }

    /// Gives up the step that is not trained yet, where that is possible.
    pub(super) fn abandon(&mut self) {
        if self.state.may_be_abandoned() {
            self.at.training = None;
            self.at.work.retain(|work| !matches!(work, Work::Comes(LoopEvent::Trained(_))));
        }
        self.tell(LoopEvent::AbandonStep);
    }

    fn finished(&self) -> Option<bool> {
        self.at.work.iter().find_map(|work| match work {
            Work::Comes(LoopEvent::Evaluated { version: u64::MAX, complete }) => Some(*complete),
            _ => None,
        })
    }

    /// The next event, whichever it is.
    fn next(&mut self) -> LoopEvent {
        assert!(!self.at.work.is_empty(), "nothing is under way, and the run has not ended: {:#?}", self.state);
        let place = self.dice.below(self.at.work.len());
        let work = self.at.work.swap_remove(place);
        match &work {
            // The engines have been restarted, or have moved on.
            Work::Sampled(episode, _, seen) if self.dice.below(6) == 0 => {
                let version = self.at.versions[&episode.prompt][episode.sample as usize].last().copied();
                self.at.ask(version.filter(|_| self.rules.is_in_data_order()), *seen, work.clone())
            }
            Work::Needs(version, seen, _) if self.dice.below(3) == 0 => {
                self.at.ask(Some(*version), *seen, work.clone())
            }
            _ => self.happens(work),
        }
    }

    fn happens(&mut self, work: Work) -> LoopEvent {
        match work {
            Work::Sent(episode, is_last) => {
                self.at.work.push(Work::Sampled(episode, is_last, self.state.engines_seen().updates));
                LoopEvent::SegmentBegan(episode)
            }
            Work::Sampled(episode, is_last, _) if is_last || self.dice.below(4) == 0 => {
                let whole = self.at.whole.entry(episode.prompt).or_default();
                *whole += 1;
                if *whole == self.rules.group_size {
                    self.at.work.push(Work::Finished(episode.prompt));
                }
                LoopEvent::ResponseEnded(episode)
            }
            Work::Sampled(episode, ..) => LoopEvent::SegmentEnded(episode),
            Work::Finished(prompt) => {
                let audit_is_ready = self.at.finish(prompt);
                let zero_advantage = (self.zero_advantage)(prompt);
                LoopEvent::GroupFinished { prompt, zero_advantage, audit_is_ready }
            }
            Work::Needs(_, _, event) | Work::Comes(event) => event,
        }
    }

    /// An event comes that needs the weights of the engines.
    fn comes_by(&mut self, version: u64, event: LoopEvent) {
        self.at.work.push(Work::Needs(version, self.state.engines_seen().updates, event));
    }

    /// Some of the prompts that the step begins with, or none.
    fn choose(&mut self, first: u64) -> BTreeSet<u64> {
        (first..first + self.rules.groups).filter(|_| self.dice.below(2) == 0).collect()
    }

    fn comes(&mut self, event: LoopEvent) {
        self.at.work.push(Work::Comes(event));
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::BeginStep(BegunStep { step, version, first_prompt, is_audited }) => {
                    self.at.begun_with.insert(step, version);
                    let chosen = if is_audited { self.choose(first_prompt) } else { BTreeSet::new() };
                    self.at.chosen.insert(step, chosen);
                    assert!(self.at.open.insert(step, TrainedStep::default()).is_none());
                }
                Action::StartGroup { step, prompt } => {
                    self.at.seeded_by.insert(prompt, step);
                    let is_new = self.at.versions.insert(prompt, vec![Vec::new(); self.rules.group_size as usize]);
                    assert!(is_new.is_none(), "prompt {prompt} is started twice");
                }
                Action::Sample { episode, version, segment, is_last } => {
                    let by = version.or(self.at.engines).unwrap();
                    assert!(Some(by) <= self.at.engines, "weights that the engines are not on their way to");
                    let versions = &mut self.at.versions.get_mut(&episode.prompt).unwrap()[episode.sample as usize];
                    assert_eq!(versions.len(), usize::from(segment));
                    versions.push(by);
                    self.at.work.push(Work::Sent(episode, is_last));
                }
                Action::Take { step, prompt, index, .. } => {
                    let group = self.at.versions.remove(&prompt).unwrap();
                    let open = self.at.open.get_mut(&step).unwrap();
                    open.dropped.retain(|dropped| *dropped != prompt);
                    assert_eq!(open.groups.len(), index as usize);
                    open.groups.push((prompt, group));
                }
                Action::Drop { step, prompt } => {
                    assert!(self.at.versions.contains_key(&prompt));
                    self.at.open.get_mut(&step).unwrap().dropped.push(prompt);
                }
                Action::Close(ClosedStep { step, next_prompt, waiting, .. }) => {
                    let open = self.at.open.get_mut(&step).unwrap();
                    (open.next_prompt, open.waiting) = (next_prompt, waiting);
                    assert_eq!(open.groups.len() as u64, self.rules.groups);
                    self.comes(LoopEvent::Sampled(step));
                }
                Action::Audit(step) => self.comes(LoopEvent::Audited(step)),
                Action::Release(_) => {}
                Action::EndStep(step) => {
                    self.at.closed.insert(step);
                    self.end_of_training();
                }
                Action::Settle => self.comes(LoopEvent::Settled),
                Action::UpdateEngines { version } => {
                    assert!(Some(version) > self.at.engines, "engines only go on");
                    if self.rules.order == StepOrder::Data {
                        let is_sent = |work: &Work| matches!(work, Work::Sent(..));
                        assert!(!self.at.work.iter().any(is_sent), "the update overtakes a sample");
                    }
                    self.at.engines = Some(version);
                    self.comes(LoopEvent::EnginesUpdated { version });
                }
                Action::Prove { version } => self.comes_by(version, LoopEvent::EnginesReady { version }),
                Action::Restore { version, .. } => self.comes(LoopEvent::Restored { version }),
                Action::Answer { request, .. } => self.at.go_on(request, self.state.engines_seen().updates),
                Action::Evaluate { version } => {
                    let complete = !self.at.stopped;
                    if complete {
                        assert!(self.evaluated.insert(self.state.step_of(version)), "it is evaluated already");
                    }
                    self.comes_by(version, LoopEvent::Evaluated { version, complete });
                }
                Action::Train(step) => {
                    assert_eq!(step, self.state.step() + 1);
                    assert!(self.at.training.is_none());
                    assert!(self.at.proven >= self.at.begun_with.remove(&step), "trained on what is not proven");
                    self.at.training = Some(step);
                    self.end_of_training();
                }
                Action::Publish { version } => self.comes(LoopEvent::Published(weights(version))),
                Action::Record(step) => {
                    let has_engines = self.at.proven >= Some(self.state.version_of(step));
                    assert!(self.rules.lag > 0 || has_engines, "without a lag the engines have its weights");
                    let done = self.at.open.remove(&step).unwrap();
                    assert!(self.done.insert(step, done).is_none());
                    self.comes(LoopEvent::Recorded(step));
                }
                Action::Keep(next) => {
                    if next != Next::Step || self.dice.below(3) == 0 {
                        self.checkpoint = (self.state.step(), serde_json::to_string(&self.state).unwrap());
                    }
                    self.comes(LoopEvent::Kept);
                }
                Action::Finish { completed } => {
                    // No evaluation is of such weights: it marks the end.
                    self.comes(LoopEvent::Evaluated { version: u64::MAX, complete: completed });
                }
            }
        }
        let is_out = |work: &&Work| matches!(work, Work::Sent(..) | Work::Sampled(..));
        let out = self.at.work.iter().chain(self.at.lacking.values()).filter(is_out);
        assert!(out.count() <= self.rules.most_in_flight);
    }

    /// The learner has a step once it trains and has all groups.
    fn end_of_training(&mut self) {
        if let Some(step) = self.at.training.filter(|step| self.at.closed.contains(step)) {
            self.at.training = None;
            self.comes(LoopEvent::Trained(step));
        }
    }
}
