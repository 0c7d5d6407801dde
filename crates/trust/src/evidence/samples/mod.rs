//! Evidence about an engine's samples: are they drawn from the learner's policy, as the settings say?
//!
//! [`EngineChecks`] has the bets of the five [`SamplerCheck`]s on one engine, [`AuditedEngines`] all engines with their
//! shares of the budget; [`Tolerances`] says how far an honest engine may be off.

mod check;
mod engine;
mod engines;
mod finding;
#[cfg(test)]
pub(crate) mod policy;
mod token;
mod tolerances;

pub(crate) use check::SamplerCheck;
pub(crate) use engine::EngineChecks;
pub(crate) use engines::{AuditedEngines, FailedCheck, StepEvidence};
pub(crate) use token::AuditedToken;
pub(crate) use tolerances::Tolerances;
