//! What is in progress outside of the loop's state: samples, groups, steps, and calls of services. It decides nothing.

mod begin;
mod engines;

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel_proto::v1::{RunState, TrainReport, WeightsRef};
use evenkeel_rpc::BoxFuture;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tracing::Instrument;

use super::loop_work::{Done, LoopParts};
use super::position::Position;
use super::state::{EpisodeId, LoopEvent, Next, PublishedWeights};
use super::step_clock::StepClock;
use super::step_groups::StepGroups;
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::rollout::{RolloutEvent, Rollouts, SampleKey, SampledGroup, WeightsRequest};
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
    /// Samples and proofs that wait for weights which the engines lack, by the number of their request.
    requests: BTreeMap<u64, WeightsRequest>,
    /// Version that the engines got first.
    first_update: Option<u64>,
    work: FuturesUnordered<Work<'a>>,
    /// Separate, since it may be given up.
    training: Option<Work<'a>>,
    /// The learner's report of the step that it has done.
    report: Option<TrainReport>,
    clock: StepClock,
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
            requests: BTreeMap::new(),
            first_update: None,
            work: FuturesUnordered::new(),
            training: None,
            report: None,
            clock: StepClock::new(samples_ahead),
        }
    }

    pub(in crate::run) fn add_weights(&mut self, weights: WeightsRef, took: Duration) {
        self.weights.insert(weights.version, (weights, took));
    }

    /// Takes note of where the loop is before it waits.
    pub(in crate::run) fn observe(&mut self, position: &Position) {
        let state = position.state();
        self.parts.weights.show(state.engines_seen());
        // In data order engines that sample nothing may still evaluate, or be proven.
        let is_idle = self.order == StepOrder::Completion && self.rollouts.is_idle();
        self.clock.set_idle(state.awaits_weights() || is_idle);
    }

    fn forget_weights(&mut self, position: &Position) {
        self.weights = self.weights.split_off(&position.state().oldest_weights());
    }

    /// What happens next.
    ///
    /// # Errors
    /// What ends the run, or returns it to its last checkpoint: the learner has lost its state.
    pub(in crate::run) async fn next(&mut self, position: &Position) -> Result<LoopEvent, Halt> {
        let stop = self.parts.services.stop();
        let state = position.state();
        let done = tokio::select! {
            biased;
            halt = stop.now() => return Err(halt),
            // A report that is there is not thrown away.
            done = next_of(&mut self.training) => done?,
            () = stop.step_abandoned(state.trains_whole_step()), if !state.abandons() => {
                // Until its report is there, the state of both sides is that of the last whole step.
                self.training = None;
                return Ok(LoopEvent::AbandonStep);
            }
            _ = stop.any(), if !state.stops() => return Ok(LoopEvent::Stop),
            Some(done) = self.work.next() => done?,
            Some(request) = self.parts.weights.next_request() => return Ok(self.requested(request)),
            event = self.rollouts.next() => return self.rolled_out(event?),
        };
        self.is_done(done, position)
    }

    fn rolled_out(&mut self, event: RolloutEvent) -> Result<LoopEvent, Halt> {
        let episode = |key: SampleKey| EpisodeId { prompt: key.group, sample: key.sample };
        let group = match event {
            RolloutEvent::SegmentBegan(key) => return Ok(LoopEvent::SegmentBegan(episode(key))),
            RolloutEvent::SegmentEnded(key) => return Ok(LoopEvent::SegmentEnded(episode(key))),
            RolloutEvent::ResponseEnded(key) => return Ok(LoopEvent::ResponseEnded(episode(key))),
            RolloutEvent::Group(group) => group,
        };
        let prompt = group.number();
        let zero_advantage = group.is_zero_advantage();
        let audit_is_ready = match self.steps.get_mut(&group.seeded_by()) {
            Some(groups) => groups.finished(&group)?,
            None => false,
        };
        self.finished.insert(prompt, *group);
        Ok(LoopEvent::GroupFinished { prompt, zero_advantage, audit_is_ready })
    }

    fn is_done(&mut self, done: Done, position: &Position) -> Result<LoopEvent, Halt> {
        match done {
            Done::Event(event) => Ok(event),
            Done::Sampled(step) => {
                if let Some(groups) = self.steps.get_mut(&step) {
                    groups.sampled();
                }
                Ok(LoopEvent::Sampled(step))
            }
            Done::Audited(step, scored) => {
                if let Some(groups) = self.steps.get_mut(&step) {
                    groups.scored(scored);
                }
                Ok(LoopEvent::Audited(step))
            }
            Done::Updated(version, took) => {
                self.clock.engines_updated(version, took);
                Ok(LoopEvent::EnginesUpdated { version })
            }
            Done::Proven(version, proof) => {
                self.clock.engines_proven(version, proof);
                Ok(LoopEvent::EnginesReady { version })
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
                self.report = Some(report);
                self.clock.report_came();
                Ok(LoopEvent::Trained(step))
            }
            Done::Published(weights, took) => {
                let published = PublishedWeights::new(&weights);
                self.add_weights(weights, took);
                Ok(LoopEvent::Published(published))
            }
            Done::Kept(next) => {
                if next == Next::Step {
                    self.clock.begin_learning();
                    let events = self.parts.services.events();
                    events.at_step(position.step(), position.warm_start_steps());
                    events.enter_phase(RunState::Training);
                }
                Ok(LoopEvent::Kept)
            }
        }
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
