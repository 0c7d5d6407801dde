//! A run without services: everything that the state asks for happens, in an order that a seed decides.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_proto::v1::WeightsRef;

use super::{Action, ClosedStep, EpisodeId, LoopEvent, LoopState, Next, PublishedWeights, Rules};
use crate::settings::StepOrder;

/// Numbers that a seed decides.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end.max(1)
    }
}

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

/// What is under way outside.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Work {
    /// A segment that the generation service has not accepted, and one that it has.
    Sent(EpisodeId, bool, u8),
    Sampled(EpisodeId, bool, u8),
    /// An event that comes.
    Comes(LoopEvent),
}

/// A run.
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
    pub(super) history: Option<Vec<(LoopEvent, Vec<Action>)>>,
    at: Outside,
}

/// What the services have.
#[derive(Default)]
struct Outside {
    work: Vec<Work>,
    /// The versions that sampled each episode of a prompt, and the episodes that are whole.
    versions: BTreeMap<u64, Vec<Vec<u64>>>,
    whole: BTreeMap<u64, u32>,
    open: BTreeMap<u64, TrainedStep>,
    engines: Option<u64>,
    /// The weights that are proven, and those that each step is begun with.
    proven: Option<u64>,
    begun_with: BTreeMap<u64, u64>,
    training: Option<u64>,
    closed: BTreeSet<u64>,
    stopped: bool,
}

fn weights(version: u64) -> PublishedWeights {
    PublishedWeights::new(&WeightsRef::at_path(version, "sha256:ab", format!("/weights/{version}"), 1))
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
        match self.at.work.swap_remove(place) {
            Work::Sent(episode, is_last, segment) => {
                self.at.work.push(Work::Sampled(episode, is_last, segment));
                LoopEvent::SegmentBegan(episode)
            }
            Work::Sampled(episode, is_last, _) if is_last || self.dice.below(4) == 0 => {
                let whole = self.at.whole.entry(episode.prompt).or_default();
                *whole += 1;
                if *whole == self.rules.group_size {
                    let prompt = episode.prompt;
                    let zero_advantage = (self.zero_advantage)(episode.prompt);
                    self.at.work.push(Work::Comes(LoopEvent::GroupFinished { prompt, zero_advantage }));
                }
                LoopEvent::ResponseEnded(episode)
            }
            Work::Sampled(episode, ..) => LoopEvent::SegmentEnded(episode),
            Work::Comes(event) => event,
        }
    }

    fn comes(&mut self, event: LoopEvent) {
        self.at.work.push(Work::Comes(event));
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::BeginStep { step, version, .. } => {
                    self.at.begun_with.insert(step, version);
                    assert!(self.at.open.insert(step, TrainedStep::default()).is_none());
                }
                Action::StartGroup { prompt, .. } => {
                    let is_new = self.at.versions.insert(prompt, vec![Vec::new(); self.rules.group_size as usize]);
                    assert!(is_new.is_none(), "prompt {prompt} is started twice");
                }
                Action::Sample { episode, version, segment, is_last } => {
                    let by = version.or(self.at.engines).unwrap();
                    assert!(Some(by) <= self.at.engines, "weights that the engines are not on their way to");
                    let versions = &mut self.at.versions.get_mut(&episode.prompt).unwrap()[episode.sample as usize];
                    assert_eq!(versions.len(), usize::from(segment));
                    versions.push(by);
                    self.at.work.push(Work::Sent(episode, is_last, segment));
                }
                Action::Take { step, prompt, index } => {
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
                    self.at.closed.insert(step);
                    self.comes(LoopEvent::StepClosed(step));
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
                    self.comes(LoopEvent::EnginesReady { version });
                }
                Action::Evaluate { version } => {
                    let complete = !self.at.stopped;
                    if complete {
                        assert!(self.evaluated.insert(self.state.step_of(version)), "it is evaluated already");
                    }
                    self.comes(LoopEvent::Evaluated { version, complete });
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
        assert!(self.at.work.iter().filter(is_out).count() <= self.rules.most_in_flight);
    }

    /// The learner has a step once it trains and has all groups.
    fn end_of_training(&mut self) {
        if let Some(step) = self.at.training.filter(|step| self.at.closed.contains(step)) {
            self.at.training = None;
            self.comes(LoopEvent::Trained(step));
        }
    }
}
