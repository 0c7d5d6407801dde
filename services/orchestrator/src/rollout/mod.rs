//! From prompts to scored groups: samples are generated and verified concurrently, groups come out whole.
//!
//! [`RolloutScheduler`] starts one task for each sample and assembles their results into groups; a task (`sample_task`) takes its sample
//! from the request to the reward. [`Rounds`] are the weights that sample, one after the other; [`StepSelection`] decides which groups make a
//! step.

mod context;
mod dropped_samples;
mod engine_weights;
mod group;
mod health;
mod response_part;
mod round_schedule;
mod rounds;
mod sample;
mod sample_task;
mod scheduler;
mod selection;
mod shaping;
mod spans;
mod validation;
mod verification;
mod versions_in_flight;

pub(crate) use context::{RolloutContext, RolloutSpec, SampledBy};
pub(crate) use dropped_samples::DroppedSamples;
pub(crate) use engine_weights::{EngineWeights, WeightUpdate};
pub(crate) use group::{GroupRequest, GroupSampling, SampledGroup};
pub(crate) use round_schedule::RoundSchedule;
pub(crate) use rounds::Rounds;
pub(crate) use sample::{COPIED, Sample, SampleStatus};
pub(crate) use scheduler::RolloutScheduler;
pub(crate) use selection::{StepBatch, StepSelection};
pub(crate) use spans::record_prompt;
