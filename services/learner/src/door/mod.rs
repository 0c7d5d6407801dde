//! The learner's gRPC door, `evenkeel.v1.Learner`.
//!
//! One thread owns the model and everything that changes it ([`worker`]); calls reach it through a bounded queue and
//! wait for its answers. So a step is never interleaved with another, and a call that goes away leaves nothing half
//! done. [`convert`] turns messages into groups, [`report`] a step's report into metrics under verl's names, and
//! [`storage`] names and bounds what is written.

mod convert;
mod report;
mod score;
mod service;
mod settings;
mod storage;
mod train;
mod worker;

pub use service::{DoorError, serve};
pub use settings::{PublishType, ServiceSettings};
