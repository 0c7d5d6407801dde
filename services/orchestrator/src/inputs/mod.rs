//! What a run reads, by what is in it: data files, the folder of its model and files of reward functions and
//! environments, each with a digest.
//!
//! A run is the same run only as long as these are the same. [`InputRecord`](evenkeel_run::InputRecord) is what a run
//! directory says of them, with the settings that decide what the run computes; [`of_data`], [`of_model`] and [`of_teacher`] are what
//! there is now.

mod file;
mod model;
mod remembered;

pub(crate) use file::{Known, of_data, of_environments, of_rewards};
pub(crate) use model::{of_model, of_teacher};
pub(crate) use remembered::{remember, remembered};
