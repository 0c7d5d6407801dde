//! A step: from groups as they arrive to updated weights.
//!
//! [`group_weights`] turns a group into advantages and weights (the part that the group knows alone), [`mini_batch`]
//! divides groups among updates, [`loss`] gives the model the coefficients of a micro-batch, [`passes`] are what the
//! model runs, [`batch`] decides which pass runs when, [`policy`] is the step as its caller sees it, [`report`]
//! summarises it, and [`response_report`] says what it did with each response. [`equality`] compares the
//! log-probabilities of engines that compute as the learner does. [`lag_statistics`] measures how far samples of older
//! versions are from the step's. [`probe`] measures the gradients of all aggregation rules in the
//! steps that the settings choose. [`results_of_ranks`] makes what each of several ranks has computed known to all.
//! [`supervised`] is the step of the warm start.

mod batch;
mod equality;
mod group_weights;
mod lag_statistics;
mod loss;
mod mini_batch;
mod passes;
mod policy;
mod probe;
mod report;
mod response_report;
mod results_of_ranks;
mod rule_gradients;
mod supervised;
#[cfg(test)]
mod tests;

pub use batch::{StepPhase, StepProgress};
pub use equality::ComparedTokens;
pub use policy::PolicyStep;
pub use report::{SidesReport, StepReport, UpdateStats};
pub use response_report::ResponseReport;
pub use rule_gradients::{GradientProbe, RuleDetail, RuleGradient};
pub(crate) use supervised::supervised_step;
pub use supervised::{Example, SupervisedReport};
