//! Whether the interpreters that a recipe names are there.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use evenkeel_orchestrator::EnvironmentOrigin;
use evenkeel_proto::FieldError;

use crate::recipe::Recipe;

/// The interpreter of a file of reward functions, where it is not there.
pub fn missing_of_verifier(recipe: &Recipe, name: &str) -> Option<FieldError> {
    let verifier = recipe.data.verifiers.get(name).filter(|verifier| verifier.path.is_some())?;
    missing(&format!("data.verifiers.{name}.python"), &verifier.python)
}

/// The interpreter of environments in Python files, where any is named and it is not there.
pub fn missing_of_environments(recipe: &Recipe) -> Option<FieldError> {
    let mut named = recipe.data.environment.iter().chain(&recipe.data.environments);
    let is_python = |name: &String| match EnvironmentOrigin::of("environment", name) {
        Ok(EnvironmentOrigin::File(_) | EnvironmentOrigin::Verifiers(_)) => true,
        Ok(EnvironmentOrigin::Agent(path)) => path.ends_with(".py"),
        _ => false,
    };
    named.any(is_python).then(|| missing("environment.python", &recipe.environment.python)).flatten()
}

/// The Python interpreters that verifiers and environments name and that are not there.
pub fn missing_interpreters(recipe: &Recipe) -> Vec<FieldError> {
    let of_verifiers = recipe.data.verifiers.keys().filter_map(|name| missing_of_verifier(recipe, name));
    of_verifiers.chain(missing_of_environments(recipe)).collect()
}

fn missing(field: &str, python: &Path) -> Option<FieldError> {
    let is_program =
        |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    let is_there = if python.components().count() > 1 {
        is_program(python)
    } else {
        env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| is_program(&folder.join(python))))
    };
    let allowed = "an interpreter of Python that is there, such as \"python3\" or \".venv/bin/python\"";
    (!is_there).then(|| FieldError::quoted(field, python.display().to_string(), allowed))
}
