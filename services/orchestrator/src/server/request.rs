//! From a request to a recipe.

use std::path::{Path, PathBuf};

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{StartRunRequest, start_run_request};
use evenkeel_rpc::error::ServiceError;

use super::OrchestratorConfig;
use super::registry::{service_error, stored};
use crate::directory::RunDirectory;
use crate::error::RunError;
use crate::recipe::{Recipe, built_in_recipe, recipe_of};
use crate::settings::is_run_name;

/// The recipe, the name and the directory that a request names.
pub(super) fn resolve(request: &StartRunRequest, runs: &Path) -> Result<(Recipe, String, PathBuf), ServiceError> {
    let mut overrides = request.overrides.clone();
    if let Some(steps) = request.total_steps {
        overrides.push(format!("run.steps={steps}"));
    }
    let name = |run_id: &str| match is_run_name(run_id) {
        true => Ok(run_id.to_owned()),
        false => {
            let allowed = "letters, digits, `-`, `_` and `.`, at most 128";
            Err(ServiceError::from(FieldError::new("run_id", format_args!("`{run_id}`"), allowed)))
        }
    };
    let loaded = match &request.configuration {
        Some(start_run_request::Configuration::Recipe(recipe)) => {
            let text = built_in_recipe(recipe).ok_or_else(|| {
                FieldError::new("recipe", format_args!("`{recipe}`"), format!("one of {}", known_recipes()))
            })?;
            recipe_of(&format!("recipe {recipe}"), text, &overrides).map_err(RunError::from)
        }
        Some(start_run_request::Configuration::Toml(text)) => {
            recipe_of("toml", text, &overrides).map_err(RunError::from)
        }
        None if request.resume => {
            let path = runs.join(name(&request.run_id)?);
            if !path.exists() {
                return Err(ServiceError::NotFound { what: format!("run `{}`", request.run_id) });
            }
            RunDirectory::settings_of(&path).and_then(|loader| Ok(loader.set(&overrides)?.load()?))
        }
        None => {
            return Err(FieldError::missing("configuration", "a recipe by name or as TOML, unless resuming").into());
        }
    };
    let mut recipe = loaded.map_err(service_error)?.settings;
    let run_id = match (request.run_id.as_str(), recipe.run.name.as_str()) {
        ("", "") => fresh_name(runs),
        ("", named) => named.to_owned(),
        (asked, _) => name(asked)?,
    };
    recipe.run.name.clone_from(&run_id);
    let path = runs.join(&run_id);
    Ok((recipe, run_id, path))
}

/// The request of the settings `start`: to start the run, or to resume it where it exists and is not done.
pub(super) fn configured(config: &OrchestratorConfig) -> Result<Option<StartRunRequest>, ServiceError> {
    let start = &config.start;
    if start.recipe.is_empty() {
        return Ok(None);
    }
    let configuration = match built_in_recipe(&start.recipe) {
        Some(_) => start_run_request::Configuration::Recipe(start.recipe.clone()),
        None => {
            let allowed = format!("one of {}, or a TOML file that can be read", known_recipes());
            let text = std::fs::read_to_string(&start.recipe).map_err(|error| {
                FieldError::new("start.recipe", format_args!("`{}` ({error})", start.recipe), allowed)
            })?;
            start_run_request::Configuration::Toml(text)
        }
    };
    let stem = Path::new(&start.recipe).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut request = StartRunRequest {
        run_id: if start.name.is_empty() { stem } else { start.name.clone() },
        configuration: Some(configuration),
        overrides: start.set.clone(),
        total_steps: None,
        resume: false,
    };
    let (recipe, _, path) = resolve(&request, &config.runs)?;
    if let Some(run) = stored(&path).map_err(service_error)? {
        request.resume = run.step < recipe.run.steps;
    }
    Ok(Some(request))
}

fn known_recipes() -> String {
    crate::BUILT_IN_RECIPES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The first `run-N` that is free.
fn fresh_name(runs: &Path) -> String {
    let free = |name: &String| !runs.join(name).exists();
    (1_u64..).map(|number| format!("run-{number}")).find(free).unwrap_or_else(|| "run".to_owned())
}
