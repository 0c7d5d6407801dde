//! A group that still waits for samples.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use tracing::Span;

use super::group_request::GroupRequest;
use super::sample::Sample;
use super::sampled_group::SampledGroup;

/// A group that still waits for samples.
#[derive(Debug)]
pub(super) struct InFlightGroup {
    request: Arc<GroupRequest>,
    began: SystemTime,
    /// When the last response ended.
    last_rollout: Instant,
    /// Tracing span of the group; its fields appear in logs.
    span: Span,
    samples: Vec<Option<Sample>>,
    missing: usize,
}

impl InFlightGroup {
    pub(super) fn new(request: GroupRequest, span: Span) -> Self {
        let size = request.sampling.samples as usize;
        Self {
            request: Arc::new(request),
            began: SystemTime::now(),
            last_rollout: Instant::now(),
            span,
            samples: vec![None; size],
            missing: size,
        }
    }

    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// A response has ended.
    pub(super) fn rollout_ended(&mut self) {
        self.last_rollout = Instant::now();
    }

    pub(super) fn request(&self) -> &Arc<GroupRequest> {
        &self.request
    }

    /// Adds a finished sample. Returns whether it was the last one.
    pub(super) fn add(&mut self, number: u32, sample: Sample) -> bool {
        if let Some(slot) = self.samples.get_mut(number as usize)
            && slot.replace(sample).is_none()
        {
            self.missing -= 1;
        }
        self.missing == 0
    }

    /// The samples that are over.
    pub(super) fn finished(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().flatten()
    }

    /// How many are not.
    pub(super) fn missing(&self) -> usize {
        self.missing
    }

    /// The group with the samples that it has.
    pub(super) fn finish(self) -> SampledGroup {
        let samples = self.samples.into_iter().flatten().collect();
        SampledGroup::new(self.request, self.began, self.last_rollout, samples)
    }
}
