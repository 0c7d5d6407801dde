//! All episodes in flight: a task for each segment that is sampled and each response that is verified, assembled into
//! groups. What is sampled when, and by which weights, is decided by others.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::WeightsRef;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tracing::{Instrument, Span};

use super::context::{Batch, RolloutContext, RolloutSpec};
use super::dropped_samples::DroppedSamples;
use super::group_request::GroupRequest;
use super::health::HealthMonitor;
use super::in_flight_group::InFlightGroup;
use super::in_flight_sample::{InFlightSample, SegmentEnd};
use super::sample::Sample;
use super::sampled_group::SampledGroup;
use super::spans::record_prompt;
use crate::error::{Halt, RunError};
use crate::instruments::{self, AtStage, Stage};

/// One sample of one group: the numbers of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SampleKey {
    pub(crate) group: u64,
    pub(crate) sample: u32,
}

/// What has happened to an episode.
pub(crate) enum RolloutEvent {
    /// A segment is with the generation service.
    SegmentBegan(SampleKey),
    /// A segment is sampled, and the response goes on.
    SegmentEnded(SampleKey),
    /// The response is whole, or given up, and is verified.
    ResponseEnded(SampleKey),
    /// The episode was the last one of its group that was not finished.
    Group(Box<SampledGroup>),
}

/// What a task has done.
enum Done {
    Segment(Box<InFlightSample>, SegmentEnd),
    Sample(Box<Sample>),
}

/// Episodes in flight. Dropping it cancels all of them.
pub(crate) struct Rollouts {
    batch: Arc<Batch>,
    groups: BTreeMap<u64, InFlightGroup>,
    /// Episodes whose next segment nobody has asked for; `None` before the first.
    waiting: HashMap<SampleKey, (Option<Box<InFlightSample>>, AtStage)>,
    tasks: JoinSet<Result<(SampleKey, Done), Halt>>,
    /// Segments that are with the generation service; no more than there are tasks.
    began: (mpsc::UnboundedSender<SampleKey>, mpsc::UnboundedReceiver<SampleKey>),
    /// Groups that are complete.
    complete: Vec<SampledGroup>,
    monitor: HealthMonitor,
    dropped_samples: DroppedSamples,
}

impl Rollouts {
    pub(crate) fn new(context: Arc<RolloutContext>, spec: RolloutSpec) -> Self {
        let batch = Arc::new(Batch::new(context, spec));
        Self {
            monitor: HealthMonitor::new(batch.services()),
            batch,
            groups: BTreeMap::new(),
            waiting: HashMap::new(),
            tasks: JoinSet::new(),
            began: mpsc::unbounded_channel(),
            complete: Vec::new(),
            dropped_samples: DroppedSamples::default(),
        }
    }

    /// Adds a group, whose episodes belong to that span in logs. None of them begins before [`Self::sample`].
    pub(crate) fn add(&mut self, request: GroupRequest, span: Span) {
        let group = request.number();
        let size = request.sampling.samples;
        let waiting = |sample| (SampleKey { group, sample }, (None, AtStage::enter(Stage::Queued)));
        self.waiting.extend((0..size).map(waiting));
        self.groups.insert(group, InFlightGroup::new(request, span));
        self.batch.services().events().update(|progress| progress.samples += size as usize);
    }

    /// Samples the next segment of an episode, by these weights; the last one is as long as it gets.
    pub(crate) fn sample(&mut self, key: SampleKey, weights: Option<WeightsRef>, is_last: bool) {
        let (Some(group), Some((waiting, queued))) = (self.groups.get(&key.group), self.waiting.remove(&key)) else {
            return;
        };
        drop(queued);
        let mut episode =
            waiting.unwrap_or_else(|| Box::new(InFlightSample::new(&self.batch, group.request(), key.sample)));
        let began = self.began.0.clone();
        let task = async move {
            let stage = AtStage::enter(Stage::Generating);
            let has_begun = || {
                // The receiver is gone only with this very task.
                let _ = began.send(key);
            };
            let end = episode.sample(weights, is_last, has_begun).await?;
            drop(stage);
            Ok((key, Done::Segment(episode, end)))
        };
        self.spawn(key, task);
    }

    /// What happens next. Never completes while nothing is in flight.
    ///
    /// # Errors
    /// What ends the whole run: a sample that can never be generated, a service that stays away, an immediate stop.
    pub(crate) async fn next(&mut self) -> Result<RolloutEvent, Halt> {
        if let Some(group) = self.complete.pop() {
            return Ok(RolloutEvent::Group(Box::new(group)));
        }
        let batch = Arc::clone(&self.batch);
        let services = batch.services();
        loop {
            tokio::select! {
                biased;
                halt = services.stop().now() => return Err(halt),
                Some(key) = self.began.1.recv() => return Ok(RolloutEvent::SegmentBegan(key)),
                Some(result) = self.tasks.join_next() => {
                    if let Some(event) = self.collect(result)? {
                        return Ok(event);
                    }
                }
                () = self.monitor.tick(), if !self.groups.is_empty() => self.monitor.check(services, batch.health())?,
            }
        }
    }

    fn spawn(&mut self, key: SampleKey, task: impl Future<Output = Result<(SampleKey, Done), Halt>> + Send + 'static) {
        let Some(group) = self.groups.get(&key.group) else { return };
        let id = group.request().id.sample(key.sample).to_string();
        let span = tracing::info_span!(parent: group.span(), "sample", sample = id);
        self.tasks.spawn(task.instrument(span));
    }

    fn collect(
        &mut self,
        result: Result<Result<(SampleKey, Done), Halt>, JoinError>,
    ) -> Result<Option<RolloutEvent>, Halt> {
        let (key, done) = result.map_err(|defect| RunError::Defect(defect.to_string()))??;
        match done {
            Done::Segment(episode, SegmentEnd::GoesOn) => {
                self.waiting.insert(key, (Some(episode), AtStage::enter(Stage::Queued)));
                return Ok(Some(RolloutEvent::SegmentEnded(key)));
            }
            Done::Segment(episode, SegmentEnd::Whole(accepted)) => {
                let stage = AtStage::enter(Stage::Verifying);
                let task = async move {
                    let sample = episode.verify(*accepted).await?;
                    drop(stage);
                    Ok((key, Done::Sample(Box::new(sample))))
                };
                self.spawn(key, task);
            }
            Done::Segment(episode, SegmentEnd::Exhausted { message, late }) => {
                let sample = episode.give_up(message, late);
                let group = self.finish(key, sample);
                self.complete.extend(group);
            }
            Done::Sample(sample) => {
                let group = self.finish(key, *sample);
                return Ok(group.map(|group| RolloutEvent::Group(Box::new(group))));
            }
        }
        if let Some(group) = self.groups.get_mut(&key.group) {
            group.rollout_ended();
        }
        Ok(Some(RolloutEvent::ResponseEnded(key)))
    }

    /// Places a finished sample. Returns its group where it was the last one missing.
    fn finish(&mut self, key: SampleKey, sample: Sample) -> Option<SampledGroup> {
        instruments::sample(sample.label(), sample.tokens);
        self.dropped_samples.add(&sample);
        self.batch.services().events().update(|progress| progress.samples_done += 1);
        let group = self.groups.get_mut(&key.group)?;
        self.batch.show(group.request(), &sample);
        if !group.add(key.sample, sample) {
            return None;
        }
        let group = self.groups.remove(&key.group).map(InFlightGroup::finish)?;
        if self.groups.is_empty() {
            // Nothing is left that could show that engines are back.
            self.batch.engines_available();
            self.monitor.rest();
        }
        // What becomes of a prompt that is trained on shows later.
        if !self.batch.is_for_training() {
            record_prompt(self.batch.run_id(), &group, None);
        }
        Some(group)
    }

    /// How long no engine had a sample because all waited for their environments, since this was last asked.
    pub(crate) fn take_environment_idle(&self) -> Duration {
        self.batch.environment_idle().take()
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
}
