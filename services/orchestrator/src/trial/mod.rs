//! A trial of the user's own code before a run: one row goes through each of its verifiers and environments, by the
//! clients and with the requests of the run itself.

mod arguments;
mod environment;
mod verifier;

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_data::{EnvironmentTask, Task, answers_in};
use evenkeel_environment::EnvironmentOrigin;

use crate::clients::{CustomServices, Endpoints, Retrier, Stop};
use crate::data::{Prompt, Prompts};
use crate::error::RunError;
use crate::events::Events;
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
    tokenizer: Tokenizer,
    settings: LoopSettings,
}

/// A row, and what of it is tried.
#[derive(Debug, Clone)]
struct TrialRow {
    id: Arc<str>,
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
}

impl TrialRows {
    pub(crate) fn of(prompts: &Prompts, tokenizer: Tokenizer, settings: LoopSettings) -> Self {
        let mut tried = BTreeSet::new();
        let mut rows = Vec::new();
        for Prompt { id, task, environment, .. } in prompts.train.iter().chain(&prompts.held_out) {
            let row = |environment| TrialRow { id: Arc::clone(id), task: task.clone(), environment };
            if let Some(name) = task.verifier()
                && tried.insert(("verifier", name.to_owned()))
            {
                rows.push(row(None));
            }
            if let Some(environment) = environment
                && is_tried(&environment.environment)
                && tried.insert(("environment", environment.environment.to_string()))
            {
                rows.push(row(Some(environment.clone())));
            }
        }
        Self { rows, tokenizer, settings }
    }

    /// Sends each row to where the run would send it. Of those in `endpoints` only verifiers and environment workers
    /// are connected to.
    ///
    /// # Errors
    /// Addresses that are none.
    pub async fn try_at(&self, endpoints: &Endpoints) -> Result<Vec<TrialFinding>, RunError> {
        let settings = &self.settings.services;
        let retrier = Retrier::new(Events::new(0), Stop::new(), settings);
        let services = CustomServices::connect(endpoints, settings, &retrier)?;
        let mut findings = Vec::new();
        for row in &self.rows {
            match (&row.environment, row.task.verifier()) {
                (Some(task), _) => {
                    let Some(environments) = &services.environments else { continue };
                    let description = endpoints.described.get(&*task.environment);
                    let played = environment::play(environments, row, task, description, self.settings.turns);
                    findings.extend(played.await);
                }
                (None, Some(name)) => {
                    let Some(verifier) = services.verifiers.get(name) else { continue };
                    let place = self.settings.data.verifiers.get(name).map_or("endpoints", VerifierSettings::place);
                    let field = format!("data.verifiers.{name}.{place}");
                    let judged = verifier::judge(verifier, row, &field, (settings.verify_deadline, &self.tokenizer));
                    findings.extend(judged.await?);
                }
                (None, None) => {}
            }
        }
        Ok(findings)
    }
}

/// Whether an environment is of the user's own and can be played without a model.
fn is_tried(name: &str) -> bool {
    let origin = EnvironmentOrigin::of("environment", name);
    matches!(origin, Ok(EnvironmentOrigin::File(_) | EnvironmentOrigin::OpenEnv(_)))
}
