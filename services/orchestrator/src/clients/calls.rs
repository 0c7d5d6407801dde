//! Single calls: status, publishing, switching weights, checkpoints.

use std::time::Duration;

use evenkeel_proto::v1::{
    CheckpointRef, EngineUpdateOutcome, FailureCode, GenerationGetStatusRequest, GenerationGetStatusResponse,
    LearnerGetStatusRequest, LearnerGetStatusResponse, LoadCheckpointRequest, LoadCheckpointResponse, PublishRequest,
    RewardGetStatusRequest, RewardGetStatusResponse, SaveCheckpointRequest, SleepLevel, SleepRequest,
    UpdateWeightsRequest, WeightsRef,
};
use tonic::{Code, Request, Status};

use super::Services;
use crate::error::{Halt, RunError};
use crate::events::Event;

impl Services {
    /// A request whose deadline travels with it.
    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(Duration::from_millis(self.settings.call_deadline_ms));
        request
    }

    pub(crate) async fn learner_status(&self) -> Result<LearnerGetStatusResponse, Halt> {
        let call = || {
            let mut client = self.learner.clone();
            async move { Ok(client.get_status(self.request(LearnerGetStatusRequest {})).await?.into_inner()) }
        };
        self.retrier.call("learner", &self.endpoints.learner, "GetStatus", call).await
    }

    pub(crate) async fn generation_status(&self) -> Result<GenerationGetStatusResponse, Halt> {
        let call = || {
            let mut client = self.generation_calls.clone();
            async move { Ok(client.get_status(self.request(GenerationGetStatusRequest {})).await?.into_inner()) }
        };
        self.retrier.call("generation", &self.endpoints.generation, "GetStatus", call).await
    }

    /// The state of the first reward worker; `None` where workers are only known by a DNS name.
    pub(crate) async fn reward_status(&self) -> Result<Option<RewardGetStatusResponse>, Halt> {
        let Some((endpoint, client)) = &self.reward_calls else { return Ok(None) };
        let call = || {
            let mut client = client.clone();
            async move { Ok(client.get_status(self.request(RewardGetStatusRequest {})).await?.into_inner()) }
        };
        self.retrier.call("reward", endpoint, "GetStatus", call).await.map(Some)
    }

    /// Publishes the weights of that version; the learner keeps the last `keep` versions, or all where it is 0.
    pub(crate) async fn publish(&self, run_id: &str, version: u64, keep: u32) -> Result<WeightsRef, Halt> {
        let request = PublishRequest { run_id: run_id.to_owned(), version: Some(version), keep: Some(keep) };
        let call = || {
            let (mut client, request) = (self.learner.clone(), request.clone());
            async move { client.publish(self.request(request)).await.map(tonic::Response::into_inner) }
        };
        let response = self.retrier.call("learner", &self.endpoints.learner, "Publish", call).await?;
        let weights = response.weights.unwrap_or_default();
        let broken = |message: String| RunError::Refused { service: "learner", what: "Publish".to_owned(), message };
        weights.check().map_err(|error| broken(format!("its reference breaks the protocol: {error}")))?;
        if weights.version != version {
            return Err(broken(format!("it published version {}, asked for was {version}", weights.version)).into());
        }
        Ok(weights)
    }

    /// Moves the engines to weights. An engine that fails is told about; where all fail it is tried again.
    pub(crate) async fn update_weights(&self, weights: &WeightsRef) -> Result<(), Halt> {
        let request = UpdateWeightsRequest { weights: Some(weights.clone()), ..UpdateWeightsRequest::default() };
        let call = || {
            let (mut client, request) = (self.generation_calls.clone(), request.clone());
            async move {
                let response = client.update_weights(self.request(request)).await?.into_inner();
                let failed = |outcome: EngineUpdateOutcome| outcome == EngineUpdateOutcome::Failed;
                let failures: Vec<_> = response.engines.iter().filter(|engine| failed(engine.outcome())).collect();
                let text = failures.iter().map(|engine| {
                    let why = engine.failure.as_ref().map_or("", |failure| failure.message.as_str());
                    format!("engine {}: {why}", engine.engine)
                });
                let text = text.collect::<Vec<_>>().join("; ");
                if !failures.is_empty() && failures.len() == response.engines.len() {
                    return Err(Status::unavailable(format!("no engine took the weights: {text}")));
                }
                Ok(text)
            }
        };
        let failures = self.retrier.call("generation", &self.endpoints.generation, "UpdateWeights", call).await?;
        if !failures.is_empty() {
            let message =
                format!("version {} did not reach every engine, the others go on: {failures}", weights.version);
            self.events.emit(Event::Warning { message });
        }
        self.events.update(|progress| progress.policy_version = weights.version);
        Ok(())
    }

    /// Puts every engine to sleep. It is not enough that some do: the memory of the others is missing.
    pub(crate) async fn sleep(&self, level: SleepLevel) -> Result<(), Halt> {
        let request = SleepRequest { level: level.into(), ..SleepRequest::default() };
        let call = || {
            let mut client = self.generation_calls.clone();
            async move {
                let engines = client.sleep(self.request(request)).await?.into_inner().engines;
                let failed = engines.iter().find_map(|engine| Some((engine, engine.failure.as_ref()?)));
                let Some((engine, failure)) = failed else { return Ok(()) };
                let text = format!("engine {} does not sleep: {}: {}", engine.engine, failure.reason, failure.message);
                let passes = failure.is_retryable() || failure.code() == FailureCode::DeadlineExceeded;
                Err(if passes { Status::unavailable(text) } else { Status::failed_precondition(text) })
            }
        };
        self.retrier.call("generation", &self.endpoints.generation, "Sleep", call).await
    }

    /// Writes a checkpoint with this side's state in it.
    pub(crate) async fn save_checkpoint(&self, request: SaveCheckpointRequest) -> Result<CheckpointRef, Halt> {
        let call = || {
            let (mut client, request) = (self.learner.clone(), request.clone());
            async move { client.save_checkpoint(self.request(request)).await.map(tonic::Response::into_inner) }
        };
        let response = self.retrier.call("learner", &self.endpoints.learner, "SaveCheckpoint", call).await?;
        Ok(response.checkpoint.unwrap_or_default())
    }

    /// Goes back to the newest checkpoint of the run that is whole. `None` where there is none.
    pub(crate) async fn load_checkpoint(&self, run_id: &str) -> Result<Option<LoadCheckpointResponse>, Halt> {
        let request = LoadCheckpointRequest { run_id: run_id.to_owned(), which: None };
        let call = || {
            let (mut client, request) = (self.learner.clone(), request.clone());
            async move {
                match client.load_checkpoint(self.request(request)).await {
                    Ok(response) => Ok(Some(response.into_inner())),
                    Err(status) if status.code() == Code::NotFound => Ok(None),
                    Err(status) => Err(status),
                }
            }
        };
        self.retrier.call("learner", &self.endpoints.learner, "LoadCheckpoint", call).await
    }
}
