//! From prompts to scored groups: samples are generated and verified concurrently, groups come out whole.
//!
//! [`Rollouts`] has a task for each segment that is sampled and each response that is verified, and assembles their
//! results into groups; an `episode` takes its sample from the request to the reward, and `play` one with several turns
//! from its opening to its score. A `table` is where either meets whoever answers it. [`RolloutScheduler`] is the same
//! for samples that are not trained on.

mod bare;
mod context;
mod dropped_samples;
mod engine_weights;
mod environment_idle;
mod episode;
mod group;
mod growing_response;
mod health;
mod play;
mod played;
mod response_part;
mod rollouts;
mod sample;
mod scheduler;
mod segment;
mod shaping;
mod spans;
mod step_batch;
mod table;
mod talk;
mod validation;
mod verification;

pub(crate) use context::{RolloutContext, RolloutSpec};
pub(crate) use dropped_samples::DroppedSamples;
pub(crate) use engine_weights::{EngineWeights, EnginesSeen, MissingWeights, UpdateCounts, WeightsRequest};
pub(crate) use group::{GroupRequest, GroupSampling, SampledGroup};
pub(crate) use played::EpisodeRecord;
pub(crate) use rollouts::{RolloutEvent, Rollouts, SampleKey};
pub(crate) use sample::{COPIED, Sample, SampleStatus};
pub(crate) use scheduler::RolloutScheduler;
pub(crate) use segment::SegmentTokens;
pub(crate) use spans::record_prompt;
pub(crate) use step_batch::StepBatch;
