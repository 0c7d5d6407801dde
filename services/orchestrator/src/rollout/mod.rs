//! From prompts to scored groups: samples are generated and verified concurrently, groups come out whole.
//!
//! [`Rollouts`] has a task for each segment that is sampled and each response that is verified, and assembles their
//! results into groups. `in_flight_sample` takes a sample from the request to the reward, with `generated_part` for
//! each part of its response. `play` takes an episode of several turns from its opening to its score: `turns` samples
//! them, `episode_client` has the environment's worker carry them out. [`RolloutScheduler`] is for samples that are not
//! trained on.

mod bare;
mod context;
mod correct;
mod demonstration;
mod dropped_samples;
mod engine_weights;
mod environment_idle;
mod episode_client;
mod generated_part;
mod group_request;
mod growing_response;
mod health;
mod in_flight_group;
mod in_flight_sample;
mod judging;
mod left_out;
mod play;
mod played;
mod response_part;
mod rollouts;
mod sample;
mod sampled_group;
mod scheduler;
mod segment;
mod shaping;
mod spans;
mod step_batch;
mod talk;
mod turns;
mod validation;
mod verification;

pub(crate) use context::{RolloutContext, RolloutSpec};
pub(crate) use demonstration::play_demonstration;
pub(crate) use dropped_samples::DroppedSamples;
pub(crate) use engine_weights::{EngineWeights, EnginesSeen, MissingWeights, UpdateCounts, WeightsRequest};
pub(crate) use episode_client::{BrokenEpisode, EpisodeClient, EpisodeLimits};
pub(crate) use group_request::{GroupRequest, GroupSampling};
pub(crate) use judging::{JudgedAnswer, Judging};
pub(crate) use played::EpisodeRecord;
pub(crate) use rollouts::{RolloutEvent, Rollouts, SampleKey};
pub(crate) use sample::{COPIED, Sample, SampleStatus, VerdictDetail, engines_of};
pub(crate) use sampled_group::SampledGroup;
pub(crate) use scheduler::RolloutScheduler;
pub(crate) use segment::SegmentTokens;
pub(crate) use shaping::VerdictReward;
pub(crate) use spans::record_prompt;
pub(crate) use step_batch::StepBatch;
pub(crate) use verification::{VerificationOutcome, VerifyRequest, verify};
