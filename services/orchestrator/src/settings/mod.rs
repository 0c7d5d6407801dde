//! The orchestrator's own sections of a recipe; every key carries its documentation with it.

mod loop_sections;
mod section;
mod source_sections;
mod validate;

pub use loop_sections::{
    CheckpointSettings, EvaluationSettings, RunSettings, SamplingSettings, ServicesSettings, ShapingSettings,
    WarmStartSettings,
};
pub use source_sections::{DataKind, DataSettings, Engines, Overlong, ProgramMode, ProgramReward};

pub(crate) use validate::is_run_name;
