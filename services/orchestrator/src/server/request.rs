//! From a request to a recipe.

use std::path::{Path, PathBuf};

use evenkeel_config::ConfigError;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::start_run_request::Configuration;
use evenkeel_proto::v1::{ForkPoint, RunState, StartRunRequest};
use evenkeel_rpc::error::ServiceError;
use evenkeel_run::{RunDirectory, is_run_name, recipe_stem};

use super::OrchestratorSettings;
use super::registry::{service_error, stored};
use crate::error::RunError;
use crate::recipe::{RecipeReader, ResolvedRecipe};

/// The recipe, the name and the directory that a request asks for.
pub(super) fn resolve(
    request: &StartRunRequest,
    runs: &Path,
    reader: &dyn RecipeReader,
) -> Result<(ResolvedRecipe, String, PathBuf), ServiceError> {
    if request.accept_changed_inputs && !request.resume {
        return Err(FieldError::new("accept_changed_inputs", true, "only with resume").into());
    }
    let mut overrides = request.overrides.clone();
    if let Some(steps) = request.total_steps {
        overrides.push(format!("run.steps={steps}"));
    }
    let name = |run_id: &str| {
        if is_run_name(run_id) {
            Ok(run_id.to_owned())
        } else {
            let allowed = "letters, digits, `-`, `_` and `.`, at most 128";
            Err(ServiceError::from(FieldError::quoted("run_id", run_id, allowed)))
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
            (Some(Configuration::Recipe(recipe)), _) => match reader.built_in(recipe) {
                Ok(Some(layers)) => Ok(layers),
                Ok(None) => {
                    let allowed = format!("one of {}", reader.names().join(", "));
                    return Err(FieldError::quoted("recipe", recipe, allowed).into());
                }
                Err(error) => Err(error),
            },
            (Some(Configuration::Toml(text)), _) => reader.text(text),
            (Some(Configuration::Fork(fork)), _) => {
                Ok(RunDirectory::settings_for_fork(&origin(fork, runs)?).map_err(service_error)?)
            }
            (None, Some(path)) => Ok(RunDirectory::settings_of(path).map_err(service_error)?),
            (None, None) => {
                return Err(FieldError::missing("configuration", "a recipe by name or as TOML, unless resuming").into());
            }
        };
        let loader = loader.and_then(|loader| loader.set(overrides));
        let resolved = match &request.configuration {
            Some(Configuration::Fork(fork)) => {
                let theirs = RunDirectory::settings_of(&origin(fork, runs)?).map_err(service_error)?;
                loader.and_then(|loader| reader.resolve_fork(theirs, loader))
            }
            _ => loader.and_then(|loader| reader.resolve(loader)),
        };
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
        return Err(FieldError::quoted("fork.run_id", &fork.run_id, allowed).into());
    }
    let path = runs.join(&fork.run_id);
    if path.exists() { Ok(path) } else { Err(ServiceError::NotFound { what: format!("run `{}`", fork.run_id) }) }
}

/// The request that the settings `start` stand for: to start the run, or to resume the one that exists and is not done.
pub(super) fn configured(
    settings: &OrchestratorSettings,
    reader: &dyn RecipeReader,
) -> Result<Option<StartRunRequest>, ServiceError> {
    let start = &settings.start;
    let Some(last) = start.recipe.last() else { return Ok(None) };
    // A recipe of the operator may build on files, which one of a client may not.
    let refused = |error: ConfigError| service_error(RunError::from(error));
    let configuration = match &start.recipe[..] {
        [name] if reader.built_in(name).map_err(refused)?.is_some() => Configuration::Recipe(name.clone()),
        recipes => Configuration::Toml(reader.merged(recipes).map_err(refused)?),
    };
    let mut request = StartRunRequest {
        run_id: if start.name.is_empty() { recipe_stem(last).to_owned() } else { start.name.clone() },
        configuration: Some(configuration),
        overrides: start.set.clone(),
        total_steps: None,
        resume: false,
        accept_changed_inputs: false,
    };
    let (recipe, _, path) = resolve(&request, &settings.runs, reader)?;
    if let Some(run) = stored(&path).map_err(service_error)? {
        // All steps may have their lines and the run be without its end: a process that was killed then has not written
        // that.
        request.resume = run.step < recipe.settings.run.steps || run.state() != RunState::Completed;
    }
    Ok(Some(request))
}

/// The first `run-N` that is free.
fn fresh_name(runs: &Path) -> String {
    let free = |name: &String| !runs.join(name).exists();
    (1_u64..).map(|number| format!("run-{number}")).find(free).unwrap_or_else(|| "run".to_owned())
}
