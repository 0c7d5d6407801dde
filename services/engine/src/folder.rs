//! A model's folder: its configuration, its tokenizer, and the tokens that end a sample.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use evenkeel_chat::end_tokens;
use evenkeel_host::arriving;
use evenkeel_model::folder::{AdapterBase, StoredAdapter};
use evenkeel_model::kernels::cpu::Cpu;
use evenkeel_model::{BaseWeights, Config, Decoder, ModelError};
use evenkeel_model_folder::{AdapterConfig, ConfigFile, Folder, name};

use crate::error::EngineError;
use crate::settings::EngineSettings;
use crate::text::Tokenizer;

/// A served model. The scheduler owns the weights.
pub(crate) struct Model {
    pub(crate) folder: PathBuf,
    pub(crate) name: String,
    pub(crate) config: Config,
    /// The longest sequence in tokens.
    pub(crate) context: usize,
    pub(crate) tokenizer: Option<Arc<Tokenizer>>,
    /// The tokenizer's end-of-sequence token: it ends a sample without a stop reason.
    pub(crate) end: Option<u32>,
    /// The identity of its weights, once an adapter belongs to them.
    identity: OnceLock<AdapterBase>,
    /// Further end tokens, of the model's files and of its chat template: each is reported as the stop reason.
    pub(crate) other_ends: Vec<u32>,
}

impl Model {
    /// Reads everything but the weights.
    pub(crate) fn load(settings: &EngineSettings) -> Result<Self, EngineError> {
        let folder = Folder::new(&settings.model);
        let file = ConfigFile::read(&folder)?;
        let config = Config::from_json(file.json()).map_err(EngineError::model(&settings.model))?;
        let tokenizer = evenkeel_model_folder::Tokenizer::read(&folder)?;
        if let Some(tokenizer) = &tokenizer {
            tokenizer.validate_vocabulary(file.vocab_size()?)?;
        }
        let ends = end_tokens(&folder, &file, tokenizer.as_ref())?;
        if let Some(token_id) = ends.template_alone() {
            tracing::info!(token_id, "samples also end at the end of a chat turn, which no eos_token_id names");
        }
        let tokenizer = tokenizer.map(|tokenizer| Arc::new(Tokenizer::new(tokenizer, config.vocab_size)));
        let context = context_tokens(settings, &config)?;
        Ok(Self {
            folder: settings.model.clone(),
            name: settings.model_name(),
            config,
            context,
            tokenizer,
            end: ends.tokenizer,
            identity: OnceLock::new(),
            other_ends: ends.others(),
        })
    }

    /// Reads weights of this model's shape for decoding, or an adapter beside the model itself.
    ///
    /// # Errors
    /// Missing or damaged files, a tensor of the wrong shape, a `config.json` of another model, or an adapter for
    /// another one.
    pub(crate) fn decoder(&self, folder: &Path) -> Result<Decoder, EngineError> {
        arriving::read_in_place(folder, |place| self.decoder_in(place))
    }

    fn decoder_in(&self, folder: &Path) -> Result<Decoder, EngineError> {
        if AdapterConfig::is_in(folder) {
            return self.decoder_beside(folder).map_err(EngineError::model(folder));
        }
        if folder != self.folder && folder.join(name::CONFIG).exists() {
            let (other, _) = Config::load(folder).map_err(EngineError::model(folder))?;
            // End tokens were read at the start and do not affect the computation.
            let other = Config { eos_token_ids: self.config.eos_token_ids.clone(), ..other };
            if other != self.config {
                let reason = format!("describes another model: {other:?}; the running one is {:?}", self.config);
                return Err(EngineError::file(folder.join(name::CONFIG), reason));
            }
        }
        self.decoder_of(folder).map_err(EngineError::model(folder))
    }

    fn decoder_of(&self, folder: &Path) -> Result<Decoder, ModelError> {
        // A learner in this process has the weights that it published, or the base of its adapters.
        let weights = BaseWeights::shared(folder, self.config.clone())?;
        // One thread: the scheduler itself distributes sequences over threads.
        Decoder::of(weights, Cpu::new()?, 1)
    }

    /// The model itself with an adapter.
    fn decoder_beside(&self, adapter: &Path) -> Result<Decoder, ModelError> {
        let adapter = StoredAdapter::open(adapter, &self.config)?;
        if adapter.base().digest.is_some() {
            self.identity()?.validate(&adapter)?;
        }
        let base = BaseWeights::shared(&self.folder, self.config.clone())?;
        Decoder::beside(base, &adapter, Cpu::new()?, 1)
    }

    /// Which weights this model has. Reads them, the first time.
    fn identity(&self) -> Result<&AdapterBase, ModelError> {
        if let Some(known) = self.identity.get() {
            return Ok(known);
        }
        let read = AdapterBase::of_folder(&self.folder)?;
        Ok(self.identity.get_or_init(|| read))
    }
}

/// The longest sequence, which must fit in the cache.
///
/// # Errors
/// A context that is longer than the model's, or than the cache.
pub fn context_tokens(settings: &EngineSettings, config: &Config) -> Result<usize, EngineError> {
    let longest = config.max_position_embeddings;
    let context = settings.max_model_len.unwrap_or(longest);
    let wrong = |field: &str, value: usize, allowed: String| evenkeel_errors::FieldError::new(field, value, allowed);
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
