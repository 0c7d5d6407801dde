//! What is in progress outside of the loop's state: samples, groups, steps, and calls of services. It decides nothing.

mod begin;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use evenkeel_proto::v1::{RunState, TrainReport, WeightsRef};
use evenkeel_rpc::BoxFuture;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tracing::Instrument;

use super::loop_work::{Done, EnginesUpdated, LoopParts};
use super::position::Position;
use super::state::{EpisodeId, LoopEvent, Next, PublishedWeights};
use super::step_groups::StepGroups;
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::rollout::{RolloutEvent, Rollouts, SampleKey, SampledGroup};
use crate::settings::StepOrder;

type Work<'a> = BoxFuture<'a, Result<Done, Halt>>;

/// What is in progress. Dropping it cancels all of it.
pub(in crate::run) struct InProgress<'a> {
    parts: LoopParts<'a>,
    order: StepOrder,
    samples_ahead: bool,
    /// The step that was done when this began: weights of earlier ones may be gone.
    first_step: u64,
    rollouts: Rollouts,
    steps: BTreeMap<u64, StepGroups>,
    /// Finished groups that no step has taken or left out, by the number of their prompt.
    finished: BTreeMap<u64, SampledGroup>,
    /// Published weights by version, with how long publishing took.
    weights: BTreeMap<u64, (WeightsRef, Duration)>,
    /// Updates of the engines by version.
    updates: BTreeMap<u64, EnginesUpdated>,
    has_updated: bool,
    work: FuturesUnordered<Work<'a>>,
    /// Separate, since it may be given up.
    training: Option<Work<'a>>,
    /// When the learner began the step that it is in, and its report with the time when it came.
    began: Instant,
    report: Option<(TrainReport, Instant)>,
    /// Since when nothing can be sampled for want of weights, and for how long before, since a step began last.
    idle_since: Option<Instant>,
    idle: Duration,
    stops: bool,
    abandons: bool,
}

impl<'a> InProgress<'a> {
    pub(in crate::run) fn new(parts: LoopParts<'a>, order: StepOrder, samples_ahead: bool, first_step: u64) -> Self {
        Self {
            rollouts: parts.sampler.rollouts(),
            parts,
            order,
            samples_ahead,
            first_step,
            steps: BTreeMap::new(),
            finished: BTreeMap::new(),
            weights: BTreeMap::new(),
            updates: BTreeMap::new(),
            has_updated: false,
            work: FuturesUnordered::new(),
            training: None,
            began: Instant::now(),
            report: None,
            idle_since: None,
            idle: Duration::ZERO,
            stops: false,
            abandons: false,
        }
    }

    /// Weights are published.
    pub(in crate::run) fn add_weights(&mut self, weights: WeightsRef, took: Duration) {
        self.weights.insert(weights.version, (weights, took));
    }

    /// Takes note of where the loop is before it waits.
    pub(in crate::run) fn observe(&mut self, position: &Position) {
        let state = position.state();
        self.parts.weights.set_earliest_in_flight(state.earliest_in_flight());
        // In data order engines that sample nothing may still evaluate, or be proven.
        let is_idle = self.order == StepOrder::Completion && self.rollouts.is_idle();
        match (state.awaits_weights() || is_idle, self.idle_since) {
            (true, None) => self.idle_since = Some(Instant::now()),
            (false, Some(since)) => {
                self.idle += since.elapsed();
                self.idle_since = None;
            }
            _ => {}
        }
    }

    fn forget_weights(&mut self, position: &Position) {
        let oldest = position.state().published().map(PublishedWeights::version).min().unwrap_or_default();
        self.weights = self.weights.split_off(&oldest);
    }

    /// What happens next. `None`: nothing that the loop must know.
    ///
    /// # Errors
    /// What ends the run, or returns it to its last checkpoint: the learner has lost its state.
    pub(in crate::run) async fn next(&mut self, position: &Position) -> Result<Option<LoopEvent>, Halt> {
        let stop = self.parts.services.stop();
        let done = tokio::select! {
            biased;
            halt = stop.now() => return Err(halt),
            // A report that is there is not thrown away.
            done = next_of(&mut self.training) => done?,
            () = stop.step_abandoned(), if !self.abandons => {
                self.abandons = true;
                // Until its report is there, the state of both sides is that of the last whole step.
                self.training = None;
                return Ok(Some(LoopEvent::AbandonStep));
            }
            _ = stop.any(), if !self.stops => {
                self.stops = true;
                return Ok(Some(LoopEvent::Stop));
            }
            Some(done) = self.work.next() => done?,
            event = self.rollouts.next() => return self.rolled_out(event?),
        };
        self.is_done(done, position)
    }

    fn rolled_out(&mut self, event: RolloutEvent) -> Result<Option<LoopEvent>, Halt> {
        let episode = |key: SampleKey| EpisodeId { prompt: key.group, sample: key.sample };
        let group = match event {
            RolloutEvent::SegmentBegan(key) => return Ok(Some(LoopEvent::SegmentBegan(episode(key)))),
            RolloutEvent::SegmentEnded(key) => return Ok(Some(LoopEvent::SegmentEnded(episode(key)))),
            RolloutEvent::ResponseEnded(key) => return Ok(Some(LoopEvent::ResponseEnded(episode(key)))),
            RolloutEvent::Group(group) => group,
        };
        let prompt = group.number();
        let zero_advantage = group.is_zero_advantage();
        let step = group.seeded_by();
        let sleep = self.parts.weights.engines_sleep();
        if let Some(groups) = self.steps.get_mut(&step)
            && let Some(scoring) = groups.finished(&group, sleep)?
        {
            self.spawn_within(step, self.parts.audit(step, scoring));
        }
        self.finished.insert(prompt, *group);
        Ok(Some(LoopEvent::GroupFinished { prompt, zero_advantage }))
    }

    fn is_done(&mut self, done: Done, position: &Position) -> Result<Option<LoopEvent>, Halt> {
        match done {
            Done::Event(event) => Ok(Some(event)),
            Done::Sampled(step) => {
                let scoring = self.steps.get_mut(&step).and_then(StepGroups::sampling_ended);
                if let Some(scoring) = scoring {
                    self.spawn_within(step, self.parts.audit(step, scoring));
                }
                self.send_rest(step)
            }
            Done::Audited(step, scored) => {
                if let Some(groups) = self.steps.get_mut(&step) {
                    groups.audited(scored);
                }
                self.send_rest(step)
            }
            Done::RestDue(step) => self.send_rest(step),
            Done::Updated(version, updated) => {
                self.updates.insert(version, updated);
                Ok(Some(LoopEvent::EnginesReady { version }))
            }
            Done::Trained(step, report) => {
                self.training = None;
                let expected = position.state().version_of(step);
                let found = report.version;
                if found != expected {
                    let message = format!("it produced version {found} from version {}", expected - 1);
                    let what = format!("step {step}");
                    return Err(RunError::Refused { service: Dependency::Learner, what, message }.into());
                }
                self.report = Some((report, Instant::now()));
                Ok(Some(LoopEvent::Trained(step)))
            }
            Done::Published(weights, took) => {
                let published = PublishedWeights::new(&weights);
                self.add_weights(weights, took);
                Ok(Some(LoopEvent::Published(published)))
            }
            Done::Kept(next) => {
                if next == Next::Step {
                    self.began = Instant::now();
                    let events = self.parts.services.events();
                    events.at_step(position.step(), position.warm_start_steps());
                    events.enter_phase(RunState::Training);
                }
                Ok(Some(LoopEvent::Kept))
            }
        }
    }

    /// Ends what the learner gets of a step, once everything of it is sampled and audited, and what the audit saw of
    /// the steps before it is counted.
    fn send_rest(&mut self, step: u64) -> Result<Option<LoopEvent>, Halt> {
        if self.steps.range(..step).any(|(_, earlier)| earlier.awaits_audit()) {
            return Ok(None);
        }
        match self.steps.get_mut(&step) {
            Some(groups) if groups.is_complete() => groups.send_rest()?,
            _ => return Ok(None),
        }
        // It may have waited for this one.
        let mut later = self.steps.range(step + 1..);
        if let Some((&next, groups)) = later.next()
            && groups.is_complete()
        {
            self.work.push(Box::pin(std::future::ready(Ok(Done::RestDue(next)))));
        }
        Ok(Some(LoopEvent::StepClosed(step)))
    }

    /// Ends the run, which could only wait for ever.
    fn defect(&mut self, message: &str) {
        let error = RunError::Defect(message.to_owned());
        self.work.push(Box::pin(std::future::ready(Err(error.into()))));
    }

    /// Does something that belongs to a step.
    fn spawn_within(&mut self, step: u64, work: impl Future<Output = Result<Done, Halt>> + Send + 'a) {
        let span =
            self.steps.get(&step).map_or_else(|| tracing::info_span!("step", step), |groups| groups.span.clone());
        let work = self.parts.session.trace(step).scope(work.instrument(span));
        self.work.push(Box::pin(work));
    }
}

/// The result of work that may be there. It is gone then.
async fn next_of(work: &mut Option<Work<'_>>) -> Result<Done, Halt> {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}
