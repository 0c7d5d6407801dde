//! The learner: turns groups of verified responses into optimizer steps.
//!
//! A [`Learner`] takes whole [`ResponseGroup`]s, normalises rewards into advantages, weights tokens by the objective's
//! aggregation ([`evenkeel_objective`]), runs them through the model in micro-batches ([`evenkeel_model`]), and updates
//! fp32 weights. It writes checkpoints from which training continues bit-identically, and publishes weights for the
//! engines. Nothing else in the system normalises a loss. [`bind`] serves it as `evenkeel.v1.Learner` over gRPC.
//!
//! From the outside in: `service` is the gRPC service; [`Learner`] combines the parts; `step` runs a policy or
//! supervised step, `terms` are what the loss has beside the policy's term; `trainer` holds what training changes
//! (`model`, `optimizer`, version); `checkpoint` and `publish` write it.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod accumulation;
mod blocks;
mod checkpoint;
mod error;
mod export;
mod files;
mod gradient_sum;
mod group;
mod initial;
mod learner;
mod memory;
mod micro_batch;
mod model;
mod opened;
mod optimizer;
mod parts;
mod publish;
mod published_model;
mod ranks;
mod recorded;
mod scoring;
mod sequence;
mod service;
mod settings;
mod shared_layers;
mod skip_reason;
mod source;
mod step;
mod step_folder;
mod terms;
#[cfg(test)]
mod test_model;
mod timeline;
mod tokens;
mod trainer;

pub use accumulation::{Accumulated, Applied, TargetLoss, TargetSequence};
pub use error::{LearnerError, Result};
pub use evenkeel_objective::{Aggregation, Constants, SideDial};
pub use export::{Export, export};
pub use group::{Comparison, Response, ResponseGroup, RewardPart};
pub use learner::Learner;
pub use memory::{
    Advice, Change, CpuMemoryPlan, DiskPlan, FirstFit, LargestBatch, MeasuredMemory, MemoryKind, MemoryPart,
    MemoryPhase, MemoryPlan, MemoryUse, NotEnoughMemory, OutOfMemory, RunFolders,
};
pub use publish::{PublishOptions, Published, verify_published};
pub use ranks::{Collective, Division, InProcess, RankError};
pub use recorded::{
    Agreement, Drawing, DrawnAgain, Precision, Recomputation, RecomputedStep, RecordedRun, RecordedStep, Replay,
    ReplayError, ReplaySettings, ReplayedStep, RuleEffect, SampleEffect, SentSamples, StoredWeights,
};
pub use service::{
    CheckpointType, LearnerSettings, PublishType, RankEnd, SERIES, StartError, bind, checkpoints_of, follow,
    published_versions, wait_for_ranks,
};
pub use settings::{
    AttentionPath, BaseType, BatchShape, Compute, ComputeType, LoraSettings, MomentsLocation, OldLogp,
    OptimizerSettings, ProbeSettings, RankPlace, RankSettings, SampledVersions, Schedule, TrainingSettings, VersionMix,
};
pub use skip_reason::SkipReason;
pub use step::{
    ComparedTokens, Example, GradientProbe, PolicyStep, ResponseReport, RuleDetail, RuleGradient, SidesReport,
    StepPhase, StepProgress, StepReport, SupervisedReport, UpdateStats,
};
pub use terms::distillation::DistillationSettings;
pub use timeline::{Pass, PassKind, WorkDone};
pub use trainer::SharedCollective;
