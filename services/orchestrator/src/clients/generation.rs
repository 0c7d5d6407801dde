//! The generation service: samples, weights, sleep.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evenkeel_proto::engine_advice;
use evenkeel_proto::v1::generation_client::GenerationClient;
use evenkeel_proto::v1::{
    EngineProof, EngineUpdateOutcome, ExactProofState, FailureCode, GenerateItem, GenerationGetStatusRequest,
    GenerationGetStatusResponse, PauseMode, ProveWeightsRequest, SleepLevel, SleepRequest, TokenSequence,
    UpdateWeightsRequest, WeightsRef,
};
use evenkeel_rpc::client::ClientChannel;
use evenkeel_rpc::dispatch::{DispatchError, Dispatcher, Pending};
use evenkeel_rpc::error::{Reason, has_reason};
use evenkeel_rpc::items::GenerateItems;
use evenkeel_trust::EngineScores;
use tonic::Status;

use super::connect::Connections;
use super::tensor_digests::tensor_digests;
use super::{Outage, Retrier};
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};
use crate::events::{Event, Events};

/// How long the generation service may have a sample, its own queue included. No bound in practice: engines have their
/// own (`services.rollout_deadline`), and the health monitor notices a service that finishes no sample long before.
const ITEM_DEADLINE: Duration = Duration::from_secs(30 * 24 * 3600);

/// There is one generation service, so its dispatcher has no other worker to try: it reports a lost sample, and the
/// sample's task decides.
const MAX_ATTEMPTS: u32 = 1;

pub(crate) struct Generation {
    endpoint: String,
    dispatcher: Dispatcher<GenerateItems>,
    client: GenerationClient<ClientChannel>,
    retrier: Retrier,
    events: Events,
    /// Engines of which it was said what their digests prove.
    proven_exactly: Mutex<BTreeSet<(String, i32)>>,
}

impl Generation {
    pub(super) fn connect(
        endpoint: &str,
        connections: &Connections,
        retrier: Retrier,
        events: Events,
    ) -> Result<Self, RunError> {
        let field = "endpoints.generation";
        let limit = connections.max_message();
        let max_outstanding = connections.settings().max_rollouts;
        Ok(Self {
            dispatcher: connections.dispatcher(field, &[endpoint.to_owned()], max_outstanding, ITEM_DEADLINE)?,
            client: GenerationClient::new(connections.channel(field, endpoint)?)
                .max_decoding_message_size(limit)
                .max_encoding_message_size(limit),
            endpoint: endpoint.to_owned(),
            retrier,
            events,
            proven_exactly: Mutex::default(),
        })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Sends the request for a sample on its way; what is returned is its answer. Dropping that cancels it.
    pub(crate) async fn submit(&self, item: GenerateItem) -> Result<Pending<GenerateItems>, DispatchError> {
        self.dispatcher.submit(item, MAX_ATTEMPTS).await
    }

    /// Samples on their way that the service has not answered.
    pub(crate) fn pending(&self) -> usize {
        self.dispatcher.pending()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.dispatcher.is_connected()
    }

    pub(crate) fn outage(&self) -> Outage {
        Outage::new(Dependency::Generation, self.endpoint.clone(), self.retrier.clone())
    }

    pub(crate) async fn status(&self) -> Result<GenerationGetStatusResponse, Halt> {
        let call = || {
            let mut client = self.client.clone();
            async move { Ok(client.get_status(self.retrier.request(GenerationGetStatusRequest {})).await?.into_inner()) }
        };
        self.retrier.call(Dependency::Generation, &self.endpoint, "GetStatus", call).await
    }

    /// The status for a caller that only observes: `None` where the service does not answer at once.
    pub(crate) async fn peek(&self) -> Option<GenerationGetStatusResponse> {
        let request = self.retrier.request(GenerationGetStatusRequest {});
        Some(self.client.clone().get_status(request).await.ok()?.into_inner())
    }

    /// Updates the engines to a weights version. A warning reports engines that fail; if all fail the call is retried.
    /// Only `WeightSync` calls it in a run, when the state of the loop says so.
    pub(crate) async fn update_weights(&self, weights: &WeightsRef, in_flight: PauseMode) -> Result<(), Halt> {
        let pause_mode = in_flight.into();
        let weights_ref = Some(weights.clone());
        let request = UpdateWeightsRequest { weights: weights_ref, pause_mode, ..UpdateWeightsRequest::default() };
        let call = || {
            let mut client = self.client.clone();
            let request = request.clone();
            async move {
                let response = client.update_weights(self.retrier.request(request)).await?.into_inner();
                let failed = |outcome: EngineUpdateOutcome| outcome == EngineUpdateOutcome::Failed;
                let failures: Vec<_> = response.engines.iter().filter(|engine| failed(engine.outcome())).collect();
                let text = failures.iter().map(|engine| {
                    let why = engine.failure.as_ref().map_or("", |failure| failure.message.as_str());
                    format!("engine {}: {why}", engine.engine)
                });
                let text = text.collect::<Vec<_>>().join("; ");
                if !failures.is_empty() && failures.len() == response.engines.len() {
                    return Err(Status::unavailable(format!("no engine loaded the weights: {text}")));
                }
                Ok(text)
            }
        };
        let failures = self.retrier.call(Dependency::Generation, &self.endpoint, "UpdateWeights", call).await?;
        if !failures.is_empty() {
            let message = format!("some engines did not load version {}: {failures}", weights.version);
            self.events.emit(Event::Warning { message });
        }
        self.events.update(|progress| progress.policy_version = weights.version);
        Ok(())
    }

    /// Scores the same tokens on every engine. A warning reports engines that could not be asked; where none could the
    /// call is retried. `None` where the engines have another version.
    pub(crate) async fn prove_weights(
        &self,
        version: u64,
        sequences: &[Vec<u32>],
        temperature: f32,
    ) -> Result<Option<Vec<EngineScores>>, Halt> {
        let sequences = sequences.iter().map(|ids| TokenSequence { token_ids: ids.clone() }).collect();
        let version = Some(version);
        let temperature = Some(temperature);
        let request = ProveWeightsRequest { version, sequences, temperature, ..ProveWeightsRequest::default() };
        let call = || {
            let mut client = self.client.clone();
            let request = request.clone();
            async move {
                let response = match client.prove_weights(self.retrier.request(request)).await {
                    Err(status) if has_reason(&status, Reason::VersionMismatch) => return Ok(None),
                    response => response?,
                };
                let engines = response.into_inner().engines;
                let (failed, proven): (Vec<_>, Vec<_>) =
                    engines.into_iter().partition(|engine| engine.failure.is_some());
                let refused = failed.iter().find_map(|engine| {
                    let failure =
                        engine.failure.as_ref().filter(|failure| failure.reason.parse() == Ok(Reason::NoScores))?;
                    Some((&engine.engine, &failure.message))
                });
                if let Some((engine, message)) = refused {
                    let message = format!(
                        "engine {engine} does not score tokens ({message}); make it do so ({}), or set proof.every = 0",
                        engine_advice::SCORES
                    );
                    return Err(Status::failed_precondition(message));
                }
                let failures = failed.iter().map(|engine| {
                    let why = engine.failure.as_ref().map_or("", |failure| failure.message.as_str());
                    format!("engine {}: {why}", engine.engine)
                });
                let failures = failures.collect::<Vec<_>>().join("; ");
                if proven.is_empty() {
                    Err(Status::unavailable(format!("no engine scores tokens: {failures}")))
                } else {
                    Ok(Some((proven, failures)))
                }
            }
        };
        let answer = self.retrier.call(Dependency::Generation, &self.endpoint, "ProveWeights", call).await?;
        let Some((proven, failures)) = answer else { return Ok(None) };
        if !failures.is_empty() {
            let message = format!("the weights of some engines could not be checked: {failures}");
            self.events.emit(Event::Warning { message });
        }
        for engine in &proven {
            self.decide_exactly(engine, request.version.unwrap_or_default())?;
        }
        proven.into_iter().map(|engine| scores_of(engine, &request)).collect::<Result<_, _>>().map(Some)
    }

    /// Where an engine has digests of its tensors they decide. What they prove is said once.
    fn decide_exactly(&self, engine: &EngineProof, version: u64) -> Result<(), Halt> {
        let Some(exact) = &engine.exact else { return Ok(()) };
        let message = tensor_digests(exact).verdict(&engine.engine, version)?;
        let mut said = self.proven_exactly.lock().unwrap_or_else(PoisonError::into_inner);
        if said.insert((engine.engine.clone(), exact.state)) {
            self.events.emit(Event::Note { message });
        }
        Ok(())
    }

    /// Puts every engine to sleep. All must: the learner needs the memory of each.
    pub(crate) async fn sleep(&self, level: SleepLevel) -> Result<(), Halt> {
        let request = SleepRequest { level: level.into(), ..SleepRequest::default() };
        let call = || {
            let mut client = self.client.clone();
            async move {
                let engines = client.sleep(self.retrier.request(request)).await?.into_inner().engines;
                let failed = engines.iter().find_map(|engine| Some((engine, engine.failure.as_ref()?)));
                let Some((engine, failure)) = failed else { return Ok(()) };
                let text = format!("engine {} does not sleep: {}: {}", engine.engine, failure.reason, failure.message);
                let retryable = failure.is_retryable() || failure.code() == FailureCode::DeadlineExceeded;
                Err(if retryable { Status::unavailable(text) } else { Status::failed_precondition(text) })
            }
        };
        self.retrier.call(Dependency::Generation, &self.endpoint, "Sleep", call).await
    }
}

/// The scores of one engine, one for every token but the first of each sequence.
fn scores_of(engine: EngineProof, request: &ProveWeightsRequest) -> Result<EngineScores, Halt> {
    let complete = engine.scores.len() == request.sequences.len()
        && engine
            .scores
            .iter()
            .zip(&request.sequences)
            .all(|(scores, sequence)| scores.log_probabilities.len() + 1 == sequence.token_ids.len());
    if !complete {
        let message = format!("the scores of engine {} violate the protocol: not one for each token", engine.engine);
        return Err(
            RunError::Refused { service: Dependency::Generation, what: "ProveWeights".to_owned(), message }.into()
        );
    }
    let is_exact = engine.exact.as_ref().is_some_and(|exact| exact.state() == ExactProofState::Equal);
    let scores = engine.scores.into_iter().map(|scores| scores.log_probabilities).collect();
    // Who says that it computes in f32 is known from the engines' status.
    Ok(EngineScores { engine: engine.engine, scores, is_exact, is_f32: false })
}
