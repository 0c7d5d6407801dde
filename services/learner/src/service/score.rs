//! Scoring: waiting items of the same temperature go through the model together.

use std::time::Instant;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{ScoreItem, ScoreResponse};
use evenkeel_rpc::error::{Reason, ServiceError};
use tokio::sync::mpsc;

use super::command::{Command, ScoreCommand};
use super::convert;
use crate::learner::Learner;
use crate::tokens::{validate_ids, validate_length};

/// Items in one pass: enough to fill micro-batches, few enough that a step does not wait long.
const MAX_BATCH: usize = 256;

/// Items of the same temperature.
pub(super) struct ScoreBatch {
    temperature: Option<f32>,
    items: Vec<ScoreCommand>,
}

impl ScoreBatch {
    /// An item and those of the same temperature queued directly after it, and the first other command.
    pub(super) fn collect(first: ScoreCommand, commands: &mut mpsc::Receiver<Command>) -> (Self, Option<Command>) {
        let temperature = first.item.temperature;
        let mut items = vec![first];
        while items.len() < MAX_BATCH {
            match commands.try_recv() {
                Ok(Command::Score(next)) if next.item.temperature == temperature => items.push(next),
                Ok(other) => return (Self { temperature, items }, Some(other)),
                Err(_) => break,
            }
        }
        (Self { temperature, items }, None)
    }

    /// Scores every valid item, and answers all items.
    #[tracing::instrument(level = "debug", skip_all, fields(items = self.items.len()))]
    pub(super) fn run(self, learner: &Learner) {
        let start = Instant::now();
        let mut accepted = Vec::with_capacity(self.items.len());
        for command in self.items {
            match validate(learner, &command.item) {
                Ok(()) => accepted.push(command),
                Err(error) => fail(command, &error),
            }
        }
        if accepted.is_empty() {
            return;
        }
        let pairs =
            accepted.iter().map(|ScoreCommand { item, .. }| (&*item.prompt_token_ids, &*item.response_token_ids));
        match learner.score(&pairs.collect::<Vec<_>>(), self.temperature.unwrap_or(1.0)) {
            Ok(scores) => {
                metrics::counter!("evenkeel_scored_sequences_total").increment(accepted.len() as u64);
                metrics::histogram!("evenkeel_score_batch_seconds").record(start.elapsed());
                for (ScoreCommand { item, reply }, scores) in accepted.into_iter().zip(scores) {
                    let _ = reply.send(ScoreResponse {
                        id: item.id,
                        log_probabilities: scores.logp,
                        entropies: if item.entropy { scores.entropy } else { Vec::new() },
                        version: learner.version(),
                        failure: None,
                    });
                }
            }
            Err(error) => {
                let error = convert::error(error);
                accepted.into_iter().for_each(|command| fail(command, &error));
            }
        }
    }
}

/// Checks an item completely, so that it cannot fail the others.
fn validate(learner: &Learner, item: &ScoreItem) -> Result<(), ServiceError> {
    match item.temperature {
        Some(temperature) if temperature.is_finite() && temperature > 0.0 => {}
        Some(temperature) => return Err(FieldError::new("temperature", temperature, "a finite number above 0").into()),
        None => return Err(FieldError::missing("temperature", "a finite number above 0").into()),
    }
    if let Some(version) = item.version.filter(|&version| version != learner.version()) {
        let message = format!("version is {version}, the learner's is {}", learner.version());
        return Err(ServiceError::Precondition { reason: Reason::VersionMismatch, message });
    }
    let (prompt, response) = (&item.prompt_token_ids, &item.response_token_ids);
    validate_ids(learner.config(), "prompt_token_ids", prompt)?;
    validate_ids(learner.config(), "response_token_ids", response)?;
    validate_length(learner.config(), "response_token_ids", prompt.len() + response.len(), " with the prompt")?;
    Ok(())
}

fn fail(ScoreCommand { item, reply }: ScoreCommand, error: &ServiceError) {
    let _ = reply.send(ScoreResponse { id: item.id, failure: Some(error.failure()), ..ScoreResponse::default() });
}
