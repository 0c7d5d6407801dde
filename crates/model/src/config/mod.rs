//! What a dense decoder is made of, read from and written to a Hugging Face `config.json`.
//!
//! A model is its sizes and capabilities, as transformers' configurations have them; its [`Architecture`] only says how
//! its files are to be read. [`Config::from_json`] accepts exactly what this crate computes and refuses everything else
//! by name (`unsupported.rs`): an almost right model trains wrong without any error.

mod architecture;
mod capabilities;
mod fields;
mod llama;
mod mapping;
mod mistral;
mod names;
mod qwen2;
mod qwen3;
mod read;
mod rope;
mod smollm3;
mod unsupported;
mod window;

use std::fmt::Display;
use std::path::Path;

use evenkeel_errors::FieldError;
use evenkeel_model_folder::{ConfigFile, Folder};
use serde_json::{Value, json};

use crate::error::{ModelError, Result};
pub use architecture::Architecture;
pub use capabilities::Biases;
pub use rope::{Rope, RopeScaling, Yarn};

/// The sizes and capabilities of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How its files are read and written, and how its tensors are named.
    pub architecture: Architecture,
    /// Rows of the embedding and of the head.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward block.
    pub intermediate_size: usize,
    /// Number of decoder layers.
    pub num_layers: usize,
    /// Number of query heads.
    pub num_heads: usize,
    /// Key and value heads; divides `num_heads`.
    pub num_kv_heads: usize,
    /// Width of one head, even.
    pub head_dim: usize,
    /// Longest sequence, prompt and response together, in tokens.
    pub max_position_embeddings: usize,
    /// Added to the mean square in every RMSNorm.
    pub rms_norm_eps: f64,
    /// The rotation of queries and keys by their positions.
    pub rope: Rope,
    /// Layers whose queries and keys are not rotated, from 0, ascending.
    pub layers_without_rope: Vec<usize>,
    /// Whether each head's queries and keys pass an RMSNorm before their rotation.
    pub query_key_norm: bool,
    /// Which projections have biases.
    pub biases: Biases,
    /// Whether the head is the embedding, also where the files have it written out.
    pub tie_word_embeddings: bool,
    /// Ids that end a response, as `eos_token_id` lists them (one, several or none).
    pub eos_token_ids: Vec<u32>,
}

/// Most columns of a projection.
const MAX_WIDTH: usize = 1 << 20;
/// Most values of the table of positions: 4 GiB.
const MAX_TABLE: usize = 1 << 30;

impl Config {
    /// Reads `config.json` in `folder`, and also returns its JSON (to be written next to new weights).
    pub fn load(folder: &Path) -> Result<(Self, Value)> {
        let json = ConfigFile::read(&Folder::new(folder))?.into_json();
        Ok((Self::from_json(&json)?, json))
    }

    /// Reads a parsed `config.json`.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] for a feature that this crate lacks, [`ModelError::Config`] for a missing or
    /// invalid value.
    pub fn from_json(json: &Value) -> Result<Self> {
        unsupported::refuse(json)?;
        let config = read::config(json)?;
        config.validate()?;
        Ok(config)
    }

    /// Checks that the numbers are consistent.
    pub fn validate(&self) -> Result<()> {
        let positive = [
            ("vocab_size", self.vocab_size, 1 << 24),
            ("hidden_size", self.hidden_size, 1 << 18),
            ("intermediate_size", self.intermediate_size, 1 << 20),
            ("num_hidden_layers", self.num_layers, 1 << 12),
            ("num_attention_heads", self.num_heads, 1 << 14),
            ("num_key_value_heads", self.num_kv_heads, 1 << 14),
            ("head_dim", self.head_dim, 1 << 14),
            ("max_position_embeddings", self.max_position_embeddings, 1 << 28),
        ];
        // Far above any model: names and lists are made of these numbers before a file is compared with them.
        for (field, value, most) in positive {
            if value == 0 || value > most {
                return Err(refused(field, value, format!("1 to {most}")));
            }
        }
        let width = self.query_width();
        if width > MAX_WIDTH {
            let allowed = format!("at most {MAX_WIDTH} with num_attention_heads = {}, together", self.num_heads);
            return Err(refused("head_dim", self.head_dim, allowed));
        }
        if self.max_position_embeddings.saturating_mul(self.head_dim) > MAX_TABLE {
            let allowed = format!("at most {} with head_dim = {}", MAX_TABLE / self.head_dim, self.head_dim);
            return Err(refused("max_position_embeddings", self.max_position_embeddings, allowed));
        }
        if !self.num_heads.is_multiple_of(self.num_kv_heads) {
            let allowed = format!("a divisor of num_attention_heads = {}", self.num_heads);
            return Err(refused("num_key_value_heads", self.num_kv_heads, allowed));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(refused("head_dim", self.head_dim, "an even number (rotary pairs)"));
        }
        if !(self.rms_norm_eps.is_finite() && self.rms_norm_eps > 0.0) {
            return Err(refused("rms_norm_eps", self.rms_norm_eps, "a number above 0"));
        }
        self.rope.validate(self.head_dim)?;
        let layers = &self.layers_without_rope;
        if !layers.is_sorted_by(|layer, next| layer < next)
            || layers.last().is_some_and(|&last| last >= self.num_layers)
        {
            let allowed = format!("ascending numbers of layers below num_hidden_layers = {}", self.num_layers);
            return Err(refused("layers_without_rope", format!("{layers:?}"), allowed));
        }
        if let Some(id) = self.eos_token_ids.iter().find(|&&id| id as usize >= self.vocab_size) {
            return Err(refused("eos_token_id", id, format!("0 to vocab_size - 1 = {}", self.vocab_size - 1)));
        }
        Ok(())
    }

    /// Total width of all query heads.
    pub fn query_width(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// Total width of all key (or value) heads.
    pub fn kv_width(&self) -> usize {
        self.num_kv_heads * self.head_dim
    }

    /// A `config.json` for a model created in memory (`dtype` float32), in the format of current transformers.
    ///
    /// # Errors
    /// Capabilities for which the architecture's files have no words.
    pub fn to_json(&self) -> Result<Value> {
        let json = self.written();
        let read = Self::from_json(&json)?;
        let lost = [
            ("head_dim", read.head_dim != self.head_dim),
            ("layers_without_rope", read.layers_without_rope != self.layers_without_rope),
            ("query_key_norm", read.query_key_norm != self.query_key_norm),
            ("biases", read.biases != self.biases),
        ];
        match lost.into_iter().find(|(_, is_lost)| *is_lost) {
            None => Ok(json),
            Some((capability, _)) => {
                let allowed = format!("one whose config.json can say the model's {capability}");
                Err(ModelError::input("architecture", self.architecture.class(), allowed))
            }
        }
    }

    fn written(&self) -> Value {
        let eos = match self.eos_token_ids.as_slice() {
            [] => Value::Null,
            [one] => json!(one),
            several => json!(several),
        };
        let mut json = json!({
            "architectures": [self.architecture.class()],
            "model_type": self.architecture.model_type(),
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "max_position_embeddings": self.max_position_embeddings,
            "rms_norm_eps": self.rms_norm_eps,
            "tie_word_embeddings": self.tie_word_embeddings,
            "hidden_act": "silu",
            "attention_dropout": 0.0,
            "use_sliding_window": false,
            "sliding_window": null,
            "use_cache": true,
            "initializer_range": 0.02,
            "bos_token_id": null,
            "eos_token_id": eos,
            "dtype": "float32",
        });
        self.rope.write(&mut json);
        self.architecture.write(self, &mut json);
        json
    }
}

pub(crate) fn refused(field: &str, value: impl Display, allowed: impl Into<String>) -> ModelError {
    ModelError::Config(FieldError::new(field, value, allowed))
}

#[cfg(test)]
pub(crate) mod tests;
