//! `evenkeel plan`: what a recipe takes of a number of cards.

use std::process::ExitCode;

use anyhow::Result;
use evenkeel_recipe::{Plan, PlanRequest, load, stem};

use crate::arguments::PlanOptions;
use crate::terminal::{note, print_result};

/// Prints the plan. The exit code is a failure if the learner does not fit its card.
pub(crate) fn plan(options: &PlanOptions) -> Result<ExitCode> {
    let recipe = load(&options.recipe, &options.set)?.settings;
    let request = PlanRequest {
        gpus: options.gpus,
        card: options.card.clone(),
        prompt_tokens: options.prompt_tokens,
        answer_tokens: options.answer_tokens,
        network: options.network,
    };
    let plan = Plan::of(&recipe, stem(&options.recipe), &request, note)?;
    print_result(&if options.json { serde_json::to_string(&plan)? + "\n" } else { plan.to_text() })?;
    Ok(if plan.learner_fits() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
