//! One row through the reward functions and the environments of the user's own.

use std::collections::BTreeMap;

use evenkeel_orchestrator::{Endpoints, TrialFinding, TrialRows};

use super::StartedParts;
use super::findings::Findings;
use crate::preconditions::NOWHERE;
use crate::recipe::Recipe;

/// Tries the rows at the verifiers and environments that were started, and at the verifiers that the recipe names where
/// `all_answer`.
pub(super) async fn look(
    recipe: &Recipe,
    rows: &TrialRows,
    started: &StartedParts,
    all_answer: bool,
    findings: &mut Findings,
) {
    let mut verifiers = BTreeMap::new();
    for (name, verifier) in &recipe.data.verifiers {
        if verifier.judge && !started.verifiers.contains_key(name) {
            continue;
        }
        let addresses = match started.verifiers.get(name) {
            Some(Ok(addresses)) => addresses,
            None if all_answer => &verifier.endpoints,
            // Why it does not answer was said.
            Some(Err(_)) | None => continue,
        };
        verifiers.insert(name.clone(), addresses.clone());
    }
    let nowhere = || NOWHERE.to_owned();
    let endpoints = Endpoints {
        generation: nowhere(),
        reward: vec![nowhere()],
        learner: nowhere(),
        environment: started.environment_workers.clone(),
        described: started.environments.as_ref().cloned().unwrap_or_default(),
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
