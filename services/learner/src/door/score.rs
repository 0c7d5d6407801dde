//! Scoring: waiting items of one temperature go through the model together.

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{ScoreItem, ScoreResponse};
use evenkeel_rpc::error::ServiceError;
use tokio::sync::{mpsc, oneshot};

use super::convert;
use super::worker::Command;
use crate::learner::Learner;

/// Items in one pass: enough to fill micro-batches, few enough that a step does not wait long.
const TOGETHER: usize = 256;

type Waiting = (ScoreItem, oneshot::Sender<ScoreResponse>);

/// Scores an item and those of its temperature that wait right behind it. Returns the command that did not fit.
pub(super) fn together(learner: &Learner, first: Waiting, commands: &mut mpsc::Receiver<Command>) -> Option<Command> {
    let temperature = first.0.temperature;
    let mut batch = vec![first];
    let mut other = None;
    while batch.len() < TOGETHER {
        match commands.try_recv() {
            Ok(Command::Score { item, reply }) if item.temperature == temperature => batch.push((item, reply)),
            Ok(command) => {
                other = Some(command);
                break;
            }
            Err(_) => break,
        }
    }
    let mut good = Vec::with_capacity(batch.len());
    for (item, reply) in batch {
        match check(learner, &item) {
            Ok(()) => good.push((item, reply)),
            Err(error) => fail(item, reply, &error),
        }
    }
    if good.is_empty() {
        return other;
    }
    let sequences: Vec<(&[u32], &[u32])> =
        good.iter().map(|(item, _)| (&*item.prompt_token_ids, &*item.response_token_ids)).collect();
    match learner.score(&sequences, temperature.unwrap_or(1.0)) {
        Ok(scores) => {
            for ((item, reply), scores) in good.into_iter().zip(scores) {
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
            good.into_iter().for_each(|(item, reply)| fail(item, reply, &error));
        }
    }
    other
}

/// Everything that one item can be refused for, so that it spoils no other.
fn check(learner: &Learner, item: &ScoreItem) -> Result<(), ServiceError> {
    match item.temperature {
        Some(temperature) if temperature.is_finite() && temperature > 0.0 => {}
        Some(temperature) => return Err(FieldError::new("temperature", temperature, "a finite number above 0").into()),
        None => return Err(FieldError::missing("temperature", "a finite number above 0").into()),
    }
    if let Some(version) = item.version.filter(|&version| version != learner.version()) {
        let message = format!("version is {version}, the learner's is {}", learner.version());
        return Err(ServiceError::Precondition { reason: "OTHER_VERSION", message });
    }
    for (field, ids) in [("prompt_token_ids", &item.prompt_token_ids), ("response_token_ids", &item.response_token_ids)]
    {
        if ids.is_empty() {
            return Err(FieldError::new(field, "empty", "at least one id").into());
        }
    }
    let ids = [&*item.prompt_token_ids, &*item.response_token_ids].concat();
    evenkeel_model::check_ids(learner.config(), &ids).map_err(|error| convert::error(error.into()))
}

fn fail(item: ScoreItem, reply: oneshot::Sender<ScoreResponse>, error: &ServiceError) {
    let _ = reply.send(ScoreResponse { id: item.id, failure: Some(error.failure()), ..ScoreResponse::default() });
}
