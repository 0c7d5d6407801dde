//! Evidence about an engine's weights: are they those of the version that it reports?
//!
//! A [`Suspicion`] is one failure mode of an engine's weights. It predicts how the engine's scores would differ from
//! the learner's. [`EnginesEvidence`] says of every engine how far each is decided; [`TensorDigests`] decide all of them at
//! once.

mod by_samples;
mod digests;
mod engine;
mod engines;
mod first_sight;
mod gap;
mod report;
mod sample_bets;
#[cfg(test)]
mod sample_simulation;
mod scored_text;
mod suspicion;

pub use digests::{DigestComparison, TensorDigests};
pub(crate) use engine::CalibratedNoise;
#[cfg(test)]
pub(crate) use engine::EngineEvidence;
pub(crate) use engine::SupportedSuspicion;
pub(crate) use engines::EnginesEvidence;
pub(crate) use first_sight::{check_f32, check_finite, check_model};
pub(crate) use gap::{slope, towards};
pub use report::{ProofReport, SuspicionReport};
pub(crate) use scored_text::ScoredText;
pub(crate) use suspicion::{ProofVersions, Suspicion};
