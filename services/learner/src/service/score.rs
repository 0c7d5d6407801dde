//! Scoring: waiting items that ask for the same go through the model together.

use std::io;
use std::time::Instant;

use evenkeel_proto::v1::{LearnerState, ScoreItem, ScoreResponse};
use evenkeel_rpc::error::ServiceError;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use super::convert;
use super::score_request::ScoreTask;
use super::status::StatusBoard;
use crate::published_model::PublishedModel;
use crate::scoring::{SequenceScores, plain, score};
use crate::trainer::Trainer;

/// Items in one pass: enough to fill micro-batches, few enough that a step does not wait long.
const MAX_BATCH: usize = 256;

/// A sequence to score.
pub(super) struct ScoreCommand {
    pub(super) item: ScoreItem,
    pub(super) reply: oneshot::Sender<ScoreResponse>,
}

/// The items that wait to be scored, and the published weights that they may ask for.
pub(super) struct Scoring {
    waiting: mpsc::Receiver<ScoreCommand>,
    /// The first that did not fit into the last batch.
    next: Option<ScoreCommand>,
    published: PublishedModel,
    status: StatusBoard,
    /// For waiting on two channels at once.
    runtime: Runtime,
}

/// The event that came first.
#[expect(clippy::large_enum_variant, reason = "one lives at a time, on the stack")]
pub(super) enum Arrival<T> {
    /// An item to score.
    Item(ScoreCommand),
    /// Something else; `None` once there will be nothing more.
    Other(Option<T>),
}

impl Scoring {
    /// # Errors
    /// The operating system's.
    pub(super) fn new(
        waiting: mpsc::Receiver<ScoreCommand>,
        published: PublishedModel,
        status: StatusBoard,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(Self { waiting, next: None, published, status, runtime })
    }

    /// Waits for an item or for what another channel brings, which goes first.
    pub(super) fn wait<T>(&mut self, other: &mut mpsc::Receiver<T>) -> Arrival<T> {
        if let Some(item) = self.next.take() {
            return match other.try_recv() {
                Ok(value) => {
                    self.next = Some(item);
                    Arrival::Other(Some(value))
                }
                Err(_) => Arrival::Item(item),
            };
        }
        let waiting = &mut self.waiting;
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                value = other.recv() => Arrival::Other(value),
                Some(item) = waiting.recv() => Arrival::Item(item),
            }
        })
    }

    /// Waits for an item; `None` once there will be no more.
    pub(super) fn next(&mut self) -> Option<ScoreCommand> {
        self.next.take().or_else(|| self.waiting.blocking_recv())
    }

    /// Scores an item and those that ask for the same and are queued directly after it. Nothing of the trainer changes.
    pub(super) fn answer(&mut self, first: ScoreCommand, trainer: &Trainer) {
        self.status.set_state(LearnerState::Scoring, trainer.version());
        let batch = self.collect(first);
        self.run(batch, trainer);
        self.published.release_live();
        let device = trainer.parameters().device();
        // An engine on the same GPU may wake next.
        if !device.is_cpu()
            && self.next.is_none()
            && self.waiting.is_empty()
            && self.published.clear()
            && let Err(error) = evenkeel_model::empty_cache(device)
        {
            tracing::warn!(%error, "memory of published weights is not given back");
        }
    }

    /// Drops tensors of published weights and hidden states, which a step would have in memory beside its gradients. The
    /// next publication drops them in any case.
    pub(super) fn make_room(&mut self) {
        self.published.forget();
    }

    /// Notes that the weights in training were published as this version, or (`None`) replaced. Tensors of published
    /// weights and hidden states are dropped.
    pub(super) fn published(&mut self, version: Option<u64>) {
        self.published.published(version);
    }

    fn collect(&mut self, first: ScoreCommand) -> Vec<ScoreCommand> {
        let mut batch = vec![first];
        while batch.len() < MAX_BATCH {
            match self.waiting.try_recv() {
                Ok(next) if ScoreTask::is_same(&batch[0].item, &next.item) => batch.push(next),
                Ok(other) => {
                    self.next = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        batch
    }

    /// Scores every valid item, and answers all items.
    #[tracing::instrument(level = "debug", skip_all, fields(items = batch.len()))]
    fn run(&mut self, batch: Vec<ScoreCommand>, trainer: &Trainer) {
        let start = Instant::now();
        let task = match ScoreTask::of(&batch[0].item, trainer) {
            Ok(task) => task,
            Err(error) => return batch.into_iter().for_each(|command| fail(command, &error)),
        };
        let mut accepted = Vec::with_capacity(batch.len());
        let mut sequences = Vec::with_capacity(batch.len());
        let mut draws = Vec::with_capacity(batch.len());
        let can_draw = trainer.settings().compute.is_fp32_on_cpu();
        for command in batch {
            let checked = task.sequence(&command.item, trainer);
            match checked.and_then(|sequence| Ok((sequence, task.draws(&command.item, can_draw)?))) {
                Ok((sequence, of_sequence)) => {
                    accepted.push(command);
                    sequences.push(sequence);
                    draws.push(of_sequence);
                }
                Err(error) => fail(command, &error),
            }
        }
        if accepted.is_empty() {
            return;
        }
        let scored = trainer.pack(&sequences).and_then(|batches| {
            let network = match (&task.weights, task.sampled_from()) {
                (Some(weights), None) => {
                    let scores = self.published.score(trainer, weights, batches.packed(), task.temperature)?;
                    return Ok(plain(&batches, scores));
                }
                (Some(weights), Some(_)) => self.published.with(trainer, weights)?,
                (None, _) => trainer.network(),
            };
            score(network, &batches, task.temperature, task.sampled_from(), &draws)
        });
        match scored.map_err(|error| task.explained(trainer, error)) {
            Ok(scores) => {
                metrics::counter!("evenkeel_scored_sequences_total").increment(accepted.len() as u64);
                let took = start.elapsed();
                metrics::histogram!("evenkeel_score_batch_seconds").record(took);
                let compute_seconds = took.as_secs_f64() / accepted.len() as f64;
                for (ScoreCommand { item, reply }, scores) in accepted.into_iter().zip(scores) {
                    let scored = response(item, scores, task.version);
                    let _ = reply.send(ScoreResponse { compute_seconds, ..scored });
                }
            }
            Err(error) => {
                let error = convert::error(error);
                accepted.into_iter().for_each(|command| fail(command, &error));
            }
        }
    }
}

fn response(item: ScoreItem, scores: SequenceScores, version: u64) -> ScoreResponse {
    let mut statistics = scores.statistics.map(|tokens| convert::statistics(&tokens));
    if let Some(statistics) = statistics.as_mut().filter(|_| !item.seeded.is_empty()) {
        let drawn = item.response_token_ids.iter().zip(&scores.drawn);
        statistics.drawn_token_ids = drawn.map(|(&own, drawn)| drawn.unwrap_or(own)).collect();
    }
    ScoreResponse {
        id: item.id,
        log_probabilities: scores.plain.logp,
        entropies: if item.entropy { scores.plain.entropy } else { Vec::new() },
        version,
        statistics,
        ..ScoreResponse::default()
    }
}

fn fail(ScoreCommand { item, reply }: ScoreCommand, error: &ServiceError) {
    let _ = reply.send(ScoreResponse { id: item.id, failure: Some(error.failure()), ..ScoreResponse::default() });
}
