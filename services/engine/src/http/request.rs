//! A completion request, parsed and validated before anything runs.
//!
//! Every field of vLLM's API is either supported or refused by name; neutral values are accepted. Fields that cannot be
//! read are refused first, then another model than the one served, then values that are not allowed.

use std::sync::Arc;

use evenkeel_errors::FieldError;
use evenkeel_model::sampling::Truncation;
use serde_json::Value;

use super::completion_fields::{CompletionFields, StreamOptions};
use super::error::ApiError;
use super::fields::{FromJson, Object, read};
use super::neutral;
use super::prompt::Prompts;
use super::ranges;
use crate::folder::Model;
use crate::sampling::SamplingParams;
use crate::settings::EngineSettings;

/// Below this temperature vLLM samples greedily.
const GREEDY_BELOW: f64 = 1e-5;
/// The lowest temperature that vLLM divides by.
const LOWEST_TEMPERATURE: f64 = 0.01;
/// Fields that may be absent but not null.
const NEVER_NULL: [&str; 5] = ["n", "ignore_eos", "min_tokens", "skip_special_tokens", "include_stop_str_in_output"];

/// The form of the response.
#[derive(Debug, Clone)]
pub(crate) struct ResponseOptions {
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    pub(crate) continuous_usage: bool,
    /// Minimum number of tokens in a frame.
    pub(crate) interval: usize,
    pub(crate) token_ids: bool,
    /// Whether tokens are written as ids.
    pub(crate) tokens_as_ids: bool,
    /// The requested id. `None` for one chosen by the engine.
    pub(crate) request_id: Option<String>,
}

/// A request before its prompts are tokenized. The maximum length of its samples is known only after that.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) prompts: Prompts,
    pub(crate) add_special: bool,
    pub(crate) samples: usize,
    pub(crate) seed: Option<u64>,
    pub(crate) sampling: SamplingParams,
    pub(crate) options: ResponseOptions,
}

impl Request {
    /// Parses and validates a body.
    pub(crate) fn read(mut body: Object, model: &Model, settings: &EngineSettings) -> Result<Self, ApiError> {
        let prompts = Prompts::read(body.remove("prompt").as_deref())?;
        if let Some(field) = NEVER_NULL.into_iter().find(|&field| body.get(field).is_some_and(|x| x.get() == "null")) {
            return Err(FieldError::new(field, "null", "a value, or absent").into());
        }
        let fields: CompletionFields = read(&body)?;
        let logprobs = fields.logprobs.as_ref().map(logprobs_count).transpose()?;
        if fields.cache_salt.as_ref().is_some_and(|salt| salt.0.is_empty()) {
            return Err(FieldError::quoted("cache_salt", "", "a string that is not empty").into());
        }
        let usage: StreamOptions = read(&fields.stream_options).map_err(|error| error.within("stream_options"))?;
        // As in vLLM, any other value than the literal counts as a stream here.
        let streams = body.get("stream").is_some_and(|stream| !matches!(stream.get(), "false" | "null"));
        if !fields.stream_options.is_empty() && !streams {
            return Err(ApiError::bad(Some("stream_options"), "stream_options need `stream` = true"));
        }

        if !fields.model.0.is_empty() && fields.model.0 != model.name {
            return Err(ApiError::no_model(&fields.model.0, &model.name));
        }
        neutral::refuse_others(&fields.others, fields.skip_special_tokens.0)?;
        if prompts.len() == 0 {
            return Err(FieldError::missing("prompt", "at least one prompt in the list").into());
        }
        let greedy = fields.temperature.0 < GREEDY_BELOW;
        ranges::check(&fields, greedy, model.context)?;
        let sampling = sampling(&fields, logprobs, greedy, model, settings)?;
        let options = ResponseOptions {
            stream: fields.stream.0,
            include_usage: usage.include_usage.0,
            continuous_usage: usage.include_usage.0 && usage.continuous_usage_stats.0,
            interval: settings.stream_interval.max(fields.stream_interval.0 as usize),
            token_ids: fields.return_token_ids.0,
            tokens_as_ids: fields.return_tokens_as_token_ids.0,
            request_id: fields.request_id.map(|id| id.0),
        };
        // In vLLM, -1 means no seed.
        let seed = fields.seed.map(|seed| seed.0).filter(|&seed| seed != -1).map(|seed| seed as u64);
        let add_special = fields.add_special_tokens.0;
        Ok(Self { prompts, add_special, samples: fields.n.0 as usize, seed, sampling, options })
    }

    /// The sampling settings for a prompt, once its ids are known.
    pub(crate) fn sampling_for(&self, prompt: &[u32], context: usize) -> Result<Arc<SamplingParams>, ApiError> {
        if prompt.is_empty() {
            return Err(ApiError::bad(Some("prompt"), "a prompt has no tokens"));
        }
        // vLLM's name for the length of the prompt.
        let allowed = format!("at most {context}, the context");
        FieldError::ensure(prompt.len() <= context, "input_tokens", prompt.len(), allowed)?;
        let max_tokens = self.sampling.max_tokens.min(context - prompt.len());
        if max_tokens == 0 {
            let message = format!("the prompt fills the context of {context} tokens, max_tokens would be 0");
            return Err(ApiError::bad(Some("max_tokens"), message));
        }
        ranges::check_min_tokens(self.sampling.min_tokens, max_tokens)?;
        Ok(Arc::new(SamplingParams { max_tokens, ..self.sampling.clone() }))
    }
}

/// The number of alternatives at each token, -1 for all. In vLLM it may not be a string.
fn logprobs_count(value: &Value) -> Result<i64, FieldError> {
    let count = i64::from_json(value).filter(|&count| count >= -1 && !value.is_string());
    count.ok_or_else(|| FieldError::new("logprobs", value, "a whole number, -1 or above"))
}

/// How the samples of a request are drawn, with at most `max_tokens` tokens for any length of its prompts.
fn sampling(
    fields: &CompletionFields,
    logprobs: Option<i64>,
    greedy: bool,
    model: &Model,
    settings: &EngineSettings,
) -> Result<SamplingParams, ApiError> {
    let prompt_logprobs =
        ranges::check_prompt_logprobs(fields.prompt_logprobs.as_ref().map(|count| count.0), fields.stream.0)?;
    let as_ids = fields.return_tokens_as_token_ids.0;
    let logprobs = logprobs.map(|count| ranges::check_logprobs(count, model, settings, as_ids)).transpose()?;
    ranges::check_stop_texts(&fields.stop.0, model)?;
    let mut stop_token_ids = ranges::check_stop_ids(&fields.stop_token_ids, model.config.vocab_size)?;

    let ends = model.end.iter().chain(&model.other_ends);
    let mut never_early: Vec<u32> = stop_token_ids.iter().chain(ends).copied().collect();
    never_early.sort_unstable();
    never_early.dedup();
    if !fields.ignore_eos.0 {
        stop_token_ids.extend(&model.other_ends);
    }
    let truncation = Truncation {
        top_k: fields.top_k.0.max(0) as usize,
        top_p: fields.top_p.0 as f32,
        min_p: fields.min_p.0 as f32,
    };
    Ok(SamplingParams {
        temperature: if greedy { 0.0 } else { fields.temperature.0.max(LOWEST_TEMPERATURE) as f32 },
        truncation: if greedy { Truncation::NONE } else { truncation },
        logprobs,
        prompt_logprobs,
        min_tokens: fields.min_tokens.0 as usize,
        never_early,
        max_tokens: fields.max_tokens.0 as usize,
        eos_token_id: model.end.filter(|_| !fields.ignore_eos.0),
        stop_token_ids,
        stop: fields.stop.0.clone().into(),
        include_stop_str_in_output: fields.include_stop_str_in_output.0,
        skip_special_tokens: fields.skip_special_tokens.0,
    })
}
