//! A model that this process asks something: the embedded engine behind a generation service.

use std::path::Path;

use anyhow::{Context, Result};
use evenkeel_engine::{Engine, EngineSettings, RunningEngine};
use evenkeel_generation::{GenerationSettings, LogProbabilitySetting};
use evenkeel_orchestrator::Tokenizer;
use evenkeel_proto::SamplingSettings;
use evenkeel_proto::v1::generation_client::GenerationClient;
use evenkeel_proto::v1::{GenerateItem, GenerateRequest, Rollout, generate_request};
use evenkeel_rpc::client::{ClientChannel, ClientSettings, Connector, ServerAddress};
use evenkeel_rpc::server::{RunningServer, ServerSettings};

/// The model with its services, which end with it.
pub(crate) struct LocalModel {
    pub(crate) tokenizer: Tokenizer,
    client: GenerationClient<ClientChannel>,
    _server: RunningServer,
    _engine: RunningEngine,
}

/// A prompt, and how its answer is drawn.
pub(crate) struct Asked {
    pub(crate) prompt: Vec<u32>,
    pub(crate) temperature: f32,
    pub(crate) max_tokens: u32,
    pub(crate) seed: u64,
}

impl LocalModel {
    /// Loads a model for a prompt and an answer of so many tokens together, of `context` that it takes.
    pub(crate) async fn start(model: &Path, needed: usize, context: usize) -> Result<Self> {
        let usual = EngineSettings::default();
        let context = context.min(usual.kv_cache_tokens.max(needed));
        let engine = EngineSettings {
            max_model_len: Some(context),
            kv_cache_tokens: usual.kv_cache_tokens.max(context),
            ..usual.private(model)
        };
        let engine = Engine::start(engine).await.context("the engine")?;
        let generation = GenerationSettings {
            server: ServerSettings::private(),
            endpoints: vec![engine.endpoint()],
            // Nothing is trained on them.
            log_probabilities: LogProbabilitySetting::Raw,
            ..GenerationSettings::default()
        };
        let server = evenkeel_generation::bind(generation).await.context("the generation service")?.spawn();
        let connector = Connector::new("--", ClientSettings::default())?;
        let channel = connector.connect(&ServerAddress::new(server.endpoint())).await?;
        let tokenizer = Tokenizer::load(model)?;
        Ok(Self { tokenizer, client: GenerationClient::new(channel), _server: server, _engine: engine })
    }

    /// Asks all of these at once, and hands on the answers as they end.
    pub(crate) async fn ask(&mut self, asked: Vec<Asked>, mut hand_on: impl FnMut(Rollout)) -> Result<()> {
        let stop_token_ids: Vec<u32> = self.tokenizer.end_of_turn().into_iter().collect();
        let request = |(number, asked): (usize, Asked)| {
            let sampling = SamplingSettings {
                temperature: asked.temperature,
                stop_token_ids: stop_token_ids.clone(),
                ..SamplingSettings::plain(asked.max_tokens, asked.seed)
            };
            let item = GenerateItem {
                sample_id: format!("asked-{number}"),
                prompt_token_ids: asked.prompt,
                sampling: Some(sampling.into()),
                ..GenerateItem::default()
            };
            GenerateRequest { kind: Some(generate_request::Kind::Item(item)) }
        };
        let requests: Vec<GenerateRequest> = asked.into_iter().enumerate().map(request).collect();
        let mut answers = self.client.generate(tokio_stream::iter(requests)).await?.into_inner();
        while let Some(rollout) = answers.message().await? {
            hand_on(rollout);
        }
        Ok(())
    }
}

/// The tokens of an answer.
pub(crate) fn tokens(rollout: &Rollout) -> Vec<u32> {
    rollout.segments.iter().flat_map(|segment| segment.token_ids.iter().copied()).collect()
}
