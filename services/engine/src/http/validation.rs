//! Validation of the fields of a request, beyond their types.

use std::sync::Arc;

use evenkeel_errors::FieldError;
use serde_json::{Map, Value};

use super::error::ApiError;
use super::fields::Fields;
use crate::folder::Model;
use crate::settings::EngineSettings;

/// Maximum number of samples of one prompt, as in vLLM.
const MAX_SAMPLES: i64 = 16_384;
/// Maximum number of stop texts of a request: each is searched for at every token.
const MAX_STOPS: usize = 1024;

/// What vLLM refuses before it reads types.
pub(super) fn validate_before_types(fields: &Fields) -> Result<(), ApiError> {
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
        let allowed = match number {
            None => Some("a whole number"),
            Some(number) if number < 0.0 && number != -1.0 => Some("-1, 0 or above"),
            Some(_) => None,
        };
        if let Some(allowed) = allowed {
            return Err(FieldError::new("logprobs", count, allowed).into());
        }
    }
    match fields.peek("cache_salt") {
        Some(Value::String(salt)) if !salt.is_empty() => Ok(()),
        None => Ok(()),
        Some(other) => Err(FieldError::new("cache_salt", other, "a string that is not empty").into()),
    }
}

/// `include_usage` and `continuous_usage_stats`; the latter only with the former.
pub(super) fn stream_usage(fields: &mut Fields, options: Option<Value>) -> (bool, bool) {
    let Some(options) = options else {
        return (false, false);
    };
    let Value::Object(map) = &options else {
        fields.refuse("stream_options", &options, "an object");
        return (false, false);
    };
    let mut inner = Fields::new(map.clone());
    let found = [inner.bool("include_usage"), inner.bool("continuous_usage_stats")];
    if inner.refuse_malformed().and_then(|()| inner.refuse_rest()).is_err() {
        let allowed = "include_usage and continuous_usage_stats, each true or false";
        fields.refuse("stream_options", &options, allowed);
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
    let rules = [
        ("n", false, samples as f64, (1..=MAX_SAMPLES).contains(&samples), "1 to 16384"),
        ("temperature", true, temperature, (0.0..=2.0).contains(&temperature), "0 to 2"),
        ("top_p", true, top_p, top_p > 0.0 && top_p <= 1.0, "above 0, at most 1"),
        ("top_k", false, top_k as f64, top_k >= -1, "0 or -1 (all), or at least 1"),
        ("min_p", false, min_p, (0.0..=1.0).contains(&min_p), "0 to 1"),
        ("max_tokens", true, max_tokens as f64, max_tokens >= 1, "at least 1"),
        ("min_tokens", false, min_tokens as f64, min_tokens >= 0, "0 or above"),
    ];
    for (field, is_param, value, good, allowed) in rules {
        if !good {
            let error = ApiError::from(FieldError::new(field, value, allowed));
            return Err(if is_param { error } else { error.without_param() });
        }
    }
    validate_min_tokens(min_tokens as usize, max_tokens as usize)?;
    if interval < 1 {
        return Err(ApiError::malformed_field(FieldError::new("body.stream_interval", interval, "at least 1")));
    }
    if greedy && samples > 1 {
        return Err(ApiError::from(FieldError::new("n", samples, "1 at temperature 0")).without_param());
    }
    Ok(())
}

pub(super) fn validate_min_tokens(min_tokens: usize, max_tokens: usize) -> Result<(), ApiError> {
    let allowed = format!("at most max_tokens = {max_tokens}");
    FieldError::ensure(min_tokens <= max_tokens, "min_tokens", min_tokens, allowed)
        .map_err(|error| ApiError::from(error).without_param())
}

/// How many alternatives to report for each token.
pub(super) fn validate_logprobs(
    count: i64,
    model: &Model,
    settings: &EngineSettings,
    as_ids: bool,
) -> Result<usize, ApiError> {
    let vocabulary = model.config.vocab_size as i64;
    let count = if count == -1 { vocabulary } else { count };
    let max = if settings.max_logprobs == -1 { vocabulary } else { settings.max_logprobs };
    let allowed = format!("at most {max} (setting max_logprobs)");
    FieldError::ensure(count <= max, "logprobs", count, allowed)?;
    if model.tokenizer.is_none() && !as_ids {
        let message = "logprobs are written with the tokens' texts, and the model has no tokenizer.json; ask for \
                       return_tokens_as_token_ids";
        return Err(ApiError::bad(Some("logprobs"), message));
    }
    Ok(count as usize)
}

pub(super) fn validate_stop_texts(stop: Vec<String>, model: &Model) -> Result<Arc<[String]>, ApiError> {
    if stop.iter().any(String::is_empty) {
        return Err(ApiError::bad(None, "a stop text is empty"));
    }
    let count = stop.len();
    let allowed = format!("at most {MAX_STOPS}");
    FieldError::ensure(count <= MAX_STOPS, "stop", format_args!("{count} texts"), allowed)?;
    if !stop.is_empty() && model.tokenizer.is_none() {
        return Err(ApiError::bad(Some("stop"), "stop texts need a tokenizer.json, which the model does not have"));
    }
    Ok(stop.into())
}

/// The ids in order, each once.
pub(super) fn validate_stop_ids(ids: Vec<i64>, vocabulary: usize) -> Result<Vec<u32>, ApiError> {
    let good = |id: &i64| (0..vocabulary as i64).contains(id);
    if let Some(id) = ids.iter().find(|&id| !good(id)) {
        let allowed = format!("ids from 0 to vocab_size - 1 = {}", vocabulary - 1);
        return Err(FieldError::new("stop_token_ids", format_args!("[.., {id}, ..]"), allowed).into());
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
        Some(0) if stream => Err(FieldError::new("prompt_logprobs", 0, "absent with stream").into()),
        Some(0) => Ok(true),
        Some(count) => Err(ApiError::unsupported("prompt_logprobs", &count.into(), "0, or absent")),
    }
}
