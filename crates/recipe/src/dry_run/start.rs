//! Whether the run would start: what `train` checks before its first step, by the same functions.

use std::path::PathBuf;

use evenkeel_engine::{EngineSettings, context_tokens};
use evenkeel_orchestrator::{
    Dependency, Descriptions, Incompatible, LoadLimits, ResolvedRecipe, StartNeeds, TrialRows,
};
use evenkeel_proto::shown::with_causes;

use super::findings::Findings;
use super::model::ModelFacts;
use crate::preconditions;
use crate::recipe::Recipe;

/// Reads everything that the run would read, and looks for what its services would refuse. Files that were found to be
/// missing or wrong before say so themselves. Returns what the run would ask of its services, and the rows with which the
/// user's own code can be tried, where nothing is wrong.
pub(super) fn look(
    recipe: &Recipe,
    resolved: &ResolvedRecipe,
    model: &ModelFacts,
    described: &Descriptions,
    findings: &mut Findings,
) -> Option<(StartNeeds, TrialRows)> {
    let config = model.config.as_ref()?;
    // A fresh model is created there, as it would be in the directory of the run.
    let place = tempfile::tempdir().map_err(|error| findings.problem(error)).ok()?;
    let folder = match &model.folder {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => resolved.model_folder(place.path(), &LoadLimits::unbounded()),
    };
    let folder = folder.map_err(|error| findings.problem(with_causes(&error))).ok()?;
    for refused in preconditions::refused_by_services(recipe, &folder, config) {
        findings.problem(refused);
    }
    let is_readable = model.folder.is_none() || model.encoder.is_some();
    if !is_readable || findings.is_data_incomplete {
        return None;
    }
    let (needs, rows) = match preconditions::check_inputs(recipe, resolved, place.path(), described) {
        Ok(checked) => checked,
        Err(error) => {
            findings.problem(with_causes(error.as_ref()));
            return None;
        }
    };
    let engine = EngineSettings { model: folder, ..recipe.engine.clone() };
    if let (true, Ok(context)) = (recipe.generation.endpoints.is_empty(), context_tokens(&engine, config)) {
        let needed = needs.context_tokens;
        if context < needed {
            findings.problem(Incompatible::Context { service: Dependency::Generation, needed, context });
        }
    }
    Some((needs, rows))
}
