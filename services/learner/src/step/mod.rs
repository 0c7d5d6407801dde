//! A step: from groups as they arrive to updated weights.
//!
//! [`group_plan`] turns a group into advantages and weights (the part that the group knows alone), [`loss`] gives the
//! model the coefficients of a micro-batch, [`policy`] runs passes and updates, and [`report`] summarises the step.
//! [`supervised`] is the step of the warm start.

mod group_plan;
mod loss;
mod policy;
mod report;
mod supervised;
#[cfg(test)]
mod tests;

pub use policy::PolicyStep;
pub use report::{StepReport, UpdateStats};
pub(crate) use supervised::supervised_step;
pub use supervised::{Example, SupervisedReport};
