//! `evenkeel model`: the fresh model of a recipe, in a folder of its own.

use std::process::ExitCode;

use anyhow::{Result, bail};
use evenkeel_model::fresh::write_fresh_model;

use crate::arguments::ModelOptions;
use crate::recipe;

/// Creates it unless it exists. In a cluster the learner and the engine open the folder before any run starts.
pub(crate) fn write(options: &ModelOptions) -> Result<ExitCode> {
    let recipe = recipe::load(&options.recipe, &options.set)?.settings;
    if let Some(path) = &recipe.model.path {
        bail!("model.path is {}: the recipe begins with that folder, and none is written", path.display());
    }
    write_fresh_model(&options.out, &recipe.fresh_model())?;
    Ok(ExitCode::SUCCESS)
}
