//! A trial of the user's own code before a run: one row goes through each of its verifiers and environments, by the
//! clients and with the requests of the run itself.

mod arguments;
mod environment;
mod verifier;

use std::collections::BTreeSet;
use std::fmt::Display;

use evenkeel_data::read::ReadLimits;
use evenkeel_data::{EnvironmentTask, Task, answers_in};
use evenkeel_environment::EnvironmentOrigin;

use crate::clients::{CustomServices, Endpoints, Retrier, Stop};
use crate::data::{Prompts, dataset};
use crate::error::RunError;
use crate::events::Events;
use crate::recipe::ResolvedRecipe;
use crate::settings::{LoopSettings, VerifierSettings};
use crate::text::Tokenizer;

/// What a trial found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrialFinding {
    /// The run would fail of it, or learn nothing.
    Problem(String),
    /// Some answers have no reward of it.
    Note(String),
}

/// The rows that are tried: the first one of each custom verifier and of each environment of the user's own.
#[derive(Debug, Clone)]
pub struct TrialRows {
    rows: Vec<TrialRow>,
    /// Absent: an answer has a token for each character.
    tokenizer: Option<Tokenizer>,
    settings: LoopSettings,
}

/// A row, and what of it is tried.
#[derive(Debug, Clone)]
struct TrialRow {
    id: String,
    task: Task,
    /// Absent: its verifier is tried.
    environment: Option<EnvironmentTask>,
}

impl TrialRow {
    /// What the row gives as its answer.
    fn answer(&self) -> Option<String> {
        let of_environment = self.environment.iter().flat_map(|task| answers_in(&task.payload));
        self.task.known_answers().into_iter().chain(of_environment).next()
    }

    /// That its environment cannot be played without a model.
    fn unplayed(&self) -> Option<TrialFinding> {
        let name = &*self.environment.as_ref()?.environment;
        let origin = EnvironmentOrigin::of("environment", name).ok()?;
        let asks_model = matches!(origin, EnvironmentOrigin::Agent(_) | EnvironmentOrigin::Verifiers(_));
        let words = || format!("`{name}` is not played in a dry run: agents and tasksets need the model");
        asks_model.then(|| TrialFinding::Note(words()))
    }
}

impl TrialRows {
    pub(crate) fn of(prompts: &Prompts, tokenizer: Tokenizer, settings: LoopSettings) -> Self {
        let prompts = prompts.train.iter().chain(&prompts.held_out);
        let rows = prompts.map(|prompt| (&prompt.id, &prompt.task, prompt.environment.as_ref()));
        Self { rows: tried(rows), tokenizer: Some(tokenizer), settings }
    }

    /// The rows of the data of a recipe whose model cannot be used, so that what else is wrong is found as well.
    ///
    /// # Errors
    /// Data that cannot be read.
    pub fn without_model(recipe: &ResolvedRecipe) -> Result<Self, RunError> {
        let settings = recipe.settings.clone();
        let held_out = settings.evaluation.problems;
        let data = dataset(&settings.data, settings.run.seed, held_out, &ReadLimits::default(), &|| false)?;
        let problems = data.train.iter().chain(&data.held_out);
        let rows = problems.map(|problem| (&problem.id, &problem.task, problem.environment.as_ref()));
        Ok(Self { rows: tried(rows), tokenizer: None, settings })
    }

    /// Sends each row to where the run would send it: only to verifiers and environment workers of `endpoints`.
    ///
    /// # Errors
    /// Addresses that are none.
    pub async fn try_at(&self, endpoints: &Endpoints) -> Result<Vec<TrialFinding>, RunError> {
        let settings = &self.settings.services;
        let retrier = Retrier::new(Events::new(0), Stop::new(), settings);
        let services = CustomServices::connect(endpoints, settings, &retrier)?;
        let mut findings = Vec::new();
        for row in &self.rows {
            if let Some(note) = row.unplayed() {
                findings.push(note);
                continue;
            }
            match (&row.environment, row.task.verifier()) {
                (Some(task), _) => {
                    let Some(environments) = &services.environments else { continue };
                    let description = endpoints.described.get(&*task.environment);
                    let played = environment::play(environments, row, task, description, self.settings.turns);
                    findings.extend(played.await);
                }
                (None, Some(name)) => {
                    let Some(verifier) = services.verifiers.get(name) else { continue };
                    let declared = self.settings.data.verifiers.get(name);
                    let place = declared.map_or("endpoints", VerifierSettings::place);
                    let field = format!("data.verifiers.{name}.{place}");
                    let is_judge = declared.is_some_and(|verifier| verifier.judge);
                    let how = (settings.verify_deadline, self.tokenizer.as_ref());
                    let correct = declared.and_then(|verifier| verifier.correct.as_ref());
                    let judged = verifier::judge(verifier, row, &field, (is_judge, correct), how);
                    findings.extend(judged.await?);
                }
                (None, None) => {}
            }
        }
        Ok(findings)
    }
}

/// The first row of each custom verifier and of each environment that is tried.
fn tried<'a, I: Display + 'a>(
    rows: impl Iterator<Item = (&'a I, &'a Task, Option<&'a EnvironmentTask>)>,
) -> Vec<TrialRow> {
    let mut seen = BTreeSet::new();
    let mut tried = Vec::new();
    for (id, task, environment) in rows {
        let row = |environment| TrialRow { id: id.to_string(), task: task.clone(), environment };
        if let Some(name) = task.verifier()
            && seen.insert(("verifier", name.to_owned()))
        {
            tried.push(row(None));
        }
        if let Some(environment) = environment
            && is_own(&environment.environment)
            && seen.insert(("environment", environment.environment.to_string()))
        {
            tried.push(row(Some(environment.clone())));
        }
    }
    tried
}

/// Whether an environment is of the user's own.
fn is_own(name: &str) -> bool {
    use EnvironmentOrigin::{BuiltIn, Sandbox};
    !matches!(EnvironmentOrigin::of("environment", name), Ok(BuiltIn(_) | Sandbox) | Err(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_and_tasksets_have_a_note_that_they_are_not_played() {
        let names = ["calculator", "shop.py", "agent:solve.py", "agent:solve.py", "verifiers:gsm8k"];
        let task = Task::of_environment();
        let environments = names.map(EnvironmentTask::new);
        let rows = tried(environments.iter().map(|environment| (&"a", &task, Some(environment))));
        let notes: Vec<_> = rows.iter().filter_map(TrialRow::unplayed).collect();
        let note = |name: &str| {
            let words = format!("`{name}` is not played in a dry run: agents and tasksets need the model");
            TrialFinding::Note(words)
        };
        assert_eq!(rows.len(), 3, "those of the user's own, once each");
        assert_eq!(notes, [note("agent:solve.py"), note("verifiers:gsm8k")]);
    }
}
