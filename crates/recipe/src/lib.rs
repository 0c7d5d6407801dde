//! Recipes: the settings of all services for one run, composed from layers, checked, and tried before a run.
//!
//! - [`load`] reads recipes by name or path, each over the ones before, with the environment and `--set` on top, and
//!   gives a [`Recipe`] whose settings fit together.
//! - [`Recipe::resolved`] is what the orchestrator runs; [`LayeredRecipes`] does the same for its server.
//! - [`preconditions`] has what a run requires besides valid settings.
//! - [`dry_run()`] finds everything that keeps a run from starting and what it will cost; [`Plan`] estimates the time
//!   of a step on a number of GPUs.
//!
//! A recipe has a section of every service, so that this library stands above the services and none of them may use it.
//! It prints nothing and starts no process of a service: what a dry run needs started, its caller hands in as
//! [`StartedParts`].
#![forbid(unsafe_code)]

mod dry_run;
pub mod interpreters;
pub mod marked_prompts;
pub mod named_model;
pub mod preconditions;
mod recipe;

pub use dry_run::{Card, DryRunReport, MeasuredTimes, Plan, PlanRequest, RunTime, StartedParts, dry_run};
pub use recipe::{
    LayeredRecipes, ModelSettings, Recipe, comes_with_program, finish, finish_fork, is_formula, list, load, load_alone,
    notes_on, read, stem, with_origins,
};
