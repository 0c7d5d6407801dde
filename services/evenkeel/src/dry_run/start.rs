//! Whether the run would start: what `train` checks before its first step, by the same functions.

use std::collections::BTreeMap;
use std::path::Path;

use evenkeel_engine::{EngineSettings, context_tokens};
use evenkeel_orchestrator::{Dependency, Endpoints, Incompatible, LoadLimits, ResolvedRecipe, StartNeeds, check_start};

use super::findings::Findings;
use super::model::ModelFacts;
use crate::preconditions;
use crate::recipe::Recipe;

/// Nobody is connected to.
const NOWHERE: &str = "http://127.0.0.1:1";

/// Reads everything that the run would read, and looks for what its services would refuse. Files that were found to be missing or wrong
/// before say so themselves. Returns what the run would ask of its services, where it could be read.
pub(super) fn look(
    recipe: &Recipe,
    resolved: &ResolvedRecipe,
    model: &ModelFacts,
    findings: &mut Findings,
) -> Option<StartNeeds> {
    let config = model.config.as_ref()?;
    let folder = recipe.model.path.as_deref().unwrap_or(Path::new("model"));
    for refused in preconditions::refused_by_services(recipe, folder, config) {
        findings.problem(refused);
    }
    let is_readable = model.folder.is_none() || model.renderer.is_some();
    if !is_readable || findings.is_data_incomplete {
        return None;
    }
    let needs = match check(recipe, resolved) {
        Ok(needs) => needs,
        Err(error) => {
            findings.problem(crate::terminal::in_words(&error));
            return None;
        }
    };
    let engine = EngineSettings { model: folder.to_owned(), ..recipe.engine.clone() };
    if let (true, Ok(context)) = (recipe.generation.endpoints.is_empty(), context_tokens(&engine, config)) {
        let needed = needs.context_tokens;
        if context < needed {
            findings.problem(Incompatible::Context { service: Dependency::Generation, needed, context });
        }
    }
    Some(needs)
}

/// A fresh model is created in a temporary folder.
fn check(recipe: &Recipe, resolved: &ResolvedRecipe) -> anyhow::Result<StartNeeds> {
    let folder = tempfile::tempdir()?;
    let named = |name: &String| (name.clone(), vec![NOWHERE.to_owned()]);
    let started = recipe.data.verifiers.iter().filter(|(_, verifier)| verifier.is_started()).map(|(name, _)| name);
    let endpoints = Endpoints {
        generation: NOWHERE.to_owned(),
        reward: vec![NOWHERE.to_owned()],
        learner: NOWHERE.to_owned(),
        verifiers: started.map(named).collect::<BTreeMap<_, _>>(),
    };
    Ok(check_start(resolved, folder.path(), &endpoints, &LoadLimits::unbounded())?)
}
