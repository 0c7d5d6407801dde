//! The learner: turns groups of verified responses into optimizer steps.
//!
//! A [`Learner`] takes whole [`Group`]s, normalises rewards into advantages, weights tokens by the objective's
//! aggregation ([`evenkeel_objective`]), runs them through the model in micro-batches ([`evenkeel_model`]), and updates
//! fp32 weights. It writes checkpoints from which training continues bit-identically, and publishes weights for the
//! engines. Nothing else in the system normalises a loss. [`bind`] serves it as `evenkeel.v1.Learner` over gRPC.
//!
//! From the outside in: `service` is the gRPC service; [`Learner`] combines the parts; `step` runs a policy or supervised
//! step; `trainer` holds what training changes (`model`, `optimizer`, version); `checkpoint` and `publish` write it.
#![forbid(unsafe_code)]

mod checkpoint;
mod error;
mod export;
mod files;
mod group;
mod initial;
mod learner;
mod memory;
mod micro_batch;
mod model;
mod optimizer;
mod publish;
mod service;
mod settings;
mod source;
mod step;
#[cfg(test)]
mod test_model;
mod timeline;
mod trainer;

pub use error::{LearnerError, Result};
pub use export::{Export, export};
pub use group::{Group, Response};
pub use learner::Learner;
pub use memory::{DiskPlan, MeasuredMemory, MemoryPart, MemoryPlan, host_memory};
pub use optimizer::SkipReason;
pub use publish::{MARKER, PublishOptions, Published, verify_published};
pub use service::{
    CheckpointType, PublishType, SERIES, ServiceSettings, StartError, bind, checkpoints_of, published_versions,
};
pub use settings::{
    AttentionPath, BatchShape, Compute, ComputeType, LearnerSettings, MomentsLocation, OldLogp, OptimizerSettings,
    ProbeSettings, Recompute, SampledVersions, Schedule, VersionMix,
};
pub use step::{
    Example, GradientProbe, PolicyStep, RuleGradient, StepPhase, StepProgress, StepReport, SupervisedReport,
    UpdateStats,
};
pub use timeline::{Pass, PassKind, WorkDone};
