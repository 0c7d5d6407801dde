//! The learner and the engines behind the front. A call that finds one of them away is repeated: operations and weight
//! updates are idempotent, and a sample is determined by its seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_proto::v1::generation_client::GenerationClient;
use evenkeel_proto::v1::learner_client::LearnerClient;
use evenkeel_proto::v1::operate_request::Kind;
use evenkeel_proto::v1::{
    EngineProof, EngineUpdateOutcome, Failure as ItemFailure, FailureCode, GenerateItem, GenerationGetStatusRequest,
    GenerationGetStatusResponse, LearnerGetStatusRequest, LearnerGetStatusResponse, OperateRequest, OperateResponse,
    PauseMode, ProveWeightsRequest, Rollout, ScoreItem, ScoreRequest, ScoreWeights, TokenSequence,
    UpdateWeightsRequest,
};
use evenkeel_rpc::client::{ClientChannel, Connector, ServerAddress};
use evenkeel_rpc::dispatch::{DeadlineStart, DispatchOptions, Dispatcher, Endpoints};
use evenkeel_rpc::error::Reason;
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
            async move { Ok(client.get_status(LearnerGetStatusRequest::default()).await?.into_inner()) }
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
        let Some((first, rest)) = ids.split_first().filter(|(_, rest)| !rest.is_empty()) else { return Ok(Vec::new()) };
        let item = ScoreItem {
            prompt_token_ids: vec![*first],
            response_token_ids: rest.to_vec(),
            temperature: Some(1.0),
            weights: Some(ScoreWeights { version, ..ScoreWeights::default() }),
            ..ScoreItem::default()
        };
        let mut scores = self.scores(vec![item]).await?.map_err(Failure::server)?;
        Ok(scores.pop().unwrap_or_default())
    }

    /// The learner's log-probabilities of the response of each item, whose ids are given here. The inner result says
    /// why it has none under these weights, although nothing has failed.
    pub(crate) async fn scores(&self, mut items: Vec<ScoreItem>) -> Result<Result<Vec<Vec<f32>>, String>, Failure> {
        items.iter_mut().enumerate().for_each(|(number, item)| item.id = number.to_string());
        let answers = self.call(|| {
            let mut client = self.learner.clone();
            let requests = tokio_stream::iter(items.clone().into_iter().map(ScoreRequest::from));
            async move {
                let mut stream = client.score(requests).await?.into_inner();
                let mut answers = Vec::new();
                while let Some(answer) = stream.message().await? {
                    answers.push(answer);
                }
                Ok(answers)
            }
        });
        let mut found = vec![Vec::new(); items.len()];
        for answer in answers.await? {
            match answer.failure {
                None => {}
                Some(failure) if is_not_scored(&failure) => return Ok(Err(failure.message)),
                Some(failure) => return Err(of_item(&failure)),
            }
            if let Some(scores) = answer.id.parse().ok().and_then(|at: usize| found.get_mut(at)) {
                *scores = answer.log_probabilities;
            }
        }
        if found.iter().map(Vec::len).eq(items.iter().map(|item| item.response_token_ids.len())) {
            Ok(Ok(found))
        } else {
            Err(Failure::server("the learner did not score each token that it was given"))
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

    /// Loads weights into every engine.
    pub(crate) async fn load(&self, weights: &Weights) -> Result<(), Failure> {
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
        match engines.iter().find(|engine| engine.outcome() == EngineUpdateOutcome::Failed) {
            Some(engine) => {
                let why = engine.failure.as_ref().map_or("", |failure| failure.message.as_str());
                Err(Failure::server(format!("engine {} did not load the weights: {why}", engine.engine)))
            }
            None => Ok(()),
        }
    }

    /// What every engine with that version says of each sequence.
    pub(crate) async fn prove_weights(
        &self,
        version: u64,
        sequences: &[Vec<u32>],
    ) -> Result<Vec<EngineProof>, Failure> {
        let request = ProveWeightsRequest {
            version: Some(version),
            sequences: sequences.iter().map(|ids| TokenSequence { token_ids: ids.clone() }).collect(),
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
                    None if engines.is_empty() => Err(Status::unavailable("there is no engine")),
                    None => Ok(engines),
                }
            }
        });
        Ok(engines.await?)
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

/// Whether the learner cannot have the weights that it was to score with, or has others in memory by now.
fn is_not_scored(failure: &ItemFailure) -> bool {
    matches!(failure.reason.parse(), Ok(Reason::WeightsGone | Reason::NoMemory | Reason::VersionMismatch))
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
