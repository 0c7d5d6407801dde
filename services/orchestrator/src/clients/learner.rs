//! The learner: training steps, published weights, checkpoints.

use std::future::Future;

use evenkeel_proto::v1::learner_client::LearnerClient;
use evenkeel_proto::v1::load_checkpoint_request::Which;
use evenkeel_proto::v1::{
    CheckpointRef, Failure, FailureCode, LearnerGetStatusRequest, LearnerGetStatusResponse, LoadCheckpointRequest,
    LoadCheckpointResponse, PublishRequest, ResetRequest, SaveCheckpointRequest, ScoreItem, ScoreRequest,
    ScoreResponse, TrainEvent, TrainReport, WeightsRef, score_request, train_event,
};
use evenkeel_rpc::client::ClientChannel;
use evenkeel_rpc::error::{Reason, has_reason};
use tokio_stream::StreamExt;
use tonic::{Code, Response, Status, Streaming};

use super::connect::Connections;
use super::{Retrier, TrainFeed};
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::events::Events;

/// The learner of a run.
pub(crate) struct Learner {
    endpoint: String,
    client: LearnerClient<ClientChannel>,
    retrier: Retrier,
    events: Events,
}

impl Learner {
    pub(super) fn connect(
        endpoint: &str,
        connections: &Connections,
        retrier: Retrier,
        events: Events,
    ) -> Result<Self, RunError> {
        let limit = connections.max_message();
        let client = LearnerClient::new(connections.channel("endpoints.learner", endpoint)?)
            .max_decoding_message_size(limit)
            .max_encoding_message_size(limit);
        Ok(Self { endpoint: endpoint.to_owned(), client, retrier, events })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) async fn status(&self) -> Result<LearnerGetStatusResponse, Halt> {
        let call = || {
            let mut client = self.client.clone();
            async move { Ok(client.get_status(self.retrier.request(LearnerGetStatusRequest {})).await?.into_inner()) }
        };
        self.retrier.call(Dependency::Learner, &self.endpoint, "GetStatus", call).await
    }

    /// Publishes the weights of that version; the learner keeps the last `keep` versions, or all where it is 0, and those of
    /// `besides`.
    pub(crate) async fn publish(
        &self,
        run_id: &str,
        version: u64,
        keep: u32,
        besides: Vec<u64>,
    ) -> Result<WeightsRef, Halt> {
        let request = PublishRequest {
            run_id: run_id.to_owned(),
            version: Some(version),
            keep: Some(keep),
            keep_versions: besides,
        };
        let call = || {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.publish(self.retrier.request(request)).await.map(Response::into_inner) }
        };
        let response = self.retrier.call(Dependency::Learner, &self.endpoint, "Publish", call).await?;
        let weights = response.weights.unwrap_or_default();
        let refused =
            |message: String| RunError::Refused { service: Dependency::Learner, what: "Publish".to_owned(), message };
        weights.validate().map_err(|error| refused(format!("its reference violates the protocol: {error}")))?;
        if weights.version != version {
            return Err(refused(format!("it published version {}, requested was {version}", weights.version)).into());
        }
        Ok(weights)
    }

    /// Log-probabilities of each (prompt, response) under the weights of that version, one for each token of the response.
    pub(crate) async fn score(
        &self,
        version: u64,
        items: &[(Vec<u32>, Vec<u32>)],
        temperature: f32,
    ) -> Result<Vec<Vec<f32>>, Halt> {
        let requests: Vec<ScoreRequest> = items
            .iter()
            .enumerate()
            .map(|(number, (prompt, response))| {
                let item = ScoreItem {
                    id: number.to_string(),
                    prompt_token_ids: prompt.clone(),
                    response_token_ids: response.clone(),
                    temperature: Some(temperature),
                    version: Some(version),
                    ..ScoreItem::default()
                };
                ScoreRequest { kind: Some(score_request::Kind::Item(item)) }
            })
            .collect();
        let call = || {
            let (mut client, requests) = (self.client.clone(), requests.clone());
            async move {
                let mut found = vec![Vec::new(); requests.len()];
                let request = self.retrier.request(tokio_stream::iter(requests));
                let mut responses = client.score(request).await?.into_inner();
                while let Some(response) = responses.next().await {
                    let ScoreResponse { id, log_probabilities, failure, .. } = response?;
                    if let Some(failure) = failure {
                        return Err(status_of(&failure));
                    }
                    match id.parse().ok().and_then(|at: usize| found.get_mut(at)) {
                        Some(slot) => *slot = log_probabilities,
                        // Not a failure that another attempt mends.
                        None => {
                            return Err(Status::data_loss(format!("it scored `{id}`, an id that it was not given")));
                        }
                    }
                }
                Ok(found)
            }
        };
        let found = self.retrier.call(Dependency::Learner, &self.endpoint, "Score", call).await?;
        let complete = found.iter().zip(items).all(|(scores, (_, response))| scores.len() == response.len());
        match complete {
            true => Ok(found),
            false => {
                let message = "its scores violate the protocol: not one for each token of each response".to_owned();
                Err(RunError::Refused { service: Dependency::Learner, what: "Score".to_owned(), message }.into())
            }
        }
    }

    /// Writes a checkpoint that includes the state of the loop.
    pub(crate) async fn save_checkpoint(&self, request: SaveCheckpointRequest) -> Result<CheckpointRef, Halt> {
        let call = || {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.save_checkpoint(self.retrier.request(request)).await.map(Response::into_inner) }
        };
        let response = self.retrier.call(Dependency::Learner, &self.endpoint, "SaveCheckpoint", call).await?;
        Ok(response.checkpoint.unwrap_or_default())
    }

    /// Loads the newest checkpoint of a run. `None` where there is none.
    pub(crate) async fn load_checkpoint(&self, run_id: &str) -> Result<Option<LoadCheckpointResponse>, Halt> {
        let request = LoadCheckpointRequest { run_id: run_id.to_owned(), ..LoadCheckpointRequest::default() };
        let call = || {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move {
                match client.load_checkpoint(self.retrier.request(request)).await {
                    Ok(response) => Ok(Some(response.into_inner())),
                    Err(status) if status.code() == Code::NotFound => Ok(None),
                    Err(status) => Err(status),
                }
            }
        };
        self.retrier.call(Dependency::Learner, &self.endpoint, "LoadCheckpoint", call).await
    }

    /// Loads the checkpoint of a step of another run, whose weights are then those of this one.
    pub(crate) async fn load_checkpoint_of(
        &self,
        run_id: &str,
        from_run_id: &str,
        step: u64,
    ) -> Result<LoadCheckpointResponse, Halt> {
        let request = LoadCheckpointRequest {
            run_id: run_id.to_owned(),
            from_run_id: from_run_id.to_owned(),
            which: Some(Which::Step(step)),
        };
        let call = || {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.load_checkpoint(self.retrier.request(request)).await.map(Response::into_inner) }
        };
        self.retrier.call(Dependency::Learner, &self.endpoint, "LoadCheckpoint", call).await
    }

    /// Returns to the weights that the learner was started with, which are then those of this run at version 0.
    pub(crate) async fn reset(&self, run_id: &str) -> Result<(), Halt> {
        let call = || {
            let (mut client, request) = (self.client.clone(), ResetRequest { run_id: run_id.to_owned() });
            async move { client.reset(self.retrier.request(request)).await.map(drop) }
        };
        self.retrier.call(Dependency::Learner, &self.endpoint, "Reset", call).await
    }

    /// Does a training step. The feed may still be filled meanwhile. Over a new connection the same messages are sent again: a learner that
    /// has done the step answers with its stored report, so that no step is done twice.
    pub(crate) async fn train(&self, feed: &TrainFeed, what: &str) -> Result<TrainReport, Halt> {
        let attempt = || async {
            loop {
                let was_complete = feed.is_closed();
                match self.train_once(feed).await {
                    // Samples took longer than the learner waits for a group: it gets the step again once all groups are complete.
                    Err(status) if !was_complete && has_reason(&status, Reason::StepIdle) => {
                        feed.closed().await;
                    }
                    result => return result,
                }
            }
        };
        self.retrier.call_without_deadline(Dependency::Learner, &self.endpoint, what, attempt).await
    }

    async fn train_once(&self, feed: &TrainFeed) -> Result<TrainReport, Status> {
        let mut client = self.client.clone();
        let opening = client.train(feed.stream());
        let mut events = self.within_deadline(feed, opening).await??.into_inner();
        self.follow(feed, &mut events).await
    }

    async fn follow(&self, feed: &TrainFeed, events: &mut Streaming<TrainEvent>) -> Result<TrainReport, Status> {
        loop {
            match self.within_deadline(feed, events.next()).await? {
                None => return Err(Status::unavailable("the training stream ended without a report")),
                Some(event) => match event?.kind {
                    Some(train_event::Kind::Report(report)) => return Ok(report),
                    Some(train_event::Kind::Progress(at)) => {
                        self.events.update(|progress| progress.groups_trained = at.accumulated);
                    }
                    Some(train_event::Kind::Accepted(_)) | None => {}
                },
            }
        }
    }

    /// The learner may be silent while it waits for groups; after the last one the deadline of a call applies to each event.
    async fn within_deadline<F: Future>(&self, feed: &TrainFeed, future: F) -> Result<F::Output, Status> {
        let limit = self.retrier.call_deadline();
        let silence = async {
            feed.closed().await;
            tokio::time::sleep(limit).await;
        };
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = silence => {
                let message = format!("the training step sent no event within {} ms", limit.as_millis());
                Err(Status::deadline_exceeded(message))
            }
        }
    }
}

/// The status of a call that has failed with one of its items.
fn status_of(failure: &Failure) -> Status {
    let message = failure.message.clone();
    match failure.code() {
        _ if failure.is_retryable() => Status::unavailable(message),
        FailureCode::FailedPrecondition => Status::failed_precondition(message),
        FailureCode::InvalidArgument => Status::invalid_argument(message),
        _ => Status::internal(message),
    }
}
