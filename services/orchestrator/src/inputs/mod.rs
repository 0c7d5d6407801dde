//! What a run reads, by what is in it: data files and the folder of its model, each with a digest.
//!
//! A run is the same run only as long as these are the same. [`InputRecord`] is what a run directory says of them (`inputs.json`), with the
//! settings that decide what the run computes; [`of_data`] and [`of_model`] are what there is now.

mod file;
mod model;
mod record;
mod rules;

pub(crate) use file::{Input, InputKind, Known, of_data};
pub(crate) use model::of_model;
pub use record::AcceptedChanges;
pub(crate) use record::{INPUTS_FILE, InputRecord, accepted_changes};
pub use rules::Rules;
pub(crate) use rules::{differences, flat, names_files};
