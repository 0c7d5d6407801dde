//! The orchestrator's own settings, a section each; every key carries its documentation with it.

mod check;
mod loop_sections;
mod section;
mod source_sections;

pub use loop_sections::{
    CheckpointSettings, EvaluationSettings, RunSettings, SamplingSettings, ServicesSettings, ShapingSettings,
    WarmStartSettings,
};
pub use source_sections::{DataSettings, Engines, FreshShape, ModelSettings, Overlong, Task};

pub(crate) use check::{check_learner, check_own, is_run_name};
