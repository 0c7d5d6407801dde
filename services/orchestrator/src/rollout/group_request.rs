//! A group that is to be sampled: one prompt, and how its samples are drawn.

use std::sync::Arc;

use evenkeel_data::{EnvironmentTask, Task};
use evenkeel_proto::{GroupId, Purpose, SamplingSettings};

use crate::data::{Asked, Prompt};

/// How the samples of a group are drawn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupSampling {
    /// Sampling settings; the seed is each sample's own.
    pub(crate) settings: SamplingSettings,
    /// How many there are.
    pub(crate) samples: u32,
}

/// A group that is to be sampled.
#[derive(Debug, Clone)]
pub(crate) struct GroupRequest {
    pub(super) id: GroupId,
    pub(super) prompt_token_ids: Arc<[u32]>,
    /// What the model reads as its own teacher, where the row has a hint.
    pub(super) hinted: Option<Arc<[u32]>>,
    /// What answers are judged against.
    pub(super) task: Task,
    /// Environment of a task with several turns.
    pub(super) environment: Option<EnvironmentTask>,
    /// What the row asks, where its environment may add to the prompt.
    pub(super) asked: Option<Arc<Asked>>,
    /// Name of the data source in metrics.
    pub(super) data_source: Arc<str>,
    /// Name of the problem, and its place in its set, from 0.
    pub(super) problem: (Arc<str>, u64),
    /// The task with long tests named by their digest.
    pub(super) named: Option<Task>,
    pub(super) sampling: Arc<GroupSampling>,
}

impl GroupRequest {
    /// The group of prompt `number` of a step; numbers count through the whole data order. It is at `index` of its set.
    pub(crate) fn new(
        purpose: Purpose,
        step: u64,
        number: u64,
        (index, prompt): (u64, &Prompt),
        sampling: &Arc<GroupSampling>,
    ) -> Self {
        Self {
            id: GroupId { purpose, step, prompt: number },
            prompt_token_ids: Arc::clone(&prompt.token_ids),
            hinted: prompt.hinted.clone(),
            task: prompt.task.clone(),
            environment: prompt.environment.clone(),
            asked: prompt.asked.clone(),
            data_source: Arc::clone(&prompt.data_source),
            problem: (Arc::clone(&prompt.id), index),
            named: prompt.task.named(),
            sampling: Arc::clone(sampling),
        }
    }

    /// The number of its prompt.
    pub(crate) fn number(&self) -> u64 {
        self.id.prompt
    }
}
