//! One row through the reward functions and the environments of the user's own.

use std::collections::BTreeMap;

use evenkeel_orchestrator::{Endpoints, TrialFinding, TrialRows};

use super::StartedParts;
use super::findings::Findings;
use crate::preconditions::NOWHERE;
use crate::recipe::Recipe;

/// Tries the rows at the verifiers and environments that were started or that the recipe names.
pub(super) async fn look(recipe: &Recipe, rows: &TrialRows, started: &StartedParts, findings: &mut Findings) {
    let Ok(described) = &started.environments else { return };
    let mut verifiers = BTreeMap::new();
    for (name, verifier) in &recipe.data.verifiers {
        let addresses = match started.verifiers.get(name) {
            Some(Ok(addresses)) => addresses.clone(),
            _ => verifier.endpoints.clone(),
        };
        verifiers.insert(name.clone(), addresses);
    }
    let nowhere = || NOWHERE.to_owned();
    let endpoints = Endpoints {
        generation: nowhere(),
        reward: vec![nowhere()],
        learner: nowhere(),
        environment: started.environment_workers.clone(),
        described: described.clone(),
        verifiers,
    };
    match rows.try_at(&endpoints).await {
        Err(error) => findings.problem(error),
        Ok(found) => found.into_iter().for_each(|finding| match finding {
            TrialFinding::Problem(words) => findings.problem(words),
            TrialFinding::Note(words) => findings.note(words),
        }),
    }
}
