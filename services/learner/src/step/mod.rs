//! A step: from groups as they come to updated weights.
//!
//! [`plan`] turns a group into advantages and weights (the part that the group knows alone), [`micro_batch`] cuts
//! responses into packed micro-batches, [`loss`] gives the model its coefficients, [`run`] puts them in order and
//! [`report`] says what happened.

mod loss;
mod micro_batch;
mod plan;
mod report;
mod run;
mod supervised;
#[cfg(test)]
mod tests;

pub use report::{StepReport, UpdateStats};
pub use run::PolicyStep;
pub use supervised::{Example, SupervisedReport};

pub(crate) use micro_batch::pack_all;
pub(crate) use plan::Planned;
