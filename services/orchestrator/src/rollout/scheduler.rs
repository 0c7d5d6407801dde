//! All samples in flight: a task for each, started in data order, assembled into groups.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tracing::Instrument;

use super::context::{Batch, RolloutContext, RolloutSpec};
use super::dropped_samples::DroppedSamples;
use super::group::{GroupRequest, InFlightGroup, SampledGroup};
use super::health::HealthMonitor;
use super::sample::Sample;
use super::sample_task::SampleTask;
use super::spans::record_prompt;
use crate::error::{Halt, RunError};
use crate::instruments::{self, AtStage, Stage};

/// One sample of one group: the numbers of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SampleKey {
    group: u64,
    sample: u32,
}

type TaskResult = (SampleKey, Result<Sample, Halt>);

/// Samples in flight. Dropping it cancels all of them.
pub(crate) struct RolloutScheduler {
    batch: Arc<Batch>,
    /// Samples that are not started yet, in data order.
    queue: VecDeque<(SampleKey, AtStage)>,
    groups: BTreeMap<u64, InFlightGroup>,
    tasks: JoinSet<TaskResult>,
    /// What the generation service may have at once.
    permits: Arc<Semaphore>,
    monitor: HealthMonitor,
    dropped_samples: DroppedSamples,
}

impl RolloutScheduler {
    pub(crate) fn new(context: Arc<RolloutContext>, spec: RolloutSpec) -> Self {
        let batch = Arc::new(Batch::new(context, spec));
        let services = batch.services();
        let (permits, monitor) = (services.settings().max_rollouts, HealthMonitor::new(services));
        Self {
            batch,
            queue: VecDeque::new(),
            groups: BTreeMap::new(),
            tasks: JoinSet::new(),
            permits: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
            monitor,
            dropped_samples: DroppedSamples::default(),
        }
    }

    /// Adds a group; its samples start within [`Self::next_group`].
    pub(crate) fn add(&mut self, request: GroupRequest) {
        let (group, size) = (request.number(), request.sampling.samples);
        self.batch.rounds().into_iter().for_each(|rounds| rounds.add(request.rounds, size as usize));
        let queued = |sample| (SampleKey { group, sample }, AtStage::enter(Stage::Queued));
        self.queue.extend((0..size).map(queued));
        self.groups.insert(group, InFlightGroup::new(request));
        self.batch.services().events().update(|progress| progress.samples += size as usize);
    }

    /// The next group that is complete, in any order. Must not be called when nothing is in flight.
    pub(crate) async fn next_group(&mut self) -> Result<SampledGroup, Halt> {
        let batch = Arc::clone(&self.batch);
        let services = batch.services();
        loop {
            let next_permit = self.next_permit();
            tokio::select! {
                biased;
                halt = services.stop().now() => return Err(halt),
                Some(result) = self.tasks.join_next() => {
                    if let Some(group) = self.collect(result)? {
                        return Ok(group);
                    }
                }
                permit = next_permit, if !self.queue.is_empty() => self.start_next(permit?),
                () = self.monitor.tick() => self.monitor.check(services, batch.health())?,
            }
        }
    }

    /// What the next sample may start with, once its first round has begun: those after it in the data order begin no sooner.
    fn next_permit(&self) -> impl Future<Output = Result<OwnedSemaphorePermit, RunError>> + use<> {
        let next = self.queue.front().and_then(|(key, _)| self.groups.get(&key.group));
        let round = next.map_or(0, |group| *group.request().rounds.range().start());
        let (batch, permits) = (Arc::clone(&self.batch), Arc::clone(&self.permits));
        async move {
            batch.weights(round).await;
            permits.acquire_owned().await.map_err(|error| RunError::Defect(error.to_string()))
        }
    }

    fn start_next(&mut self, permit: OwnedSemaphorePermit) {
        let Some((key, _queued)) = self.queue.pop_front() else { return };
        let Some(group) = self.groups.get(&key.group) else { return };
        let task = SampleTask::new(&self.batch, Arc::clone(group.request()), key.sample, &self.permits);
        let span = tracing::info_span!("sample", sample = task.id());
        self.tasks.spawn(async move { (key, task.run(permit).await) }.instrument(span));
    }

    /// Places a finished sample. Returns its group where it was the last one missing.
    fn collect(&mut self, result: Result<TaskResult, JoinError>) -> Result<Option<SampledGroup>, Halt> {
        let (key, sample) = result.map_err(|defect| RunError::Defect(defect.to_string()))?;
        let sample = sample?;
        instruments::sample(sample.label(), sample.tokens);
        self.dropped_samples.add(&sample);
        self.batch.services().events().update(|progress| progress.samples_done += 1);
        if let Some(group) = self.groups.get(&key.group) {
            self.batch.show(group.request(), &sample);
        }
        let is_complete = self.groups.get_mut(&key.group).is_some_and(|group| group.add(key.sample, sample));
        let group = if is_complete { self.groups.remove(&key.group).map(InFlightGroup::finish) } else { None };
        // What becomes of a prompt that is trained on shows later.
        if let Some(group) = group.as_ref().filter(|_| !self.batch.is_for_training()) {
            record_prompt(self.batch.run_id(), group, None);
        }
        Ok(group)
    }

    /// The samples that are over, and those among them that are left out.
    pub(crate) fn dropped_samples(&self) -> &DroppedSamples {
        &self.dropped_samples
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.groups.is_empty()
    }

    /// The samples that are over of groups that are not complete.
    pub(crate) fn finished_samples(&self) -> impl Iterator<Item = &Sample> {
        self.groups.values().flat_map(InFlightGroup::finished)
    }

    /// Samples that are not over.
    pub(crate) fn unfinished_samples(&self) -> usize {
        self.groups.values().map(InFlightGroup::missing).sum()
    }

    /// When the last generation ended.
    pub(crate) fn last_rollout(&self) -> Instant {
        self.batch.health().last_rollout()
    }
}
