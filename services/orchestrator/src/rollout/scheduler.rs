//! Groups that are sampled by one version of the weights as a whole, so many responses at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use evenkeel_proto::v1::WeightsRef;
use tracing::Span;

use super::context::{RolloutContext, RolloutSpec};
use super::dropped_samples::DroppedSamples;
use super::group_request::GroupRequest;
use super::rollouts::{RolloutEvent, Rollouts, SampleKey};
use super::sampled_group::SampledGroup;
use super::segment::SegmentTokens;
use crate::error::Halt;

/// Samples in flight that are not trained on. Dropping it cancels all of them.
pub(crate) struct RolloutScheduler {
    rollouts: Rollouts,
    /// `None`: whichever the engines have.
    weights: Option<WeightsRef>,
    /// Samples that are not started yet, in order.
    queue: VecDeque<SampleKey>,
    in_flight: usize,
    /// What the generation service may have at once.
    most_in_flight: usize,
}

impl RolloutScheduler {
    pub(crate) fn new(context: Arc<RolloutContext>, weights: Option<WeightsRef>) -> Self {
        let most_in_flight = context.services().settings().max_rollouts.max(1);
        let spec = RolloutSpec { by_newest: false, for_training: false, segments: SegmentTokens::WHOLE };
        let rollouts = Rollouts::new(context, spec);
        Self { rollouts, weights, queue: VecDeque::new(), in_flight: 0, most_in_flight }
    }

    /// Adds a group; its samples start within [`Self::next_group`].
    pub(crate) fn add(&mut self, request: GroupRequest) {
        let group = request.number();
        let size = request.sampling.samples;
        self.queue.extend((0..size).map(|sample| SampleKey { group, sample }));
        self.rollouts.add(request, Span::current());
    }

    /// The next group that is complete, in any order. Must not be called when nothing is in flight.
    pub(crate) async fn next_group(&mut self) -> Result<SampledGroup, Halt> {
        loop {
            while self.in_flight < self.most_in_flight {
                let Some(key) = self.queue.pop_front() else { break };
                self.in_flight += 1;
                self.rollouts.sample(key, self.weights.clone(), true);
            }
            match self.rollouts.next().await? {
                RolloutEvent::ResponseEnded(_) => self.in_flight -= 1,
                RolloutEvent::Group(group) => return Ok(*group),
                RolloutEvent::SegmentBegan(_) | RolloutEvent::SegmentEnded(_) => {}
            }
        }
    }

    /// The samples that are over, and those among them that are left out.
    pub(crate) fn dropped_samples(&self) -> &DroppedSamples {
        self.rollouts.dropped_samples()
    }
}
