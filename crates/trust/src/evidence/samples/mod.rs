//! Evidence about an engine's samples: are they drawn from the learner's policy, as the settings say?
//!
//! [`EngineChecks`] has the bets of all [`SamplerCheck`]s on one engine, [`AuditedEngines`] all engines with their
//! shares of the budget; [`Tolerances`] says how far an honest engine may be off, and the noise model follows it.

mod check;
mod engine;
mod engines;
mod finding;
mod noise;
#[cfg(test)]
pub(crate) mod policy;
#[cfg(test)]
mod recipe_tests;
mod rows;
mod token;
mod tolerances;

pub(crate) use check::SamplerCheck;
pub(crate) use engine::{Drawing, EngineChecks, F32_GAP, root_mean_square};
pub(crate) use engines::{AnswerEvidence, AuditedEngines, AuditedSequence, FailedCheck, StepEvidence};
pub(crate) use token::AuditedToken;
pub(crate) use tolerances::Tolerances;
