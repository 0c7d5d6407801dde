//! The gRPC APIs of Evenkeel's services.
//!
//! [`v1`] holds the messages and gRPC stubs of package `evenkeel.v1`, generated from the `.proto` files beside this
//! crate, which are the reference for every field. The generated code is in the repository; `tests/generated.rs` renews
//! it and fails where it is out of date. Clients and servers come with the feature `grpc`; without it there are the
//! messages alone, and no runtime. The other modules are what both client and server need and that needs nothing else:
//! ids and seeds, the way from segments to tokens, checks that name the field, names of enum values.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod failure;
mod field_violation;
mod ids;
mod judge_failure;
mod messages;
mod names;
mod no_reward;
mod run_state;
mod sampling;
mod segments;
mod statistics;
mod tests_source;
mod train;
mod verdict;
mod weights;

pub use evenkeel_errors::{FieldError, engine_advice, shown};
pub use ids::{GroupId, Purpose, SampleId};
pub use judge_failure::JudgeFailure;
pub use names::Label;
pub use no_reward::NoReward;
pub use sampling::SamplingSettings;
pub use segments::{FlatResponse, append_sampled, arithmetic_of, flatten, validate_token_ids};
pub use verdict::is_component_name;
pub use weights::{BASE_GROUP, validate_digest, validate_kept_versions};

/// Messages, clients and servers of package `evenkeel.v1`.
#[allow(clippy::doc_lazy_continuation, clippy::doc_overindented_list_items, unreachable_pub, unused_qualifications)]
pub mod v1 {
    include!("generated/evenkeel.v1.rs");
}

/// The encoded `FileDescriptorSet` of package `evenkeel.v1`, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/evenkeel.v1.binpb");
