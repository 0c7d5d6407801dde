//! The audit of a run: that each prompt of its data order was trained on, filtered for a stated reason or invalid, exactly once, and how
//! long the responses that it was trained on were, compared with those that were sampled.
//!
//! [`record`] is what a run writes for each step, [`check`] what follows from it, [`lengths`] the comparison of lengths. All are functions
//! of the lines alone.

mod check;
mod lengths;
mod record;

pub use check::Audit;
pub use lengths::{LagLengths, Lengths, OvertakenLengths};
pub use record::PromptOutcome;
pub(crate) use record::{GroupRecord, PromptLine, Received};
