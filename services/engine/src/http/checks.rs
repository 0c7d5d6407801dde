//! Validation of the fields of a request, beyond their types.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::error::ApiError;
use super::fields::Fields;
use crate::folder::Model;
use crate::settings::EngineSettings;

/// Most samples of one prompt, as in vLLM.
const MAX_SAMPLES: i64 = 16_384;
/// Most stop texts of a request: each is searched for at every token.
const MAX_STOPS: usize = 1024;

/// Checks that vLLM makes before it reads types.
pub(super) fn before_types(fields: &Fields) -> Result<(), ApiError> {
    let streams = fields.peek("stream").is_some_and(|stream| !matches!(stream, Value::Bool(false)));
    let has_options = fields.peek("stream_options").is_some_and(|options| options != &Value::Object(Map::new()));
    if has_options && !streams {
        return Err(ApiError::bad(Some("stream_options"), "stream_options need `stream` = true"));
    }
    if let Some(count) = fields.peek("logprobs") {
        let number = match count {
            Value::Bool(_) => Some(1.0),
            other => other.as_f64(),
        };
        match number {
            None => {
                return Err(ApiError::bad(Some("logprobs"), format!("logprobs is {count}, allowed: a whole number")));
            }
            Some(number) if number < 0.0 && number != -1.0 => {
                return Err(ApiError::bad(Some("logprobs"), format!("logprobs is {count}, allowed: -1, 0 or above")));
            }
            Some(_) => {}
        }
    }
    match fields.peek("cache_salt") {
        Some(Value::String(salt)) if !salt.is_empty() => Ok(()),
        None => Ok(()),
        Some(other) => Err(ApiError::bad(
            Some("cache_salt"),
            format!("cache_salt is {other}, allowed: a string that is not empty"),
        )),
    }
}

/// `include_usage` and `continuous_usage_stats`; the latter only with the former.
pub(super) fn stream_usage(fields: &mut Fields, options: Option<Value>) -> (bool, bool) {
    let Some(options) = options else {
        return (false, false);
    };
    let Value::Object(map) = options else {
        fields.refuse("stream_options", &options, "an object");
        return (false, false);
    };
    let mut inner = Fields::new(map);
    let found = [inner.bool("include_usage"), inner.bool("continuous_usage_stats")];
    if let Err(error) = inner.check().and_then(|()| inner.refuse_rest()) {
        fields.refuse("stream_options", &Value::String(error.message), "include_usage and continuous_usage_stats");
    }
    let usage = found[0].unwrap_or(false);
    (usage, usage && found[1].unwrap_or(false))
}

/// The numbers of a request.
pub(super) struct Numbers {
    pub(super) samples: i64,
    pub(super) temperature: f64,
    pub(super) top_p: f64,
    pub(super) top_k: i64,
    pub(super) min_p: f64,
    pub(super) max_tokens: i64,
    pub(super) min_tokens: i64,
    pub(super) interval: i64,
}

pub(super) fn validate_numbers(numbers: &Numbers, greedy: bool) -> Result<(), ApiError> {
    let Numbers { samples, temperature, top_p, top_k, min_p, max_tokens, min_tokens, interval } = *numbers;
    // vLLM names some of these in `param` and some only in the message.
    let checks = [
        ("n", None, samples as f64, (1..=MAX_SAMPLES).contains(&samples), "1 to 16384"),
        ("temperature", Some("temperature"), temperature, (0.0..=2.0).contains(&temperature), "0 to 2"),
        ("top_p", Some("top_p"), top_p, top_p > 0.0 && top_p <= 1.0, "above 0, at most 1"),
        ("top_k", None, top_k as f64, top_k >= -1, "0 or -1 (all), or at least 1"),
        ("min_p", None, min_p, (0.0..=1.0).contains(&min_p), "0 to 1"),
        ("max_tokens", Some("max_tokens"), max_tokens as f64, max_tokens >= 1, "at least 1"),
        ("min_tokens", None, min_tokens as f64, min_tokens >= 0, "0 or above"),
    ];
    for (field, param, value, good, allowed) in checks {
        if !good {
            return Err(ApiError::bad(param, format!("{field} is {value}, allowed: {allowed}")));
        }
    }
    if min_tokens > max_tokens {
        let message = format!("min_tokens is {min_tokens}, allowed: at most max_tokens = {max_tokens}");
        return Err(ApiError::bad(None, message));
    }
    if interval < 1 {
        let message = format!("1 validation error:\n  body.stream_interval is {interval}, allowed: at least 1");
        return Err(ApiError::malformed(Some("body.stream_interval"), message));
    }
    if greedy && samples > 1 {
        return Err(ApiError::bad(None, format!("n is {samples} at temperature 0, allowed: 1")));
    }
    Ok(())
}

/// How many alternatives to report beside each token.
pub(super) fn alternatives(
    count: i64,
    model: &Model,
    settings: &EngineSettings,
    as_ids: bool,
) -> Result<usize, ApiError> {
    let vocabulary = model.config.vocab_size as i64;
    let count = if count == -1 { vocabulary } else { count };
    let most = if settings.max_logprobs == -1 { vocabulary } else { settings.max_logprobs };
    if count > most {
        let message = format!("logprobs is {count}, allowed: at most {most} (setting max_logprobs)");
        return Err(ApiError::bad(Some("logprobs"), message));
    }
    if model.tokenizer.is_none() && !as_ids {
        let message = "logprobs are written with the tokens' texts, and the model has no tokenizer.json; ask for \
                       return_tokens_as_token_ids";
        return Err(ApiError::bad(Some("logprobs"), message));
    }
    Ok(count as usize)
}

pub(super) fn texts(stop: Vec<String>, model: &Model) -> Result<Arc<[String]>, ApiError> {
    if stop.iter().any(String::is_empty) {
        return Err(ApiError::bad(None, "a stop text is empty"));
    }
    if stop.len() > MAX_STOPS {
        return Err(ApiError::bad(
            Some("stop"),
            format!("there are {} stop texts, allowed: at most {MAX_STOPS}", stop.len()),
        ));
    }
    if !stop.is_empty() && model.tokenizer.is_none() {
        return Err(ApiError::bad(Some("stop"), "stop texts need a tokenizer.json, which the model does not have"));
    }
    Ok(stop.into())
}

pub(super) fn ids_in_vocabulary(ids: Vec<i64>, vocabulary: usize) -> Result<Vec<u32>, ApiError> {
    let good = |id: &i64| (0..vocabulary as i64).contains(id);
    if let Some(id) = ids.iter().find(|&id| !good(id)) {
        let message = format!("a stop token is {id}, allowed: 0 to vocab_size - 1 = {}", vocabulary - 1);
        return Err(ApiError::bad(Some("stop_token_ids"), message));
    }
    let mut ids: Vec<u32> = ids.into_iter().map(|id| id as u32).collect();
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// Whether the tokens of the prompt are to be scored. Of vLLM's choices only their own log-probabilities are supported.
pub(super) fn validate_prompt_logprobs(count: Option<i64>, stream: bool) -> Result<bool, ApiError> {
    match count {
        None => Ok(false),
        Some(0) if stream => {
            Err(ApiError::bad(Some("prompt_logprobs"), "prompt_logprobs is 0, allowed: absent with stream"))
        }
        Some(0) => Ok(true),
        Some(count) => Err(ApiError::unsupported("prompt_logprobs", &count.into(), "0, or absent")),
    }
}
