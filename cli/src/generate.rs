//! `evenkeel generate`: what a model answers to a prompt, on the embedded engine.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use evenkeel_chat::Prompt;
use evenkeel_engine::{Engine, EngineSettings};
use evenkeel_generation::{GenerationSettings, LogProbabilitySetting};
use evenkeel_model_folder::{ConfigFile, Folder};
use evenkeel_orchestrator::{DataSettings, Tokenizer};
use evenkeel_proto::v1::generation_client::GenerationClient;
use evenkeel_proto::v1::{FinishReason, GenerateItem, GenerateRequest, generate_request};
use evenkeel_proto::{FieldError, SamplingSettings};
use evenkeel_rpc::client::{ClientSettings, Connector, ServerAddress};
use evenkeel_rpc::server::ServerSettings;
use evenkeel_run::RUN_FILE;

use crate::arguments::GenerateOptions;
use crate::terminal::{note, print_result};

/// Any free port on loopback.
const LOOPBACK: &str = "127.0.0.1:0";
/// Longest prompt on standard input.
const MAX_PROMPT: u64 = 16 << 20;

pub(crate) async fn generate(options: GenerateOptions) -> Result<ExitCode> {
    let model = &crate::hub::folder("MODEL", &options.model)?;
    refuse_run(model)?;
    let folder = Folder::new(model);
    let context = ConfigFile::read(&folder)?.max_position_embeddings()? as usize;
    let data = DataSettings { raw: options.raw, system_prompt: options.system.clone(), ..DataSettings::default() };
    let rendered = data.prompt_renderer(&folder)?.render(&Prompt::Text(prompt(&options.prompt)?))?;
    let prompt_tokens = rendered.token_ids.len();
    let most = options.max_tokens as usize;
    if prompt_tokens + most > context {
        let allowed = format!("at most {}, the model's context less the prompt", context.saturating_sub(prompt_tokens));
        return Err(FieldError::new("--max-tokens", most, allowed).into());
    }

    let usual = EngineSettings::default();
    let context = context.min(usual.kv_cache_tokens.max(prompt_tokens + most));
    let engine = EngineSettings {
        model: model.clone(),
        listen: LOOPBACK.to_owned(),
        max_model_len: Some(context),
        kv_cache_tokens: usual.kv_cache_tokens.max(context),
        ..usual
    };
    let engine = Engine::start(engine).await.context("the engine")?;
    let generation = GenerationSettings {
        server: ServerSettings::on(LOOPBACK),
        endpoints: vec![engine.endpoint()],
        // Nothing is trained on them.
        log_probabilities: LogProbabilitySetting::Raw,
        ..GenerationSettings::default()
    };
    let server = evenkeel_generation::bind(generation).await.context("the generation service")?.spawn();
    let connector = Connector::new("--", ClientSettings::default())?;
    let channel = connector.connect(&ServerAddress::new(server.endpoint())).await?;

    let tokenizer = Tokenizer::load(model)?;
    let sampling = SamplingSettings {
        temperature: options.temperature,
        stop_token_ids: tokenizer.end_of_turn().into_iter().collect(),
        ..SamplingSettings::plain(options.max_tokens, options.seed)
    };
    let item = GenerateItem {
        sample_id: "generate".to_owned(),
        prompt_token_ids: rendered.token_ids,
        sampling: Some(sampling.into()),
        ..GenerateItem::default()
    };
    let request = GenerateRequest { kind: Some(generate_request::Kind::Item(item)) };
    let mut answers = GenerationClient::new(channel).generate(tokio_stream::once(request)).await?.into_inner();
    let Some(rollout) = answers.message().await? else { bail!("the engine gave no answer") };
    let ids: Vec<u32> = rollout.segments.iter().flat_map(|segment| segment.token_ids.iter().copied()).collect();
    print_result(&(tokenizer.decode(&ids)? + "\n"))?;
    match rollout.finish_reason() {
        FinishReason::Stop => {}
        FinishReason::Length => note(&format!("cut off after {} tokens (--max-tokens)", ids.len())),
        other => bail!("the answer ended as {}: {:?}", other.as_str_name(), rollout.failure),
    }
    Ok(ExitCode::SUCCESS)
}

/// The directory of a run is no model, though it holds some.
pub(crate) fn refuse_run(model: &Path) -> Result<(), FieldError> {
    if model.join(RUN_FILE).exists() {
        let allowed = format!(
            "a model: what `evenkeel export {0} --to FOLDER` writes, or a folder {0}/weights/step-N",
            model.display()
        );
        Err(FieldError::new("the model", format!("{}, a run", model.display()), allowed))
    } else {
        Ok(())
    }
}

/// The argument, or standard input for `-`.
fn prompt(argument: &str) -> Result<String> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut text = String::new();
    std::io::stdin().take(MAX_PROMPT).read_to_string(&mut text).context("PROMPT from standard input")?;
    Ok(text)
}
