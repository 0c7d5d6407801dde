//! vLLM over HTTP, and whatever speaks as it does: `/v1/completions` with token ids for samples, its development routes
//! (`VLLM_SERVER_DEV_MODE=1`) for weights.

mod answer;
mod client;
mod control;
mod frames;
mod http;
mod metrics;
mod probe;
mod request;
mod stream;

pub(crate) use client::{Connects, Files};

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use evenkeel_proto::v1::SleepLevel;
use evenkeel_rpc::client::Target as Address;
use tokio::sync::RwLock;

use super::{Boxed, Demand, Draw, Ending, Engine, EngineError, EngineInfo, EnginePause, Tokens, Wake, believe};
use crate::settings::GenerationConfig;
use http::Http;

/// Where samples are asked for.
const COMPLETIONS: &str = "/v1/completions";

/// One vLLM server.
pub(crate) struct VllmEngine {
    endpoint: String,
    /// For samples. Their connections are counted.
    samples: Http,
    /// For everything else, so that a full pool of samples does not hold up a question about health.
    control: Http,
    connects: Connects,
    /// Name of the model, once the engine was probed.
    model: RwLock<Arc<str>>,
    wanted_model: Option<String>,
    control_timeout: Duration,
    /// Taking memory back may take as long as a change of weights, and is waited for outside of any call's deadline.
    wake_timeout: Duration,
    /// It was found paused or asleep once: its weights may be half changed, or none.
    found_paused: AtomicBool,
    max_answer_bytes: usize,
}

impl VllmEngine {
    /// The engine at `address`; nothing is sent yet.
    pub(crate) fn new(address: &Address, config: &GenerationConfig, files: &Files) -> Result<Self, EngineError> {
        let connects = Connects::default();
        let (base, samples) = files.client(&config.engine, address, Some(connects.clone()))?;
        let (_, control) = files.client(&config.engine, address, None)?;
        Ok(Self {
            samples: Http::new(&base, samples),
            control: Http::new(&base, control),
            endpoint: address.url.clone(),
            connects,
            model: RwLock::new(config.model.as_deref().unwrap_or_default().into()),
            wanted_model: config.model.clone(),
            control_timeout: Duration::from_millis(config.engine.control_timeout_ms),
            wake_timeout: Duration::from_millis(config.weights.update_timeout_ms),
            found_paused: AtomicBool::new(false),
            max_answer_bytes: config.max_answer_bytes,
        })
    }

    async fn draw(&self, draw: Draw<'_>, tokens: &mut Tokens) -> Result<Ending, EngineError> {
        let model = Arc::clone(&*self.model.read().await);
        let body = request::body(&model, &draw);
        let mut response = self.samples.post_json(COMPLETIONS, body, draw.traceparent).await?;
        let ending = if draw.stream {
            stream::read(&mut response, &draw, self.max_answer_bytes, tokens).await?
        } else {
            let bytes = http::read_all(COMPLETIONS, &mut response, self.max_answer_bytes).await?;
            answer::parse(&bytes, draw.token_ids, tokens)?
        };
        believe(tokens, ending, &draw)?;
        Ok(ending)
    }
}

impl Engine for VllmEngine {
    fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn connections(&self) -> u64 {
        self.connects.count()
    }

    fn probe(&self) -> Boxed<'_, EngineInfo> {
        Box::pin(self.find_out())
    }

    fn health(&self) -> Boxed<'_, ()> {
        Box::pin(self.check_health())
    }

    fn demand(&self) -> Boxed<'_, Option<Demand>> {
        Box::pin(self.read_metrics())
    }

    fn samples(&self) -> Boxed<'_, ()> {
        Box::pin(async { self.tiny_sample().await.map(drop) })
    }

    fn sample<'a>(&'a self, draw: Draw<'a>, tokens: &'a mut Tokens) -> Boxed<'a, Ending> {
        Box::pin(self.draw(draw, tokens))
    }

    fn weights(&self) -> Boxed<'_, Option<String>> {
        Box::pin(self.weight_info())
    }

    fn pause(&self, mode: EnginePause, clear_cache: bool) -> Boxed<'_, ()> {
        Box::pin(self.post_pause(mode, clear_cache))
    }

    fn load<'a>(&'a self, path: &'a str) -> Boxed<'a, ()> {
        Box::pin(self.reload_weights(path))
    }

    fn name_weights<'a>(&'a self, label: &'a str) -> Boxed<'a, bool> {
        Box::pin(self.update_weight_version(label))
    }

    fn resume(&self) -> Boxed<'_, ()> {
        Box::pin(self.post_resume())
    }

    fn sleep(&self, level: SleepLevel) -> Boxed<'_, ()> {
        Box::pin(self.post_sleep(level))
    }

    fn wake(&self, what: Wake) -> Boxed<'_, ()> {
        Box::pin(self.post_wake_up(what))
    }
}
