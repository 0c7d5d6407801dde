//! The gRPC service `evenkeel.v1.Learner`.
//!
//! One thread owns the model and everything that changes it ([`worker`]); calls reach it through a bounded queue of
//! [`command`]s and wait for its answers. So a step is never interleaved with another, and a call that is cancelled
//! leaves nothing half done. [`train`] runs a step from its header to its report, [`score`] batches what is to be
//! scored, [`artifacts`] writes checkpoints and weights, [`lease`] decides which run the learner serves, [`status`] is
//! what status calls read meanwhile. [`convert`] turns messages into groups, [`report`] a step's report into metrics
//! under verl's names.

mod artifacts;
mod command;
mod convert;
mod grpc;
mod lease;
mod report;
mod retention;
mod score;
mod session;
mod settings;
mod start;
mod status;
mod train;
mod worker;

pub use settings::{PublishType, ServiceSettings};
pub use start::{StartError, bind};
