//! The learner: groups of verified responses in, an optimizer step out.
//!
//! A [`Learner`] takes whole [`Group`]s, normalises rewards into advantages, weighs tokens by the objective's
//! aggregation ([`evenkeel_objective`]), passes them through the model in micro-batches ([`evenkeel_model`]), and
//! updates fp32 weights. It writes checkpoints from which training goes on bit by bit, and publishes weights for the
//! engines. No other place in the system normalises anything. [`serve`] puts it behind `evenkeel.v1.Learner`.
#![forbid(unsafe_code)]

mod checkpoint;
mod door;
mod error;
mod files;
mod group;
mod learner;
mod optimizer;
mod publish;
mod settings;
mod step;

pub use door::{DoorError, PublishType, ServiceSettings, serve};
pub use error::{LearnerError, Result};
pub use group::{Group, Response};
pub use learner::Learner;
pub use publish::{MARKER, PublishOptions, Published, verify_published};
pub use settings::{BatchShape, Compute, ComputeType, LearnerSettings, OldLogp, OptimizerSettings, Schedule};
pub use step::{Example, PolicyStep, StepReport, SupervisedReport, UpdateStats};
