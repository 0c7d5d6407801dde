//! The learner: training steps, published weights, checkpoints.

mod score;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_proto::v1::learner_client::LearnerClient as LearnerStub;
use evenkeel_proto::v1::load_checkpoint_request::Which;
use evenkeel_proto::v1::{
    CheckpointRef, LearnerGetStatusRequest, LearnerGetStatusResponse, LoadCheckpointRequest, LoadCheckpointResponse,
    PublishRequest, ResetRequest, RunWrites, SaveCheckpointRequest, TrainEvent, TrainReport, WeightsRef, train_event,
};
use evenkeel_rpc::client::ClientChannel;
use evenkeel_rpc::error::{Reason, has_reason};
use tokio_stream::StreamExt;
use tonic::{Code, Response, Status, Streaming};

pub(crate) use score::ScoreQuery;

use super::connect::Connections;
use super::{Retrier, TrainFeed};
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::events::Events;

/// The learner of a run.
pub(crate) struct LearnerClient {
    endpoint: String,
    client: LearnerStub<ClientChannel>,
    retrier: Retrier,
    events: Events,
    /// Whether weights are published with a tied head written out.
    write_out_head: AtomicBool,
}

impl LearnerClient {
    pub(super) fn connect(
        endpoint: &str,
        connections: &Connections,
        retrier: Retrier,
        events: Events,
    ) -> Result<Self, RunError> {
        let limit = connections.max_message();
        let client = LearnerStub::new(connections.channel("endpoints.learner", endpoint)?)
            .max_decoding_message_size(limit)
            .max_encoding_message_size(limit);
        Ok(Self { endpoint: endpoint.to_owned(), client, retrier, events, write_out_head: AtomicBool::new(false) })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) async fn status(&self) -> Result<LearnerGetStatusResponse, Halt> {
        self.status_with(LearnerGetStatusRequest::default()).await
    }

    /// Sentences on the learner's disks that do not hold what a run writes which has no checkpoint yet.
    pub(crate) async fn full_disks(&self, writes: RunWrites) -> Result<Vec<String>, Halt> {
        let writes = RunWrites { write_out_head: self.write_out_head.load(Ordering::Relaxed), ..writes };
        Ok(self.status_with(LearnerGetStatusRequest { writes: Some(writes) }).await?.full_disks)
    }

    async fn status_with(&self, request: LearnerGetStatusRequest) -> Result<LearnerGetStatusResponse, Halt> {
        let call = || {
            let mut client = self.client.clone();
            let request = request.clone();
            async move { Ok(client.get_status(self.retrier.request(request)).await?.into_inner()) }
        };
        self.retrier.call(Dependency::Learner, &self.endpoint, "GetStatus", call).await
    }

    /// From now on the head of a tied model is written out in published weights, or not.
    pub(crate) fn set_write_out_head(&self, write_out: bool) {
        self.write_out_head.store(write_out, Ordering::Relaxed);
    }

    /// Publishes the weights of that version; the learner keeps the last `keep` versions, or all where it is 0, and
    /// those of `besides`.
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
            write_out_head: self.write_out_head.load(Ordering::Relaxed),
        };
        let call = || {
            let mut client = self.client.clone();
            let request = request.clone();
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

    /// Writes a checkpoint that includes the state of the loop.
    pub(crate) async fn save_checkpoint(&self, request: SaveCheckpointRequest) -> Result<CheckpointRef, Halt> {
        let call = || {
            let mut client = self.client.clone();
            let request = request.clone();
            async move { client.save_checkpoint(self.retrier.request(request)).await.map(Response::into_inner) }
        };
        let response = self.retrier.call(Dependency::Learner, &self.endpoint, "SaveCheckpoint", call).await?;
        Ok(response.checkpoint.unwrap_or_default())
    }

    /// Loads the newest checkpoint of a run. `None` where there is none.
    pub(crate) async fn load_checkpoint(&self, run_id: &str) -> Result<Option<LoadCheckpointResponse>, Halt> {
        let request = LoadCheckpointRequest { run_id: run_id.to_owned(), ..LoadCheckpointRequest::default() };
        let call = || {
            let mut client = self.client.clone();
            let request = request.clone();
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
            let mut client = self.client.clone();
            let request = request.clone();
            async move { client.load_checkpoint(self.retrier.request(request)).await.map(Response::into_inner) }
        };
        self.retrier.call(Dependency::Learner, &self.endpoint, "LoadCheckpoint", call).await
    }

    /// Returns to the weights that the learner was started with, which are then those of this run at version 0.
    pub(crate) async fn reset(&self, run_id: &str) -> Result<(), Halt> {
        let call = || {
            let mut client = self.client.clone();
            let request = ResetRequest { run_id: run_id.to_owned() };
            async move { client.reset(self.retrier.request(request)).await.map(drop) }
        };
        self.retrier.call(Dependency::Learner, &self.endpoint, "Reset", call).await
    }

    /// Does a training step. The feed may still be filled meanwhile. Over a new connection the same messages are sent
    /// again: a learner that has done the step answers with its stored report, so that no step is done twice.
    pub(crate) async fn train(&self, feed: &TrainFeed, what: &str) -> Result<TrainReport, Halt> {
        let attempt = || async {
            loop {
                let was_complete = feed.is_closed();
                match self.train_once(feed).await {
                    // Samples took longer than the learner waits for a group: it gets the step again once all groups
                    // are complete.
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

    /// The learner may be silent while it waits for groups; after the last one the deadline of a call applies to each
    /// event.
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
