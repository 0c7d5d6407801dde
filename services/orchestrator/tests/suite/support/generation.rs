//! A fake generation service: responses follow from seed, prompt and weights; timing is different in every run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_proto::append_sampled;
use evenkeel_proto::v1::generation_server::Generation;
use evenkeel_proto::v1::{
    EngineProof, EngineSleep, EngineUpdate, EngineUpdateOutcome, Failure, FailureCode, FinishReason, GenerateItem,
    GenerateRequest, GenerationGetStatusRequest, GenerationGetStatusResponse, LogProbabilityMode, ModelInfo,
    ProveWeightsRequest, ProveWeightsResponse, QueueStatus, Rollout, Segment, SequenceScores, SleepLevel, SleepRequest,
    SleepResponse, UpdateWeightsRequest, UpdateWeightsResponse, WakeUpRequest, WakeUpResponse, WeightsRef,
};
use evenkeel_rpc::error::{Reason, ServiceError};
use evenkeel_rpc::items::{GenerateItems, ItemContext, ItemLimits, ItemServer, ResponseStream};
use evenkeel_rpc::server::Drain;
use tonic::{Request, Response, Status, Streaming};

use super::{hash, mix};

/// The failure of an item, by its id and attempt.
pub(crate) type Script = Box<dyn Fn(&str, u32) -> Option<FailureCode> + Send + Sync>;

/// Default of [`FakeState::certain_from`].
const CERTAIN_FROM: u64 = 12;

/// What becomes of an item that has its weights, by its id and attempt; asked repeatedly while it waits.
pub(crate) type Fates = Box<dyn Fn(&str, u32) -> Fate + Send + Sync>;

/// What becomes of an item.
pub(crate) enum Fate {
    Answered,
    Waits,
    Lost,
}

/// Whether all responses of a group are identical, by its id.
pub(crate) type IdenticalResponses = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// The text that answers an item; `None` leaves it to chance.
pub(crate) type Answers = Box<dyn Fn(&GenerateItem) -> Option<String> + Send + Sync>;

/// The engine that answers an item.
pub(crate) type AnsweringEngine = Box<dyn Fn(&GenerateItem) -> &'static str + Send + Sync>;

#[derive(Default)]
pub(crate) struct FakeState {
    /// Items in the order of their arrival.
    pub(crate) seen: Mutex<Vec<GenerateItem>>,
    attempts: Mutex<BTreeMap<String, u32>>,
    pub(crate) script: Mutex<Option<Script>>,
    pub(crate) fates: Mutex<Option<Fates>>,
    /// Groups whose responses are all identical.
    pub(crate) identical: Mutex<Option<IdenticalResponses>>,
    pub(crate) answers: Mutex<Option<Answers>>,
    /// Without it one engine answers, named `fake`, as which all proofs are answered.
    pub(crate) engine: Mutex<Option<AnsweringEngine>>,
    /// Versions whose folders are gone.
    pub(crate) gone: Mutex<BTreeSet<u64>>,
    /// Longest delay of a response in milliseconds.
    pub(crate) max_delay_ms: AtomicU64,
    /// From this weights version on almost every response is correct; 0 is [`CERTAIN_FROM`].
    pub(crate) certain_from: AtomicU64,
    pub(crate) updates: AtomicU64,
    /// How often the engines were moved to each version.
    pub(crate) moves: Mutex<BTreeMap<u64, u32>>,
    /// All calls of Sleep.
    pub(crate) sleeps: Mutex<Vec<SleepLevel>>,
    /// The digest of the weights that the engine really has, whatever it says.
    digest: Mutex<String>,
    /// Whether it keeps them from now on.
    pub(crate) is_stuck: AtomicBool,
    /// A group of tensors that it keeps from now on, with the digest of the weights that it had it from first.
    pub(crate) stuck_group: Mutex<Option<(String, String)>>,
    /// Whether it computes the base alone from now on, whatever adapter it is given.
    pub(crate) answers_as_base: AtomicBool,
    /// What its log-probabilities of given tokens are off by, in thousandths.
    pub(crate) off_by: AtomicU64,
    /// Proofs that it took part in.
    pub(crate) proofs: AtomicU64,
    pub(crate) cannot_sleep: AtomicBool,
    timing: AtomicU64,
}

#[derive(Clone, Default)]
pub(crate) struct FakeGeneration {
    pub(crate) state: Arc<FakeState>,
    weights: Arc<Mutex<WeightsRef>>,
    /// Items that have been given weights and are not answered.
    begun: Arc<AtomicU64>,
    items: Option<ItemServer<GenerateItems>>,
}

/// An item that has been given weights, until it is answered.
struct Begun(Arc<AtomicU64>);

impl Begun {
    fn count(all: &Arc<AtomicU64>) -> Self {
        all.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(all))
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FakeGeneration {
    pub(crate) fn restarted(&self, drain: Drain) -> Self {
        let limits = ItemLimits {
            max_items: 10_000,
            max_memory: ItemLimits::DEFAULT_MEMORY,
            max_running: 10_000,
            grace: Duration::ZERO,
        };
        let state = Arc::clone(&self.state);
        let items = Some(ItemServer::new(limits, drain));
        Self { state, items, ..Self::default() }
    }

    fn queue(&self) -> QueueStatus {
        self.items.as_ref().unwrap().status()
    }

    /// Waits until every item that was accepted has been given weights, as the service serves them before it updates
    /// its engines.
    async fn until_all_begun(&self) {
        let accepted = |queue: QueueStatus| queue.queued_items + queue.running_items;
        while accepted(self.queue()) > self.begun.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// The text of ids of the character tokenizer.
pub(crate) fn text_of(ids: &[u32]) -> String {
    let character = |id: &u32| match id {
        2 => Some('\n'),
        3 => Some(' '),
        4..=97 => char::from_u32('!' as u32 + id - 4),
        _ => None,
    };
    ids.iter().filter_map(character).collect()
}

fn ids_of(text: &str) -> Vec<u32> {
    let id = |character: char| match character {
        '\n' => 2,
        ' ' => 3,
        visible => visible as u32 - '!' as u32 + 4,
    };
    text.chars().map(id).collect()
}

fn answer(item: &GenerateItem, weights: &WeightsRef, identical: bool, certain_from: u64) -> Vec<u32> {
    let prompt = text_of(&item.prompt_token_ids);
    let (a, b) = prompt.trim_end_matches(['=', '\n']).split_once('+').unwrap();
    let sum = a.parse::<u64>().unwrap() + b.parse::<u64>().unwrap();
    let sampling = item.sampling.as_ref().unwrap();
    let seed = if identical || sampling.temperature == Some(0.0) { 0 } else { sampling.seed.unwrap() };
    let draw = mix(seed ^ hash(&weights.digest) ^ hash(&prompt));
    let text = if draw % certain_from < weights.version.min(certain_from - 1) {
        format!("\\boxed{{{sum}}}")
    } else {
        format!("hmm{} \\boxed{{{}}}", ".".repeat((draw >> 32) as usize % 20), sum + 1)
    };
    let mut ids = ids_of(&text);
    ids.push(1);
    ids
}

/// Groups of tensors that the learner names.
pub(crate) const GROUPS: [&str; 3] = ["embeddings", "norms", "mlp"];

/// The log-probability of a token after another one under the weights of a digest, of which one group of tensors may be
/// that of another. They move a little with both.
pub(crate) fn score(digest: &str, other: Option<&(String, String)>, before: u32, id: u32) -> f32 {
    let share = |word: u64| (mix(word) >> 40) as f32 / (1_u64 << 24) as f32;
    let pair = u64::from(before) << 32 | u64::from(id);
    let of_group = |group: &str| {
        let digest = other.filter(|(other, _)| other == group).map_or(digest, |(_, digest)| digest);
        0.07 * share(pair ^ hash(digest) ^ hash(group))
    };
    -1.0 - 3.0 * share(pair) + GROUPS.iter().map(|group| of_group(group)).sum::<f32>()
}

/// What the engine says of a token that it sampled.
pub(crate) fn log_probability(id: u32) -> f32 {
    -0.01 * id as f32
}

/// The response of an item, begun by the first weights and ended by the last ones.
fn segments(before: Vec<Segment>, ids: &[u32], engine: &str, first: &WeightsRef, last: &WeightsRef) -> Vec<Segment> {
    let mut segments = before;
    let (begun, ended) = ids.split_at(if first.version == last.version { 0 } else { ids.len() / 2 });
    for (ids, version) in [(begun, first.version), (ended, last.version)] {
        let logps: Vec<f32> = ids.iter().map(|&id| log_probability(id)).collect();
        let sampled = Segment::sampled(ids.to_vec(), logps, version);
        append_sampled(&mut segments, Segment { engine: engine.to_owned(), ..sampled });
    }
    segments
}

async fn generate(
    state: Arc<FakeState>,
    current: Arc<Mutex<WeightsRef>>,
    begun: Arc<AtomicU64>,
    item: GenerateItem,
) -> Rollout {
    state.seen.lock().unwrap().push(item.clone());
    let attempt = {
        let mut attempts = state.attempts.lock().unwrap();
        let attempt = attempts.entry(item.sample_id.clone()).or_default();
        *attempt += 1;
        *attempt
    };
    let failed = |code: FailureCode| {
        let reason = if code == FailureCode::Cancelled { FinishReason::Cancelled } else { FinishReason::Failed };
        Rollout {
            sample_id: item.sample_id.clone(),
            finish_reason: reason.into(),
            failure: Some(Failure::new(code, "SCRIPTED", "as scripted")),
            ..Rollout::default()
        }
    };
    let scripted = state.script.lock().unwrap().as_ref().and_then(|script| script(&item.sample_id, attempt));
    if let Some(code) = scripted {
        return failed(code);
    }
    let weights = current.lock().unwrap().clone();
    let _begun = Begun::count(&begun);
    // Without a version the engines answer with whatever they have.
    if item.policy_version.is_some_and(|version| version != weights.version || weights.digest.is_empty()) {
        return failed(FailureCode::FailedPrecondition);
    }
    loop {
        let fate = state.fates.lock().unwrap().as_ref().map(|fates| fates(&item.sample_id, attempt));
        match fate {
            None | Some(Fate::Answered) => break,
            Some(Fate::Waits) => tokio::time::sleep(Duration::from_millis(1)).await,
            Some(Fate::Lost) => return failed(FailureCode::Unavailable),
        }
    }
    // The order is different in every run, so that a dependence on it shows.
    let max_delay = state.max_delay_ms.load(Ordering::Relaxed).max(5);
    let nonce = state.timing.fetch_add(1, Ordering::Relaxed) ^ std::process::id() as u64 ^ Arc::as_ptr(&state) as u64;
    tokio::time::sleep(Duration::from_millis(mix(nonce) % max_delay)).await;
    let identical = state.identical.lock().unwrap().as_ref().is_some_and(|identical| identical(&item.group_id));
    let certain_from = match state.certain_from.load(Ordering::Relaxed) {
        0 => CERTAIN_FROM,
        certain_from => certain_from,
    };
    let written = state.answers.lock().unwrap().as_ref().and_then(|answers| answers(&item));
    let ids = match written {
        Some(text) => ids_of(&text).into_iter().chain([1]).collect(),
        None => answer(&item, &weights, identical, certain_from),
    };
    // Of an answer that was begun it writes what is missing, which may be the end alone.
    let begun: usize = item.prefix_segments.iter().map(|segment| segment.token_ids.len()).sum();
    let ids = ids.get(begun..).filter(|rest| !rest.is_empty()).unwrap_or(&[1]);
    let most = item.sampling.as_ref().and_then(|sampling| sampling.max_tokens).unwrap() as usize;
    let cut = ids.len() > most;
    let ids = &ids[..ids.len().min(most)];
    let last = match item.policy_version {
        Some(_) => weights.clone(),
        None => current.lock().unwrap().clone(),
    };
    let engine = state.engine.lock().unwrap().as_ref().map_or("fake", |engine| engine(&item));
    Rollout {
        sample_id: item.sample_id.clone(),
        group_id: item.group_id.clone(),
        prompt_token_ids: item.prompt_token_ids.clone(),
        segments: segments(item.prefix_segments.clone(), ids, engine, &weights, &last),
        finish_reason: if cut { FinishReason::Length } else { FinishReason::Stop }.into(),
        log_probability_mode: LogProbabilityMode::Processed.into(),
        engine: engine.into(),
        attempts: 1,
        ..Rollout::default()
    }
}

#[tonic::async_trait]
impl Generation for FakeGeneration {
    type GenerateStream = ResponseStream<Rollout>;

    async fn generate(
        &self,
        request: Request<Streaming<GenerateRequest>>,
    ) -> Result<Response<Self::GenerateStream>, Status> {
        let state = Arc::clone(&self.state);
        let weights = Arc::clone(&self.weights);
        let begun = Arc::clone(&self.begun);
        let handler =
            move |item, _: ItemContext| generate(Arc::clone(&state), Arc::clone(&weights), Arc::clone(&begun), item);
        Ok(self.items.as_ref().unwrap().serve(request, handler))
    }

    async fn update_weights(
        &self,
        request: Request<UpdateWeightsRequest>,
    ) -> Result<Response<UpdateWeightsResponse>, Status> {
        let weights = request.into_inner().weights.unwrap();
        weights.validate().map_err(|error| Status::invalid_argument(error.to_string()))?;
        let version = weights.version;
        if self.state.gone.lock().unwrap().contains(&version) {
            let message = format!("weights.path.path is `{:?}`, which is not a folder here", weights.source);
            return Err(Status::invalid_argument(message));
        }
        self.until_all_begun().await;
        self.state.updates.fetch_add(1, Ordering::Relaxed);
        if !self.state.is_stuck.load(Ordering::Relaxed) {
            self.state.digest.lock().unwrap().clone_from(&weights.digest);
        }
        if let Some((_, digest)) = &mut *self.state.stuck_group.lock().unwrap()
            && digest.is_empty()
        {
            digest.clone_from(&weights.digest);
        }
        *self.weights.lock().unwrap() = weights;
        *self.state.moves.lock().unwrap().entry(version).or_default() += 1;
        let engine = EngineUpdate {
            engine: "fake".into(),
            outcome: EngineUpdateOutcome::Updated.into(),
            version: Some(version),
            resumed: true,
            ..EngineUpdate::default()
        };
        Ok(Response::new(UpdateWeightsResponse { version, engines: vec![engine] }))
    }

    async fn prove_weights(
        &self,
        request: Request<ProveWeightsRequest>,
    ) -> Result<Response<ProveWeightsResponse>, Status> {
        let request = request.into_inner();
        let weights = self.weights.lock().unwrap().clone();
        if request.version != Some(weights.version) {
            let message = format!("the version is {}", weights.version);
            return Err(ServiceError::Precondition { reason: Reason::VersionMismatch, message }.into());
        }
        self.state.proofs.fetch_add(1, Ordering::Relaxed);
        let digest = if self.state.answers_as_base.load(Ordering::Relaxed) {
            evenkeel_proto::BASE_GROUP.to_owned()
        } else {
            self.state.digest.lock().unwrap().clone()
        };
        let stuck = self.state.stuck_group.lock().unwrap().clone();
        let off = self.state.off_by.load(Ordering::Relaxed) as f32 / 1000.0;
        let scores = request.sequences.iter().map(|sequence| {
            let ids = &sequence.token_ids;
            let scores = (1..ids.len()).map(|at| score(&digest, stuck.as_ref(), ids[at - 1], ids[at]) + off).collect();
            let last = ids[ids.len() - 1];
            let sampled = 5;
            SequenceScores {
                log_probabilities: scores,
                sampled_token_id: sampled,
                sampled_log_probability: score(&digest, None, last, sampled),
            }
        });
        let engine = EngineProof { engine: "fake".into(), scores: scores.collect(), ..EngineProof::default() };
        Ok(Response::new(ProveWeightsResponse { engines: vec![engine] }))
    }

    async fn sleep(&self, request: Request<SleepRequest>) -> Result<Response<SleepResponse>, Status> {
        self.state.sleeps.lock().unwrap().push(request.into_inner().level());
        let failure = self
            .state
            .cannot_sleep
            .load(Ordering::Relaxed)
            .then(|| Failure::new(FailureCode::FailedPrecondition, "SLEEP_UNSUPPORTED", "it has no /sleep"));
        let engine = EngineSleep { engine: "fake".into(), asleep: failure.is_none(), failure, took_us: 1 };
        Ok(Response::new(SleepResponse { engines: vec![engine] }))
    }

    async fn wake_up(&self, _: Request<WakeUpRequest>) -> Result<Response<WakeUpResponse>, Status> {
        Ok(Response::new(WakeUpResponse::default()))
    }

    async fn get_status(
        &self,
        _: Request<GenerationGetStatusRequest>,
    ) -> Result<Response<GenerationGetStatusResponse>, Status> {
        let model = ModelInfo { vocabulary_size: 128, context_tokens: 512, ..ModelInfo::default() };
        let queue = Some(self.queue());
        let takes_adapters = true;
        Ok(Response::new(GenerationGetStatusResponse {
            model: Some(model),
            queue,
            takes_adapters,
            ..Default::default()
        }))
    }
}
