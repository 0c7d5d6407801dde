//! The gRPC service `evenkeel.v1.Learner`.
//!
//! One thread owns the model and everything that changes it ([`learner_thread`]); calls reach it through a bounded
//! queue of [`command`]s and wait for its answers. Steps are never interleaved, and a cancelled call leaves nothing
//! half done. [`train`] runs a step from its header to its report, [`score`] batches sequences to score,
//! [`score_request`] is what they ask for, [`artifacts`] writes checkpoints and weights, [`skipped_batches`] the
//! batches of skipped updates, [`lease`] decides which run the learner serves, [`operations`] runs those of callers
//! that train in operations of their own, [`status`] is what status calls read. [`convert`] turns messages into groups,
//! [`report`] a step's report into measurements under verl's names, [`instruments`] records its metrics, which
//! [`series`] lists, and [`spans`] its trace. [`published_files`] hands published weights to agents beside engines.
//! With several ranks, [`leader`] is what rank 0 has of the others, which join at [`rank_port`] as [`rank_identity`]
//! says who they are, and [`follow`] is what each of these does.

mod artifacts;
mod command;
mod convert;
mod follow;
mod gpu_memory;
mod grpc;
mod instruments;
mod leader;
mod learner_thread;
mod lease;
mod operations;
mod published_files;
mod rank_identity;
mod rank_port;
mod readers;
mod report;
mod retention;
mod score;
mod score_request;
mod series;
mod settings;
mod skipped_batches;
mod spans;
mod start;
mod start_error;
mod status;
mod train;
mod train_call;
mod weights_store;

pub use follow::{RankEnd, follow};
pub(crate) use report::{TokenCounts, grpo as grpo_report};
pub use retention::{checkpoints_of, published_versions};
pub use series::SERIES;
pub use settings::{CheckpointType, LearnerSettings, PublishType};
pub use start::{bind, wait_for_ranks};
pub use start_error::StartError;
