//! From a request to a recipe.

use std::path::{Path, PathBuf};

use evenkeel_config::Loader;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::start_run_request::Configuration;
use evenkeel_proto::v1::{ForkPoint, StartRunRequest};
use evenkeel_rpc::error::ServiceError;

use super::OrchestratorSettings;
use super::registry::{service_error, stored};
use crate::directory::RunDirectory;
use crate::error::RunError;
use crate::recipe::{RecipeReader, ResolvedRecipe};
use crate::settings::is_run_name;

/// The recipe, the name and the directory that a request asks for.
pub(super) fn resolve(
    request: &StartRunRequest,
    runs: &Path,
    reader: &dyn RecipeReader,
) -> Result<(ResolvedRecipe, String, PathBuf), ServiceError> {
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
    let resume = match &request.configuration {
        None if request.resume => {
            let path = runs.join(name(&request.run_id)?);
            if !path.exists() {
                return Err(ServiceError::NotFound { what: format!("run `{}`", request.run_id) });
            }
            Some(path)
        }
        _ => None,
    };
    if !request.run_id.is_empty() {
        overrides.push(format!("run.name=\"{}\"", name(&request.run_id)?));
    }
    let load = |overrides: &[String]| {
        let loader = match (&request.configuration, &resume) {
            (Some(Configuration::Recipe(recipe)), _) => {
                let text = reader.built_in(recipe).ok_or_else(|| {
                    FieldError::new("recipe", format_args!("`{recipe}`"), format!("one of {}", known(reader)))
                })?;
                Loader::new().text(&format!("recipe {recipe}"), text)
            }
            (Some(Configuration::Toml(text)), _) => Loader::new().text("toml", text),
            (Some(Configuration::Fork(fork)), _) => {
                let settings = RunDirectory::settings_of(&origin(fork, runs)?).map_err(service_error)?;
                // The other run's name is not this one's.
                settings.text("fork", "[run]\nname = \"\"")
            }
            (None, Some(path)) => Ok(RunDirectory::settings_of(path).map_err(service_error)?),
            (None, None) => {
                return Err(FieldError::missing("configuration", "a recipe by name or as TOML, unless resuming").into());
            }
        };
        let resolved = loader.and_then(|loader| loader.set(overrides)).and_then(|loader| reader.resolve(loader));
        resolved.map_err(|error| service_error(RunError::from(error)))
    };
    let mut recipe = load(&overrides)?;
    if recipe.settings.run.name.is_empty() {
        overrides.push(format!("run.name=\"{}\"", fresh_name(runs)));
        recipe = load(&overrides)?;
    }
    let run_id = recipe.settings.run.name.clone();
    let path = runs.join(&run_id);
    Ok((recipe, run_id, path))
}

/// The directory of the run that another one is forked from.
pub(super) fn origin(fork: &ForkPoint, runs: &Path) -> Result<PathBuf, ServiceError> {
    if !is_run_name(&fork.run_id) {
        let allowed = "the name of a run";
        return Err(FieldError::new("fork.run_id", format_args!("`{}`", fork.run_id), allowed).into());
    }
    let path = runs.join(&fork.run_id);
    match path.exists() {
        true => Ok(path),
        false => Err(ServiceError::NotFound { what: format!("run `{}`", fork.run_id) }),
    }
}

/// The request that the settings `start` stand for: to start the run, or to resume the one that exists and is not done.
pub(super) fn configured(
    config: &OrchestratorSettings,
    reader: &dyn RecipeReader,
) -> Result<Option<StartRunRequest>, ServiceError> {
    let start = &config.start;
    if start.recipe.is_empty() {
        return Ok(None);
    }
    let configuration = match reader.built_in(&start.recipe) {
        Some(_) => Configuration::Recipe(start.recipe.clone()),
        None => {
            let allowed = format!("one of {}, or a TOML file that can be read", known(reader));
            let text = std::fs::read_to_string(&start.recipe).map_err(|error| {
                FieldError::new("start.recipe", format_args!("`{}` ({error})", start.recipe), allowed)
            })?;
            Configuration::Toml(text)
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
    let (recipe, _, path) = resolve(&request, &config.runs, reader)?;
    if let Some(run) = stored(&path).map_err(service_error)? {
        request.resume = run.step < recipe.settings.run.steps;
    }
    Ok(Some(request))
}

fn known(reader: &dyn RecipeReader) -> String {
    reader.names().join(", ")
}

/// The first `run-N` that is free.
fn fresh_name(runs: &Path) -> String {
    let free = |name: &String| !runs.join(name).exists();
    (1_u64..).map(|number| format!("run-{number}")).find(free).unwrap_or_else(|| "run".to_owned())
}
