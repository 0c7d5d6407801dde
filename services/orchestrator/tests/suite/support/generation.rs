//! A generation service whose answers follow from seed, prompt and weights, and whose timing follows from nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_proto::v1::generation_server::Generation;
use evenkeel_proto::v1::{
    EngineSleep, EngineUpdate, EngineUpdateOutcome, Failure, FailureCode, FinishReason, GenerateItem, GenerateRequest,
    GenerationGetStatusRequest, GenerationGetStatusResponse, LogProbabilityMode, ModelInfo, Rollout, Segment,
    SleepLevel, SleepRequest, SleepResponse, UpdateWeightsRequest, UpdateWeightsResponse, WakeUpRequest,
    WakeUpResponse, WeightsRef,
};
use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::items::{AnswerStream, GenerateItems, ItemContext, ItemLimits, ItemServer};
use evenkeel_rpc::server::Drain;
use tonic::{Request, Response, Status, Streaming};

use super::{hash, mix};

/// What becomes of an item before it is answered, by its id and how often it was begun.
pub(crate) type Script = Box<dyn Fn(&str, u32) -> Option<FailureCode> + Send + Sync>;

/// Almost sure of everything from this version on, where a test does not say otherwise.
const SURE: u64 = 12;

/// Whether all answers of a group are the same, by its id.
pub(crate) type Blank = Box<dyn Fn(&str) -> bool + Send + Sync>;

#[derive(Default)]
pub(crate) struct World {
    /// Items in the order in which they came.
    pub(crate) seen: Mutex<Vec<GenerateItem>>,
    begun: Mutex<BTreeMap<String, u32>>,
    pub(crate) script: Mutex<Option<Script>>,
    /// Every answer of a prompt is the same where this says so.
    pub(crate) blank: Mutex<Option<Blank>>,
    /// Longest time of an answer.
    pub(crate) slowness_ms: AtomicU64,
    /// Almost sure of everything from this version on; 0 is 12.
    pub(crate) sure: AtomicU64,
    pub(crate) updates: AtomicU64,
    /// Every time that engines were put to sleep.
    pub(crate) sleeps: Mutex<Vec<SleepLevel>>,
    /// They cannot sleep.
    pub(crate) sleepless: AtomicBool,
    timing: AtomicU64,
}

#[derive(Clone, Default)]
pub(crate) struct FakeGeneration {
    pub(crate) world: Arc<World>,
    weights: Arc<Mutex<WeightsRef>>,
    items: Option<ItemServer<GenerateItems>>,
}

impl FakeGeneration {
    pub(crate) fn fresh(&self, drain: Drain) -> Self {
        let limits = ItemLimits {
            max_items: 10_000,
            max_memory: ItemLimits::DEFAULT_MEMORY,
            max_running: 10_000,
            grace: Duration::ZERO,
        };
        Self { world: Arc::clone(&self.world), weights: Arc::default(), items: Some(ItemServer::new(limits, drain)) }
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

fn answer(item: &GenerateItem, weights: &WeightsRef, blank: bool, sure: u64) -> Vec<u32> {
    let prompt = text_of(&item.prompt_token_ids);
    let (a, b) = prompt.trim_end_matches("=\n").split_once('+').unwrap();
    let sum = a.parse::<u64>().unwrap() + b.parse::<u64>().unwrap();
    let sampling = item.sampling.as_ref().unwrap();
    let seed = if blank || sampling.temperature == Some(0.0) { 0 } else { sampling.seed.unwrap() };
    let luck = mix(seed ^ hash(&weights.digest) ^ hash(&prompt));
    let text = match luck % sure < weights.version.min(sure - 1) {
        true => format!("\\boxed{{{sum}}}"),
        false => format!("hmm{} \\boxed{{{}}}", ".".repeat((luck >> 32) as usize % 20), sum + 1),
    };
    let mut ids = ids_of(&text);
    ids.push(1);
    ids
}

async fn generate(world: Arc<World>, weights: WeightsRef, item: GenerateItem, _: ItemContext) -> Rollout {
    world.seen.lock().unwrap().push(item.clone());
    let times = {
        let mut begun = world.begun.lock().unwrap();
        let times = begun.entry(item.sample_id.clone()).or_default();
        *times += 1;
        *times
    };
    let failed = |code: FailureCode| {
        let reason = if code == FailureCode::Cancelled { FinishReason::Cancelled } else { FinishReason::Failed };
        Rollout {
            sample_id: item.sample_id.clone(),
            finish_reason: reason.into(),
            failure: Some(Failure::new(code, "AS_TOLD", "as the script wants it")),
            ..Rollout::default()
        }
    };
    let told = world.script.lock().unwrap().as_ref().and_then(|script| script(&item.sample_id, times));
    if let Some(code) = told {
        return failed(code);
    }
    if item.policy_version != Some(weights.version) || weights.digest.is_empty() {
        return failed(FailureCode::FailedPrecondition);
    }
    // Another order in every run: whatever depends on it shows.
    let slowness = world.slowness_ms.load(Ordering::Relaxed).max(5);
    let nonce = world.timing.fetch_add(1, Ordering::Relaxed) ^ std::process::id() as u64 ^ Arc::as_ptr(&world) as u64;
    tokio::time::sleep(Duration::from_millis(mix(nonce) % slowness)).await;
    let blank = world.blank.lock().unwrap().as_ref().is_some_and(|blank| blank(&item.group_id));
    let sure = match world.sure.load(Ordering::Relaxed) {
        0 => SURE,
        sure => sure,
    };
    let ids = answer(&item, &weights, blank, sure);
    let most = item.sampling.as_ref().and_then(|sampling| sampling.max_tokens).unwrap() as usize;
    let cut = ids.len() > most;
    let ids = ids[..ids.len().min(most)].to_vec();
    let logps = ids.iter().map(|&id| -0.01 * id as f32).collect();
    Rollout {
        sample_id: item.sample_id.clone(),
        group_id: item.group_id.clone(),
        prompt_token_ids: item.prompt_token_ids.clone(),
        segments: vec![Segment::sampled(ids, logps, weights.version)],
        finish_reason: if cut { FinishReason::Length } else { FinishReason::Stop }.into(),
        log_probability_mode: LogProbabilityMode::Processed.into(),
        engine: "fake".into(),
        attempts: 1,
        ..Rollout::default()
    }
}

#[tonic::async_trait]
impl Generation for FakeGeneration {
    type GenerateStream = AnswerStream<Rollout>;

    async fn generate(
        &self,
        request: Request<Streaming<GenerateRequest>>,
    ) -> Result<Response<Self::GenerateStream>, Status> {
        let call = Deadline::of_call(request.metadata());
        let (world, weights) = (Arc::clone(&self.world), Arc::clone(&self.weights));
        let handler = move |item, context| generate(Arc::clone(&world), weights.lock().unwrap().clone(), item, context);
        Ok(Response::new(self.items.as_ref().unwrap().serve(request.into_inner(), call, handler)))
    }

    async fn update_weights(
        &self,
        request: Request<UpdateWeightsRequest>,
    ) -> Result<Response<UpdateWeightsResponse>, Status> {
        let weights = request.into_inner().weights.unwrap();
        weights.check().map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.world.updates.fetch_add(1, Ordering::Relaxed);
        let version = weights.version;
        *self.weights.lock().unwrap() = weights;
        let engine = EngineUpdate {
            engine: "fake".into(),
            outcome: EngineUpdateOutcome::Updated.into(),
            version: Some(version),
            resumed: true,
            ..EngineUpdate::default()
        };
        Ok(Response::new(UpdateWeightsResponse { version, engines: vec![engine] }))
    }

    async fn sleep(&self, request: Request<SleepRequest>) -> Result<Response<SleepResponse>, Status> {
        self.world.sleeps.lock().unwrap().push(request.into_inner().level());
        let failure = self
            .world
            .sleepless
            .load(Ordering::Relaxed)
            .then(|| Failure::new(FailureCode::FailedPrecondition, "NO_SLEEP", "it has no /sleep"));
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
        let model = ModelInfo { vocabulary_size: 128, context_tokens: 128, ..ModelInfo::default() };
        Ok(Response::new(GenerationGetStatusResponse { model: Some(model), ..Default::default() }))
    }
}
