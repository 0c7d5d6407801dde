//! All samples in flight: a task for each, started in data order, assembled into groups.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Semaphore, oneshot};
use tokio::task::{JoinError, JoinSet};
use tracing::Instrument;

use super::context::{Batch, RolloutContext, RolloutSpec};
use super::group::{GroupPlan, InFlightGroup, SampledGroup};
use super::health::HealthMonitor;
use super::sample::{Sample, SampleStatus};
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
    finished: Finished,
    /// Told once every sample that was added is with the generation service.
    started: Option<oneshot::Sender<()>>,
}

/// Samples whose tasks are over.
#[derive(Debug, Default)]
struct Finished {
    samples: usize,
    /// Those that took too long.
    late: usize,
    /// Those that were generated and have no verdict, for another reason.
    invalid: usize,
    /// Why one of these has none last; empty where all have one.
    last_invalid: String,
    /// Why one was left out last; empty where none was.
    last_failure: String,
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
            finished: Finished::default(),
            started: None,
        }
    }

    /// Completes once every sample that was added before [`Self::next_group`] is on its way to the generation service.
    pub(crate) fn all_started(&mut self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.started = Some(sender);
        receiver
    }

    /// Adds a group; its samples start within [`Self::next_group`].
    pub(crate) fn add(&mut self, plan: GroupPlan) {
        let (group, size) = (plan.number(), plan.sampling.samples);
        let queued = |sample| (SampleKey { group, sample }, AtStage::enter(Stage::Queued));
        self.queue.extend((0..size).map(queued));
        self.groups.insert(group, InFlightGroup::new(plan));
        self.batch.services().events().update(|progress| progress.samples += size as usize);
    }

    /// The next group that is complete, in any order. Must not be called when nothing is in flight.
    pub(crate) async fn next_group(&mut self) -> Result<SampledGroup, Halt> {
        let batch = Arc::clone(&self.batch);
        let services = batch.services();
        loop {
            tokio::select! {
                biased;
                halt = services.stop().now() => return Err(halt),
                Some(result) = self.tasks.join_next() => {
                    if let Some(group) = self.collect(result)? {
                        return Ok(group);
                    }
                }
                permit = Arc::clone(&self.permits).acquire_owned(), if !self.queue.is_empty() => {
                    let permit = permit.map_err(|error| RunError::Defect(error.to_string()))?;
                    self.start_next(permit);
                }
                () = self.monitor.tick() => self.monitor.check(services, &batch.health)?,
            }
        }
    }

    fn start_next(&mut self, permit: tokio::sync::OwnedSemaphorePermit) {
        let Some((key, _queued)) = self.queue.pop_front() else { return };
        let Some(group) = self.groups.get(&key.group) else { return };
        let task = SampleTask::new(Arc::clone(&self.batch), Arc::clone(group.plan()), key.sample);
        let span = tracing::info_span!("sample", sample = task.id());
        self.tasks.spawn(async move { (key, task.run(permit).await) }.instrument(span));
        if let Some(started) = self.started.take_if(|_| self.queue.is_empty()) {
            // Nobody waits for it any more.
            let _ = started.send(());
        }
    }

    /// Places a finished sample. Returns its group where it was the last one missing.
    fn collect(&mut self, result: Result<TaskResult, JoinError>) -> Result<Option<SampledGroup>, Halt> {
        let (key, sample) = result.map_err(|defect| RunError::Defect(defect.to_string()))?;
        let sample = sample?;
        instruments::sample(sample.label(), sample.tokens);
        self.finished.add(&sample);
        self.batch.services().events().update(|progress| progress.samples_done += 1);
        if let Some(group) = self.groups.get(&key.group) {
            self.batch.show(group.plan(), &sample);
        }
        let is_complete = self.groups.get_mut(&key.group).is_some_and(|group| group.add(key.sample, sample));
        let group = if is_complete { self.groups.remove(&key.group).map(InFlightGroup::finish) } else { None };
        // What becomes of a prompt that is trained on shows later.
        if let Some(group) = group.as_ref().filter(|_| !self.batch.is_for_training()) {
            record_prompt(self.batch.run_id(), group, None);
        }
        Ok(group)
    }

    /// Refuses what was sampled for `what` where more samples took too long than may be left out.
    ///
    /// # Errors
    /// [`RunError::Late`].
    pub(crate) fn check_late(&self, what: &str) -> Result<(), RunError> {
        let (Finished { samples, late, last_failure, .. }, settings) =
            (&self.finished, self.batch.services().settings());
        let allowed = settings.max_late_share;
        if *late as f64 <= allowed * *samples as f64 {
            return Ok(());
        }
        let (what, last) = (what.to_owned(), last_failure.clone());
        Err(RunError::Late { what, late: *late, samples: *samples, allowed, last })
    }

    /// Refuses what was sampled for `what` where more samples have no verdict, for another reason than time, than may be left out.
    ///
    /// # Errors
    /// [`RunError::Invalid`].
    pub(crate) fn check_invalid(&self, what: &str) -> Result<(), RunError> {
        let (Finished { samples, invalid, last_invalid, .. }, settings) =
            (&self.finished, self.batch.services().settings());
        let allowed = settings.max_invalid_share;
        if *invalid as f64 <= allowed * *samples as f64 {
            return Ok(());
        }
        let (what, last) = (what.to_owned(), last_invalid.clone());
        Err(RunError::Invalid { what, invalid: *invalid, samples: *samples, allowed, last })
    }

    /// When the last generation ended.
    pub(crate) fn last_rollout(&self) -> Instant {
        self.batch.health.last_rollout()
    }

    /// Why a sample was left out last; empty where none was.
    pub(crate) fn last_failure(&self) -> &str {
        &self.finished.last_failure
    }
}

impl Finished {
    fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        self.late += usize::from(sample.is_late());
        if let SampleStatus::Invalid { reason, late: false } = &sample.status {
            self.invalid += 1;
            reason.clone_into(&mut self.last_invalid);
        }
        if let Some(failure) = sample.failure() {
            failure.clone_into(&mut self.last_failure);
        }
    }
}
