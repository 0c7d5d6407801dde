//! The record of what a run reads and of the settings that decide what it computes: `inputs.json`.

mod input;
mod record;
mod rules;

pub use input::{Input, InputKind};
pub use record::{AcceptedChanges, InputRecord, accepted_changes, changed_rewards};
pub use rules::{Rules, differences, flat, names_files};
