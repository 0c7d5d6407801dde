//! `evenkeel train --dry-run`: starts what a dry run asks, and prints what it found.

mod timing;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use evenkeel_config::Loaded;
use evenkeel_recipe::{DryRunReport, Recipe, StartedParts, interpreters};
use evenkeel_reward::RewardSettings;

use crate::cluster::Environments;
use crate::programs::announce;
use crate::terminal::{note, print_result};
use crate::verifiers::{VerifierProcesses, start_reward};
use timing::StartedServices;

/// Looks at everything that a run needs, and prints it. The exit code is a failure if the run cannot start.
pub(crate) async fn dry_run(
    loaded: &Loaded<Recipe>,
    recipes: &[String],
    out: Option<&Path>,
    is_timed: bool,
    json: bool,
) -> Result<ExitCode> {
    let report = look(loaded, recipes, out, is_timed).await?;
    print_result(&if json { serde_json::to_string(&report)? + "\n" } else { report.to_text() })?;
    Ok(if report.can_start { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Looks at everything that a run needs; where it can start and `is_timed`, a few of its steps are timed.
pub(crate) async fn look(
    loaded: &Loaded<Recipe>,
    recipes: &[String],
    out: Option<&Path>,
    is_timed: bool,
) -> Result<DryRunReport> {
    let recipe = &loaded.settings;
    announce(recipe);
    let mut servers = Vec::new();
    let environments = match interpreters::missing_of_environments(recipe) {
        Some(missing) => Err(missing.into()),
        None => Environments::start(recipe).await.map(|started| {
            servers.extend(started.server);
            started.described
        }),
    };
    let environment_workers = servers.iter().map(|server| server.endpoint().to_owned()).collect();
    let mut processes = Vec::new();
    let mut verifiers = BTreeMap::new();
    let RewardSettings { functions, function_tables, judge, .. } = recipe.reward_service();
    let calls_judge = judge.as_ref().is_some_and(|judge| judge.try_in_dry_run);
    // Where verdicts of a trial are recorded.
    let tried = tempfile::tempdir()?;
    for (name, settings) in recipe.data.verifiers.iter().filter(|(_, settings)| settings.is_started()) {
        if settings.judge && !calls_judge {
            continue;
        }
        if let Some(missing) = interpreters::missing_of_verifier(recipe, name) {
            verifiers.insert(name.clone(), Err(missing.into()));
            continue;
        }
        let mut own = RewardSettings { function_tables, ..RewardSettings::default() };
        own.functions.extend(functions.get_key_value(name).map(|(name, file)| (name.clone(), file.clone())));
        if settings.judge {
            own.judge.clone_from(&judge);
            own.judge_records = Some(tried.path().to_owned());
        }
        let addresses = if own.custom_verifiers().is_empty() {
            let alone = BTreeMap::from([(name.clone(), settings.clone())]);
            VerifierProcesses::start(&alone).await.map(|started| {
                let addresses = started.endpoints().into_values().flatten().collect();
                processes.push(started);
                addresses
            })
        } else {
            start_reward(own).await.map(|server| {
                let address = server.endpoint().to_owned();
                servers.push(server);
                vec![address]
            })
        };
        verifiers.insert(name.clone(), addresses);
    }
    let started = StartedParts { environments, environment_workers, verifiers };
    let mut report = evenkeel_recipe::dry_run(loaded, recipes, out, &started, note).await?;
    if is_timed && report.can_start && judge.is_some() && !calls_judge {
        let why = "its judge would be called (reward.judge.try_in_dry_run)";
        report.timed(recipe, Err(why.to_owned()));
    } else if let (true, true, Some(flops)) = (is_timed, report.can_start, report.step_flops()) {
        let StartedParts { environments, environment_workers, verifiers } = started;
        let services = StartedServices {
            described: environments.unwrap_or_default(),
            environment: environment_workers,
            verifiers: verifiers.into_iter().filter_map(|(name, started)| Some((name, started.ok()?))).collect(),
        };
        let mut pinned = recipe.clone();
        // It was said before where the model comes from.
        pinned.model.pin(|_| {})?;
        let measured = timing::measure(&pinned, flops, services).await;
        report.timed(recipe, measured);
    }
    Ok(report)
}
