//! The learner and the engines behind the front. A call that finds one of them away is repeated: operations and weight
//! updates are idempotent, and a sample is determined by its seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_proto::v1::generation_client::GenerationClient;
use evenkeel_proto::v1::learner_client::LearnerClient;
use evenkeel_proto::v1::operate_request::Kind;
use evenkeel_proto::v1::{
    EngineUpdateOutcome, Failure as ItemFailure, FailureCode, GenerateItem, GenerationGetStatusRequest,
    GenerationGetStatusResponse, LearnerGetStatusRequest, LearnerGetStatusResponse, OperateRequest, OperateResponse,
    PauseMode, ProveWeightsRequest, Rollout, ScoreItem, ScoreRequest, ScoreWeights, TokenSequence,
    UpdateWeightsRequest,
};
use evenkeel_rpc::client::{ClientChannel, Connector, ServerAddress};
use evenkeel_rpc::dispatch::{DeadlineStart, DispatchOptions, Dispatcher, Endpoints};
use evenkeel_rpc::items::GenerateItems;
use evenkeel_rpc::retry::{RetryPolicy, is_retryable};
use tonic::Status;

use crate::error::{Failure, TinkerError};
use crate::settings::TinkerSettings;
use crate::store::Weights;

/// How often an item is given to a service that was lost.
const ATTEMPTS: u32 = 4;

/// The learner and the generation service.
#[derive(Clone)]
pub(crate) struct Backend {
    learner: LearnerClient<ClientChannel>,
    generation: GenerationClient<ClientChannel>,
    samples: Dispatcher<GenerateItems>,
    retry: RetryPolicy,
    max_difference: f64,
    ids: Arc<AtomicU64>,
}

impl Backend {
    pub(crate) fn connect(learner: &str, generation: &str, settings: &TinkerSettings) -> Result<Self, TinkerError> {
        let connector = Connector::new("tinker.client", settings.client.clone())?;
        let limit = connector.max_message();
        let workers = Endpoints::parse(&[generation.to_owned()]).map_err(TinkerError::Setting)?;
        let options = DispatchOptions {
            max_outstanding: settings.max_requests,
            max_pending: settings.max_requests,
            item_deadline: settings.sample_deadline,
            deadline_start: DeadlineStart::Assigned,
            ..DispatchOptions::default()
        };
        let channel = |url: &str| connector.connect_lazy(&ServerAddress::new(url));
        Ok(Self {
            learner: LearnerClient::new(channel(learner)?)
                .max_decoding_message_size(limit)
                .max_encoding_message_size(limit),
            generation: GenerationClient::new(channel(generation)?)
                .max_decoding_message_size(limit)
                .max_encoding_message_size(limit),
            samples: Dispatcher::start(&options, workers, connector.clone()),
            retry: RetryPolicy::new(Duration::from_millis(100), Duration::from_secs(5))
                .with_time_limit(settings.outage_timeout),
            max_difference: settings.max_difference,
            ids: Arc::default(),
        })
    }

    async fn call<T, F: Future<Output = Result<T, Status>>>(&self, call: impl Fn() -> F) -> Result<T, Status> {
        let mut retries = self.retry.start();
        loop {
            match call().await {
                Err(status) if is_retryable(&status) => match retries.next_retry() {
                    Some(retry) => tokio::time::sleep(retry.pause).await,
                    None => return Err(status),
                },
                result => return result,
            }
        }
    }

    pub(crate) async fn learner(&self) -> Result<LearnerGetStatusResponse, Status> {
        self.call(|| {
            let mut client = self.learner.clone();
            async move { Ok(client.get_status(LearnerGetStatusRequest {}).await?.into_inner()) }
        })
        .await
    }

    /// The generation service's state.
    pub(crate) async fn generation(&self) -> Result<GenerationGetStatusResponse, Status> {
        self.call(|| {
            let mut client = self.generation.clone();
            async move { Ok(client.get_status(GenerationGetStatusRequest {}).await?.into_inner()) }
        })
        .await
    }

    /// One operation of the learner.
    pub(crate) async fn operate(&self, run_id: &str, sequence: u64, kind: Kind) -> Result<OperateResponse, Status> {
        let request = OperateRequest { run_id: run_id.to_owned(), sequence, kind: Some(kind) };
        self.call(|| {
            let mut client = self.learner.clone();
            let request = request.clone();
            async move { Ok(client.operate(request).await?.into_inner()) }
        })
        .await
    }

    /// Log-probabilities of every token but the first under published weights, at temperature 1.
    pub(crate) async fn score(&self, version: u64, ids: &[u32]) -> Result<Vec<f32>, Failure> {
        let Some((first, rest)) = ids.split_first() else { return Ok(Vec::new()) };
        if rest.is_empty() {
            return Ok(Vec::new());
        }
        let item = ScoreItem {
            id: "prompt".to_owned(),
            prompt_token_ids: vec![*first],
            response_token_ids: rest.to_vec(),
            temperature: Some(1.0),
            weights: Some(ScoreWeights { version, ..ScoreWeights::default() }),
            ..ScoreItem::default()
        };
        let request = ScoreRequest::from(item);
        let response = self.call(|| {
            let mut client = self.learner.clone();
            let requests = tokio_stream::once(request.clone());
            async move {
                let answer = client.score(requests).await?.into_inner().message().await?;
                answer.ok_or_else(|| Status::unavailable("the learner ended a call without an answer"))
            }
        });
        let response = response.await?;
        match response.failure {
            Some(failure) => Err(of_item(&failure)),
            None => Ok(response.log_probabilities),
        }
    }

    pub(crate) async fn sample(&self, item: GenerateItem) -> Result<Rollout, Failure> {
        let item = GenerateItem { sample_id: self.next_id("sample"), ..item };
        let rollout = self.samples.call(item, ATTEMPTS).await.result;
        let rollout = rollout.map_err(|error| Failure::server(error.to_string()))?;
        match &rollout.failure {
            Some(failure) => Err(of_item(failure)),
            None => Ok(rollout),
        }
    }

    /// Loads weights into every engine, and compares what engines and learner say of the same tokens.
    pub(crate) async fn load(&self, weights: &Weights, vocabulary: u32) -> Result<(), Failure> {
        let request = UpdateWeightsRequest {
            weights: Some(weights.reference()),
            pause_mode: PauseMode::Wait.into(),
            ..UpdateWeightsRequest::default()
        };
        let engines = self.call(|| {
            let mut client = self.generation.clone();
            let request = request.clone();
            async move {
                let engines = client.update_weights(request).await?.into_inner().engines;
                match engines.iter().find_map(|engine| busy(engine.failure.as_ref())) {
                    Some(status) => Err(status),
                    None => Ok(engines),
                }
            }
        });
        let engines = engines.await?;
        let failed = engines.iter().find(|engine| engine.outcome() == EngineUpdateOutcome::Failed);
        if let Some(engine) = failed {
            let why = engine.failure.as_ref().map_or("", |failure| failure.message.as_str());
            return Err(Failure::server(format!("engine {} did not load the weights: {why}", engine.engine)));
        }
        if self.max_difference > 0.0 { self.prove(weights.version, vocabulary).await } else { Ok(()) }
    }

    async fn prove(&self, version: u64, vocabulary: u32) -> Result<(), Failure> {
        // Any tokens do: adapters change the probabilities of all of them.
        let ids: Vec<u32> = (0..16).map(|at| (7919 * (at + 1)) % vocabulary.max(1)).collect();
        let request = ProveWeightsRequest {
            version: Some(version),
            sequences: vec![TokenSequence { token_ids: ids.clone() }],
            temperature: Some(1.0),
            ..ProveWeightsRequest::default()
        };
        let engines = self.call(|| {
            let mut client = self.generation.clone();
            let request = request.clone();
            async move {
                let engines = client.prove_weights(request).await?.into_inner().engines;
                match engines.iter().find_map(|engine| busy(engine.failure.as_ref())) {
                    Some(status) => Err(status),
                    None => Ok(engines),
                }
            }
        });
        let engines = engines.await?;
        let wanted = self.score(version, &ids).await?;
        for engine in engines {
            if let Some(failure) = &engine.failure {
                return Err(Failure::server(format!(
                    "engine {} could not be proven: {}",
                    engine.engine, failure.message
                )));
            }
            let found = engine.scores.first().map(|scores| scores.log_probabilities.as_slice()).unwrap_or_default();
            let apart = found.iter().zip(&wanted).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>();
            let apart = apart / wanted.len().max(1) as f64;
            if found.len() != wanted.len() || apart.is_nan() || apart > self.max_difference {
                return Err(Failure::server(format!(
                    "engine {} does not have the weights of version {version}: its log-probabilities differ from the \
                    learner's by {apart} on average",
                    engine.engine
                )));
            }
        }
        Ok(())
    }

    fn next_id(&self, what: &str) -> String {
        format!("{what}-{}", self.ids.fetch_add(1, Ordering::Relaxed))
    }
}

/// The error of an engine that is to be asked again.
fn busy(failure: Option<&ItemFailure>) -> Option<Status> {
    let again = |failure: &&ItemFailure| failure.is_retryable() || failure.code() == FailureCode::DeadlineExceeded;
    failure.filter(again).map(|failure| Status::unavailable(failure.message.clone()))
}

/// The failure of an item.
fn of_item(failure: &ItemFailure) -> Failure {
    match failure.code() {
        FailureCode::InvalidArgument | FailureCode::FailedPrecondition | FailureCode::NotFound => {
            Failure::user(failure.message.clone())
        }
        _ => Failure::server(failure.message.clone()),
    }
}
