//! The fields of a completion request, with their defaults.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::fields::{Lax, Object};

/// The fields that are supported, without the prompt.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct CompletionFields {
    pub(super) model: Lax<String>,
    pub(super) n: Lax<i64>,
    pub(super) max_tokens: Lax<i64>,
    pub(super) min_tokens: Lax<i64>,
    pub(super) temperature: Lax<f64>,
    pub(super) top_p: Lax<f64>,
    pub(super) top_k: Lax<i64>,
    pub(super) min_p: Lax<f64>,
    pub(super) seed: Option<Lax<i64>>,
    pub(super) logprobs: Option<Value>,
    pub(super) prompt_logprobs: Option<Lax<i64>>,
    pub(super) stop: Lax<Vec<String>>,
    pub(super) stop_token_ids: Vec<Lax<i64>>,
    pub(super) ignore_eos: Lax<bool>,
    pub(super) skip_special_tokens: Lax<bool>,
    pub(super) include_stop_str_in_output: Lax<bool>,
    pub(super) add_special_tokens: Lax<bool>,
    pub(super) return_tokens_as_token_ids: Lax<bool>,
    pub(super) return_token_ids: Lax<bool>,
    pub(super) request_id: Option<Lax<String>>,
    pub(super) cache_salt: Option<Lax<String>>,
    pub(super) stream: Lax<bool>,
    pub(super) stream_options: Object,
    pub(super) stream_interval: Lax<i64>,
    #[serde(flatten)]
    pub(super) others: Map<String, Value>,
}

impl Default for CompletionFields {
    fn default() -> Self {
        Self {
            model: Lax::default(),
            n: Lax(1),
            max_tokens: Lax(16),
            min_tokens: Lax(0),
            temperature: Lax(1.0),
            top_p: Lax(1.0),
            top_k: Lax(0),
            min_p: Lax(0.0),
            seed: None,
            logprobs: None,
            prompt_logprobs: None,
            stop: Lax::default(),
            stop_token_ids: Vec::new(),
            ignore_eos: Lax(false),
            skip_special_tokens: Lax(true),
            include_stop_str_in_output: Lax(false),
            add_special_tokens: Lax(true),
            return_tokens_as_token_ids: Lax(false),
            return_token_ids: Lax(false),
            request_id: None,
            cache_salt: None,
            stream: Lax(false),
            stream_options: Object::new(),
            stream_interval: Lax(1),
            others: Map::new(),
        }
    }
}

/// The fields of `stream_options`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct StreamOptions {
    pub(super) include_usage: Lax<bool>,
    pub(super) continuous_usage_stats: Lax<bool>,
}
