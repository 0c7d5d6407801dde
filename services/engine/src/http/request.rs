//! A completion request, parsed and validated before anything runs.
//!
//! Every field of vLLM's API is either supported or refused by name; neutral values are accepted. Types are checked
//! first, then the model's name, then values, as in vLLM, so that a request with several errors usually gets the same
//! one reported.

use std::sync::Arc;

use evenkeel_errors::FieldError;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::error::ApiError;
use super::fields::Fields;
use super::prompt::{PromptError, Prompts};
use super::validation::{
    Numbers, stream_usage, validate_before_types, validate_logprobs, validate_min_tokens, validate_numbers,
    validate_prompt_logprobs, validate_stop_ids, validate_stop_texts,
};
use crate::folder::Model;
use crate::sampling::SamplingParams;
use crate::settings::EngineSettings;
use evenkeel_model::sampling::Truncation;

/// Below this temperature vLLM samples greedily.
const GREEDY_BELOW: f64 = 1e-5;
/// The lowest temperature that vLLM divides by.
const LOWEST_TEMPERATURE: f64 = 0.01;

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

/// A body with its prompt, which may be large, as raw JSON and the rest as values.
pub(crate) struct Body {
    prompt: Option<Box<RawValue>>,
    rest: Map<String, Value>,
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Body;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body, A::Error> {
                let mut body = Body { prompt: None, rest: Map::new() };
                while let Some(key) = map.next_key::<String>()? {
                    if key == "prompt" {
                        body.prompt = Some(map.next_value()?);
                    } else {
                        body.rest.insert(key, map.next_value()?);
                    }
                }
                Ok(body)
            }
        }
        deserializer.deserialize_map(Read)
    }
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
    pub(crate) fn read(body: Body, model: &Model, settings: &EngineSettings) -> Result<Self, ApiError> {
        let mut fields = Fields::new(body.rest);
        validate_before_types(&fields)?;
        let prompts = match Prompts::read(body.prompt.as_deref()) {
            // Reported before any wrong type.
            Err(error @ (PromptError::Missing | PromptError::Empty | PromptError::TooMany(_))) => {
                return Err(error.into());
            }
            prompts => prompts,
        };

        for (field, allowed) in [
            ("n", "a whole number"),
            ("ignore_eos", "true or false"),
            ("min_tokens", "a whole number"),
            ("skip_special_tokens", "true or false"),
            ("include_stop_str_in_output", "true or false"),
        ] {
            fields.not_null(field, allowed);
        }
        let asked_model = fields.string("model");
        let logprobs = fields.int("logprobs");
        let prompt_logprobs = fields.int("prompt_logprobs");
        let max_tokens = fields.int("max_tokens").unwrap_or(16);
        let samples = fields.int("n").unwrap_or(1);
        let seed = fields.int("seed");
        let stop = fields.strings("stop").unwrap_or_default();
        let stream = fields.bool("stream").unwrap_or(false);
        let stream_options = fields.take("stream_options");
        let temperature = fields.float("temperature").unwrap_or(1.0);
        let top_p = fields.float("top_p").unwrap_or(1.0);
        let top_k = fields.int("top_k").unwrap_or(0);
        let min_p = fields.float("min_p").unwrap_or(0.0);
        let stop_token_ids = fields.ints("stop_token_ids").unwrap_or_default();
        let include_stop_str_in_output = fields.bool("include_stop_str_in_output").unwrap_or(false);
        let ignore_end = fields.bool("ignore_eos").unwrap_or(false);
        let min_tokens = fields.int("min_tokens").unwrap_or(0);
        let skip_special_tokens = fields.bool("skip_special_tokens").unwrap_or(true);
        let add_special = fields.bool("add_special_tokens").unwrap_or(true);
        let tokens_as_ids = fields.bool("return_tokens_as_token_ids").unwrap_or(false);
        let token_ids = fields.bool("return_token_ids").unwrap_or(false);
        let request_id = fields.string("request_id");
        let interval = fields.int("stream_interval").unwrap_or(1);
        let (include_usage, continuous_usage) = stream_usage(&mut fields, stream_options);
        fields.refuse_malformed()?;
        let prompts = match prompts {
            Err(error @ PromptError::Malformed(_)) => return Err(error.into()),
            prompts => prompts,
        };

        if let Some(asked) = asked_model.filter(|asked| !asked.is_empty() && *asked != model.name) {
            return Err(ApiError::no_model(&asked, &model.name));
        }
        super::unsupported::refuse(&mut fields, skip_special_tokens)?;
        fields.refuse_rest()?;
        let prompts = prompts?;

        let allowed = format!("at most max_model_len = {}", model.context);
        FieldError::ensure(max_tokens <= model.context as i64, "max_tokens", max_tokens, allowed)?;
        let prompt_logprobs = validate_prompt_logprobs(prompt_logprobs, stream)?;
        let greedy = temperature < GREEDY_BELOW;
        validate_numbers(
            &Numbers { samples, temperature, top_p, top_k, min_p, max_tokens, min_tokens, interval },
            greedy,
        )?;
        let logprobs = logprobs.map(|count| validate_logprobs(count, model, settings, tokens_as_ids)).transpose()?;
        let stop = validate_stop_texts(stop, model)?;
        let stop_token_ids = validate_stop_ids(stop_token_ids, model.config.vocab_size)?;

        let other_ends: &[u32] = if ignore_end { &[] } else { &model.other_ends };
        let ends = model.end.iter().chain(&model.other_ends);
        let mut never_early: Vec<u32> = stop_token_ids.iter().chain(ends).copied().collect();
        never_early.sort_unstable();
        never_early.dedup();
        let truncation = match greedy {
            true => Truncation::NONE,
            false => Truncation { top_k: top_k.max(0) as usize, top_p: top_p as f32, min_p: min_p as f32 },
        };
        let sampling = SamplingParams {
            temperature: if greedy { 0.0 } else { temperature.max(LOWEST_TEMPERATURE) as f32 },
            truncation,
            logprobs,
            prompt_logprobs,
            min_tokens: min_tokens as usize,
            never_early,
            max_tokens: max_tokens as usize,
            eos_token_id: model.end.filter(|_| !ignore_end),
            stop_token_ids: stop_token_ids.iter().chain(other_ends).copied().collect(),
            stop,
            include_stop_str_in_output,
            skip_special_tokens,
        };
        let options = ResponseOptions {
            stream,
            include_usage,
            continuous_usage,
            interval: settings.stream_interval.max(interval as usize),
            token_ids,
            tokens_as_ids,
            request_id,
        };
        // In vLLM, -1 means no seed.
        let seed = seed.filter(|&seed| seed != -1).map(|seed| seed as u64);
        Ok(Self { prompts, add_special, samples: samples as usize, seed, sampling, options })
    }

    /// The sampling settings for a prompt, once its ids are known.
    pub(crate) fn sampling_for(&self, prompt: &[u32], context: usize) -> Result<Arc<SamplingParams>, ApiError> {
        if prompt.is_empty() {
            return Err(ApiError::bad(None, "a prompt has no tokens"));
        }
        // vLLM's name for the length of the prompt.
        let allowed = format!("at most {context}, the context");
        FieldError::ensure(prompt.len() <= context, "input_tokens", prompt.len(), allowed)?;
        let max_tokens = self.sampling.max_tokens.min(context - prompt.len());
        if max_tokens == 0 {
            let message = format!("the prompt fills the context of {context} tokens, max_tokens would be 0");
            return Err(ApiError::bad(Some("max_tokens"), message));
        }
        validate_min_tokens(self.sampling.min_tokens, max_tokens)?;
        Ok(Arc::new(SamplingParams { max_tokens, ..self.sampling.clone() }))
    }
}
