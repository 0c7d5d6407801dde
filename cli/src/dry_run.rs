//! `evenkeel train --dry-run`: starts what a dry run asks, and prints what it found.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_config::Loaded;
use evenkeel_recipe::{Recipe, StartedParts};
use evenkeel_reward::RewardSettings;

use crate::cluster::Environments;
use crate::terminal::{note, print_result};
use crate::verifiers::{VerifierProcesses, start_reward};

/// Looks at everything that a run needs. The exit code is a failure if the run cannot start.
pub(crate) async fn dry_run(
    loaded: &Loaded<Recipe>,
    recipes: &[String],
    out: Option<&Path>,
    json: bool,
) -> Result<ExitCode> {
    let recipe = &loaded.settings;
    let mut servers = Vec::new();
    let environments = Environments::start(recipe).await.map(|started| {
        servers.extend(started.server);
        started.described
    });
    let mut processes = Vec::new();
    let mut verifiers = BTreeMap::new();
    let functions = recipe.reward_service().functions;
    for (name, settings) in recipe.data.verifiers.iter().filter(|(_, settings)| settings.is_started()) {
        let addresses = match functions.get(name) {
            Some(functions) => {
                let functions = BTreeMap::from([(name.clone(), functions.clone())]);
                start_reward(RewardSettings { functions, ..RewardSettings::default() }).await.map(|server| {
                    let address = server.endpoint().to_owned();
                    servers.push(server);
                    vec![address]
                })
            }
            None => {
                let alone = BTreeMap::from([(name.clone(), settings.clone())]);
                VerifierProcesses::start(&alone).await.map(|started| {
                    let addresses = started.endpoints().into_values().flatten().collect();
                    processes.push(started);
                    addresses
                })
            }
        };
        verifiers.insert(name.clone(), addresses);
    }
    let started = StartedParts { environments, verifiers };
    let report = evenkeel_recipe::dry_run(loaded, recipes, out, &started, note).await?;
    print_result(&if json { serde_json::to_string(&report)? + "\n" } else { report.to_text() })?;
    Ok(if report.can_start { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
