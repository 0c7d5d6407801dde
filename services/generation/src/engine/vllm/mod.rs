//! vLLM over HTTP, and servers compatible with it: `/v1/completions` with token ids for samples, its development routes
//! (`VLLM_SERVER_DEV_MODE=1`) for weights.

mod adapters;
mod answer;
mod control;
mod extension;
mod frames;
mod metrics;
mod probe;
mod request;
mod score;
mod stream;

pub use extension::WORKER_EXTENSION;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use evenkeel_proto::v1::SleepLevel;
use evenkeel_rpc::client::ServerAddress;
use tokio::sync::RwLock;

use super::http::{self, ConnectionCounter, Http, HttpFiles};
use super::{
    Boxed, EngineClient, EngineClientError, EngineInfo, EngineMetrics, EnginePause, EngineProtocol, NamedAdapter,
    SampleOutcome, SampleRequest, SampledTokens, ScoreRequest, SequenceScore, WakeTarget, WorkerTensors, validate,
};
use crate::settings::GenerationSettings;

pub(super) const PROTOCOL: EngineProtocol = EngineProtocol {
    name: "vllm",
    open: |settings| {
        let files = HttpFiles::read(settings)?;
        let settings = settings.clone();
        Ok(Box::new(move |address| Ok(Box::new(VllmClient::new(address, &settings, &files)?))))
    },
};

/// The route for samples.
const COMPLETIONS: &str = "/v1/completions";

/// A client of one vLLM server.
struct VllmClient {
    endpoint: String,
    /// Client for samples. Connections are counted.
    samples: Http,
    /// For everything else, so that a pool full of samples does not delay health checks.
    control: Http,
    connections: ConnectionCounter,
    /// Name of the model, known once the engine was probed.
    model: RwLock<Arc<str>>,
    wanted_model: Option<String>,
    control_timeout: Duration,
    /// How many times the usual time scoring may take: doubled where it did not suffice.
    score_timeout_factor: AtomicU32,
    /// Waking up may take as long as a weight update, and no call's deadline covers it.
    wake_timeout: Duration,
    /// A probe found it paused or asleep: its weights may be half changed or gone.
    found_paused: AtomicBool,
    /// Bytes of the longest response.
    max_answer: usize,
}

impl VllmClient {
    /// A client of the engine at `address`. Sends nothing yet.
    fn new(
        address: &ServerAddress,
        settings: &GenerationSettings,
        files: &HttpFiles,
    ) -> Result<Self, EngineClientError> {
        let connections = ConnectionCounter::default();
        let (base, samples) = files.client(&settings.engine, address, Some(connections.clone()))?;
        let (_, control) = files.client(&settings.engine, address, None)?;
        Ok(Self {
            samples: Http::new(&base, samples, files.key()),
            control: Http::new(&base, control, files.key()),
            endpoint: address.url.clone(),
            connections,
            model: RwLock::new(settings.model.as_deref().unwrap_or_default().into()),
            wanted_model: settings.model.clone(),
            control_timeout: settings.engine.control_timeout,
            score_timeout_factor: AtomicU32::new(1),
            wake_timeout: settings.weights.update_timeout,
            found_paused: AtomicBool::new(false),
            max_answer: settings.max_answer.bytes_usize(),
        })
    }

    async fn draw(
        &self,
        request: SampleRequest<'_>,
        tokens: &mut SampledTokens,
    ) -> Result<SampleOutcome, EngineClientError> {
        let model = Arc::clone(&*self.model.read().await);
        let body = request::body(request.adapter.unwrap_or(&model), &request);
        let response = self.samples.post_json(COMPLETIONS, body, request.traceparent).await;
        let mut response = response.map_err(|error| adapters::lost(error, request.adapter))?;
        let outcome = if request.stream {
            stream::read(&mut response, &request, self.max_answer, tokens).await?
        } else {
            let bytes = http::read_all(COMPLETIONS, &mut response, self.max_answer).await?;
            answer::parse(&bytes, request.token_ids, tokens)?
        };
        validate(tokens, outcome, &request)?;
        Ok(outcome)
    }
}

impl EngineClient for VllmClient {
    fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn connections(&self) -> u64 {
        self.connections.count()
    }

    fn probe(&self) -> Boxed<'_, EngineInfo> {
        Box::pin(self.run_probe())
    }

    fn health(&self) -> Boxed<'_, ()> {
        Box::pin(self.check_health())
    }

    fn metrics(&self) -> Boxed<'_, Option<EngineMetrics>> {
        Box::pin(self.read_metrics())
    }

    fn check_sampling(&self) -> Boxed<'_, ()> {
        Box::pin(async { self.tiny_sample().await.map(drop) })
    }

    fn sample<'a>(&'a self, request: SampleRequest<'a>, tokens: &'a mut SampledTokens) -> Boxed<'a, SampleOutcome> {
        Box::pin(self.draw(request, tokens))
    }

    fn score<'a>(&'a self, request: ScoreRequest<'a>) -> Boxed<'a, Vec<SequenceScore>> {
        Box::pin(self.score_sequences(request))
    }

    fn tensors(&self) -> Boxed<'_, Vec<WorkerTensors>> {
        Box::pin(self.worker_tensors())
    }

    fn weights_label(&self) -> Boxed<'_, Option<String>> {
        Box::pin(self.weight_info())
    }

    fn pause(&self, mode: EnginePause, clear_cache: bool) -> Boxed<'_, ()> {
        Box::pin(self.post_pause(mode, clear_cache))
    }

    fn load_weights<'a>(&'a self, path: &'a str) -> Boxed<'a, ()> {
        Box::pin(self.reload_weights(path))
    }

    fn adapters(&self) -> Boxed<'_, Vec<NamedAdapter>> {
        Box::pin(self.list_adapters())
    }

    fn load_adapter<'a>(&'a self, name: &'a str, path: &'a str) -> Boxed<'a, ()> {
        Box::pin(self.post_load_adapter(name, path))
    }

    fn unload_adapter<'a>(&'a self, name: &'a str) -> Boxed<'a, ()> {
        Box::pin(self.post_unload_adapter(name))
    }

    fn set_weights_label<'a>(&'a self, label: &'a str) -> Boxed<'a, bool> {
        Box::pin(self.update_weight_version(label))
    }

    fn resume(&self) -> Boxed<'_, ()> {
        Box::pin(self.post_resume())
    }

    fn sleep(&self, level: SleepLevel) -> Boxed<'_, ()> {
        Box::pin(self.post_sleep(level))
    }

    fn wake(&self, target: WakeTarget) -> Boxed<'_, ()> {
        Box::pin(self.post_wake_up(target))
    }
}
