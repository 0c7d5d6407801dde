//! The orchestrator's own sections of a recipe; every key carries its documentation with it.

mod data_section;
mod engines;
mod loop_sections;
mod section;
mod sources;
mod validate;

pub use data_section::{DataKind, DataSettings, InvalidRows, Overlong, ProgramMode, ProgramReward};
pub use engines::Engines;
pub use loop_sections::{
    CheckpointSettings, EvaluationSettings, RunSettings, SamplingSettings, ServicesSettings, ShapingSettings,
    WarmStartSettings,
};
pub use sources::{FilterSettings, Scalar, SourceSettings};

pub(crate) use validate::is_run_name;
