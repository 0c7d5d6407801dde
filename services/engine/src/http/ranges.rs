//! Which values the fields of a completion request may have.

use evenkeel_errors::FieldError;

use super::completion_fields::CompletionFields;
use super::error::ApiError;
use super::fields::Lax;
use crate::folder::Model;
use crate::settings::EngineSettings;

/// Maximum number of samples of one prompt, as in vLLM.
const MAX_SAMPLES: i64 = 16_384;
/// Maximum number of stop texts of a request: each is searched for at every token.
const MAX_STOPS: usize = 1024;

/// The numbers of a request.
pub(super) fn check(fields: &CompletionFields, greedy: bool, context: usize) -> Result<(), FieldError> {
    let CompletionFields { n, temperature, top_p, top_k, min_p, max_tokens, min_tokens, stream_interval, .. } = fields;
    let most = if greedy { 1 } else { MAX_SAMPLES };
    let within_context = format!("1 to max_model_len = {context}");
    for (field, value, is_good, allowed) in [
        ("n", n.0 as f64, (1..=most).contains(&n.0), "1 to 16384; 1 at temperature 0"),
        ("temperature", temperature.0, (0.0..=2.0).contains(&temperature.0), "0 to 2"),
        ("top_p", top_p.0, top_p.0 > 0.0 && top_p.0 <= 1.0, "above 0, at most 1"),
        ("top_k", top_k.0 as f64, top_k.0 >= -1, "0 or -1 (all), or at least 1"),
        ("min_p", min_p.0, (0.0..=1.0).contains(&min_p.0), "0 to 1"),
        ("max_tokens", max_tokens.0 as f64, (1..=context as i64).contains(&max_tokens.0), &within_context),
        ("min_tokens", min_tokens.0 as f64, min_tokens.0 >= 0, "0 or above"),
        ("stream_interval", stream_interval.0 as f64, stream_interval.0 >= 1, "at least 1"),
    ] {
        FieldError::ensure(is_good, field, value, allowed)?;
    }
    check_min_tokens(min_tokens.0 as usize, max_tokens.0 as usize)
}

/// A sample has at most as many tokens as its prompt leaves of the context.
pub(super) fn check_min_tokens(min_tokens: usize, max_tokens: usize) -> Result<(), FieldError> {
    let allowed = format!("at most max_tokens = {max_tokens}");
    FieldError::ensure(min_tokens <= max_tokens, "min_tokens", min_tokens, allowed)
}

/// How many alternatives to report for each token.
pub(super) fn check_logprobs(
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

/// Whether the tokens of the prompt are to be scored. vLLM can add other likely tokens, this engine cannot.
pub(super) fn check_prompt_logprobs(count: Option<i64>, stream: bool) -> Result<bool, ApiError> {
    match count {
        None => Ok(false),
        Some(0) if stream => Err(FieldError::new("prompt_logprobs", 0, "absent with stream").into()),
        Some(0) => Ok(true),
        Some(count) => Err(ApiError::unsupported("prompt_logprobs", &count.into(), "0, or absent")),
    }
}

pub(super) fn check_stop_texts(stop: &[String], model: &Model) -> Result<(), ApiError> {
    if stop.iter().any(String::is_empty) {
        return Err(ApiError::bad(Some("stop"), "a stop text is empty"));
    }
    let count = stop.len();
    FieldError::ensure(count <= MAX_STOPS, "stop", format_args!("{count} texts"), format!("at most {MAX_STOPS}"))?;
    if count > 0 && model.tokenizer.is_none() {
        return Err(ApiError::bad(Some("stop"), "stop texts need a tokenizer.json, which the model does not have"));
    }
    Ok(())
}

/// The ids in order, each once.
pub(super) fn check_stop_ids(ids: &[Lax<i64>], vocabulary: usize) -> Result<Vec<u32>, FieldError> {
    let known = |id: &Lax<i64>| {
        u32::try_from(id.0).ok().filter(|&id| (id as usize) < vocabulary).ok_or_else(|| {
            let allowed = format!("ids from 0 to vocab_size - 1 = {}", vocabulary - 1);
            FieldError::new("stop_token_ids", format_args!("[.., {}, ..]", id.0), allowed)
        })
    };
    let mut ids = ids.iter().map(known).collect::<Result<Vec<u32>, _>>()?;
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}
