//! A model's folder: its configuration, its tokenizer, and the tokens that end a sample.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::Device;
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::{Config, Decoder, folder::load_parameters};
use serde_json::Value;

use crate::error::EngineError;
use crate::settings::EngineConfig;
use crate::text::{Tokenizer, end_token};

/// A served model. Its weights belong to the scheduler.
pub(crate) struct Model {
    pub(crate) folder: PathBuf,
    pub(crate) name: String,
    pub(crate) config: Config,
    /// The longest sequence in tokens.
    pub(crate) context: usize,
    pub(crate) tokenizer: Option<Arc<Tokenizer>>,
    /// The tokenizer's end of sequence: it ends a sample without a stop reason.
    pub(crate) end: Option<u32>,
    /// Further end tokens in the model's files: each is the stop reason of the samples that it ends.
    pub(crate) other_ends: Vec<u32>,
}

impl Model {
    /// Reads everything but the weights.
    pub(crate) fn load(settings: &EngineConfig) -> Result<Self, EngineError> {
        let folder = settings.model.clone();
        let (config, _) = Config::load(&folder).map_err(EngineError::model(&folder))?;
        let tokenizer_path = folder.join("tokenizer.json");
        let tokenizer = match tokenizer_path.exists() {
            true => Some(Arc::new(Tokenizer::load(&tokenizer_path, config.vocab_size)?)),
            false => None,
        };
        let end = tokenizer.as_deref().map(|tokenizer| end_of(&folder, tokenizer)).transpose()?.flatten();
        let mut other_ends = match optional_json(&folder.join("generation_config.json"))? {
            Some(json) => ends(&folder.join("generation_config.json"), &json, config.vocab_size)?,
            None => None,
        }
        .unwrap_or_else(|| config.eos_token_ids.clone());
        other_ends.retain(|&id| Some(id) != end);
        let context = context(settings, &config)?;
        Ok(Self { folder, name: settings.model_name(), config, context, tokenizer, end, other_ends })
    }

    /// Reads weights of this model's shape for decoding.
    ///
    /// # Errors
    /// Missing or broken files, a tensor of another shape, or a `config.json` beside them that describes another model.
    pub(crate) fn decoder(&self, folder: &Path) -> Result<Decoder, EngineError> {
        if folder != self.folder && folder.join("config.json").exists() {
            let (other, _) = Config::load(folder).map_err(EngineError::model(folder))?;
            // End tokens were read at the start and do not affect what the weights compute.
            let other = Config { eos_token_ids: self.config.eos_token_ids.clone(), ..other };
            if other != self.config {
                let reason = format!("describes another model: {other:?}; the running one is {:?}", self.config);
                return Err(EngineError::file(folder.join("config.json"), reason));
            }
        }
        let parameters = load_parameters(folder, &self.config, &Device::Cpu).map_err(EngineError::model(folder))?;
        let kernels = Cpu::new().map_err(EngineError::model(folder))?;
        // One thread: the scheduler itself distributes sequences over threads.
        Decoder::new(self.config.clone(), &parameters, kernels, 1).map_err(EngineError::model(folder))
    }
}

/// The longest sequence, which must fit in the cache.
fn context(settings: &EngineConfig, config: &Config) -> Result<usize, EngineError> {
    let longest = config.max_position_embeddings;
    let context = settings.max_model_len.unwrap_or(longest);
    let wrong = |field: &str, value: usize, allowed: String| evenkeel_proto::FieldError::new(field, value, allowed);
    if context > longest {
        let allowed = format!("at most max_position_embeddings = {longest} of {}", settings.model.display());
        return Err(wrong("max_model_len", context, allowed).into());
    }
    if settings.kv_cache_tokens < context {
        let allowed = format!("at least the context of {context} tokens (or max_model_len set lower)");
        return Err(wrong("kv_cache_tokens", settings.kv_cache_tokens, allowed).into());
    }
    Ok(context)
}

fn optional_json(path: &Path) -> Result<Option<Value>, EngineError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(EngineError::file(path, error.to_string())),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| EngineError::file(path, format!("is not JSON: {error}")))
}

fn end_of(folder: &Path, tokenizer: &Tokenizer) -> Result<Option<u32>, EngineError> {
    let path = folder.join("tokenizer_config.json");
    let Some(json) = optional_json(&path)? else {
        return Ok(None);
    };
    let Some(token) = end_token(&json) else {
        return Ok(None);
    };
    let id = tokenizer.id(token);
    id.map(Some)
        .ok_or_else(|| EngineError::file(path, format!("`eos_token` is {token:?}, which tokenizer.json does not have")))
}

fn ends(path: &Path, json: &Value, vocabulary: usize) -> Result<Option<Vec<u32>>, EngineError> {
    let found = match json.get("eos_token_id") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(ids)) => ids.clone(),
        Some(one) => vec![one.clone()],
    };
    let id = |value: &Value| {
        let id = value.as_u64().filter(|&id| id < vocabulary as u64).map(|id| id as u32);
        let reason =
            format!("`eos_token_id` is {value}, allowed are ids from 0 to vocab_size - 1 = {}", vocabulary - 1);
        id.ok_or_else(|| EngineError::file(path, reason))
    };
    found.iter().map(id).collect::<Result<_, _>>().map(Some)
}
