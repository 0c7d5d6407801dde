//! The architecture of a dense Qwen2 or Qwen3 model, read from and written to a Hugging Face `config.json`.
//!
//! [`Config::from_json`] accepts exactly what this crate computes and refuses everything else by name
//! (`unsupported.rs`): an almost right model trains wrong without any error.

mod read;
mod unsupported;

use std::fmt::Display;
use std::path::Path;

use evenkeel_errors::FieldError;
use evenkeel_hf::{ConfigFile, Folder};
use serde_json::{Value, json};

use crate::error::{ModelError, Result};

/// The two families of dense decoders that this crate computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Qwen2 and Qwen2.5: biases on the query, key and value projections.
    Qwen2,
    /// Qwen3: an RMSNorm on each head's queries and keys, biases only with `attention_bias`.
    Qwen3,
}

impl Family {
    /// The value of `architectures` in `config.json`.
    pub fn architecture(self) -> &'static str {
        match self {
            Self::Qwen2 => "Qwen2ForCausalLM",
            Self::Qwen3 => "Qwen3ForCausalLM",
        }
    }

    /// The value of `model_type` in `config.json`.
    pub fn model_type(self) -> &'static str {
        match self {
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }
}

/// The shape of a model. Every field has passed [`Config::validate`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Which family's layer this is.
    pub family: Family,
    /// Rows of the embedding and of the head.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward block.
    pub intermediate_size: usize,
    /// Decoder layers.
    pub num_layers: usize,
    /// Query heads.
    pub num_heads: usize,
    /// Key and value heads; divides `num_heads`.
    pub num_kv_heads: usize,
    /// Width of one head, even.
    pub head_dim: usize,
    /// Longest sequence, prompt and response together, in tokens.
    pub max_position_embeddings: usize,
    /// Added to the mean square in every RMSNorm.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Whether query, key and value projections have biases.
    pub qkv_bias: bool,
    /// Whether the output projection has a bias (Qwen3 with `attention_bias`).
    pub output_bias: bool,
    /// Whether the head is the embedding, also where the files have it written out.
    pub tie_word_embeddings: bool,
    /// Ids that end a response, as `eos_token_id` lists them (one, several or none).
    pub eos_token_ids: Vec<u32>,
}

/// Most columns of a projection.
const MAX_WIDTH: usize = 1 << 20;

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
        if !(self.rope_theta.is_finite() && self.rope_theta > 0.0) {
            return Err(refused("rope_theta", self.rope_theta, "a number above 0"));
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
    pub fn to_json(&self) -> Value {
        let eos = match self.eos_token_ids.as_slice() {
            [] => Value::Null,
            [one] => json!(one),
            several => json!(several),
        };
        let mut json = json!({
            "architectures": [self.family.architecture()],
            "model_type": self.family.model_type(),
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "max_position_embeddings": self.max_position_embeddings,
            "rms_norm_eps": self.rms_norm_eps,
            // Both spellings: transformers 5 reads rope_parameters, 4 and most engines read rope_theta.
            "rope_theta": self.rope_theta,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
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
        if self.family == Family::Qwen3 {
            json["attention_bias"] = json!(self.qkv_bias);
        }
        json
    }
}

pub(crate) fn refused(field: &str, value: impl Display, allowed: impl Into<String>) -> ModelError {
    ModelError::Config(FieldError::new(field, value, allowed))
}

#[cfg(test)]
pub(crate) mod tests;
