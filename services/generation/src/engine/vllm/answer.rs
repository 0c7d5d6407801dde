//! A response in one piece.

use std::borrow::Cow;

use serde::Deserialize;

use super::COMPLETIONS;
use crate::engine::http::message_of;
use crate::engine::{EngineClientError, EngineTimings, SampleFinish, SampleOutcome, SampledTokens};

#[derive(Deserialize)]
struct Completion<'a> {
    #[serde(borrow)]
    choices: Vec<CompletionChoice<'a>>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    metrics: Option<Metrics>,
}

/// One sample, or a chunk of one.
#[derive(Deserialize)]
pub(super) struct CompletionChoice<'a> {
    pub(super) index: u32,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) token_ids: Option<Vec<u32>>,
    #[serde(default)]
    pub(super) prompt_token_ids: Option<Vec<u32>>,
    #[serde(default)]
    pub(super) logprobs: Option<LogProbabilities>,
}

#[derive(Deserialize)]
pub(super) struct LogProbabilities {
    pub(super) token_logprobs: Vec<Option<f32>>,
}

#[derive(Deserialize)]
pub(super) struct Usage {
    pub(super) completion_tokens: Option<u64>,
}

/// Milliseconds, if the engine was started with per-request metrics.
#[derive(Deserialize)]
pub(super) struct Metrics {
    time_to_first_token_ms: Option<f64>,
    generation_time_ms: Option<f64>,
    queue_time_ms: Option<f64>,
}

impl Metrics {
    pub(super) fn timings(&self) -> EngineTimings {
        // The cast turns negative numbers and NaN into 0.
        let us = |ms: Option<f64>| (ms.unwrap_or(0.0) * 1000.0) as u64;
        EngineTimings {
            queue_us: us(self.queue_time_ms),
            prefill_us: us(self.time_to_first_token_ms),
            decode_us: us(self.generation_time_ms),
        }
    }
}

impl CompletionChoice<'_> {
    /// Appends its tokens. Missing values are an error; their ranges are validated elsewhere.
    pub(super) fn append_to(&self, prompt: &[u32], tokens: &mut SampledTokens) -> Result<(), EngineClientError> {
        if self.index != 0 {
            return Err(EngineClientError::invalid("choices[].index", self.index, "0, since one sample was requested"));
        }
        if self.prompt_token_ids.as_ref().is_some_and(|read| read != prompt) {
            let allowed = "the ids that were sent";
            return Err(EngineClientError::invalid("prompt_token_ids", "another prompt", allowed));
        }
        let Some(ids) = &self.token_ids else {
            return Err(EngineClientError::invalid("token_ids", "absent", "present, as requested by return_token_ids"));
        };
        let values = self.logprobs.as_ref().map(|given| given.token_logprobs.as_slice());
        let values = match values {
            Some(values) => values,
            // A chunk without tokens needs none.
            None if ids.is_empty() => &[],
            None => return Err(EngineClientError::invalid("logprobs", "absent", "present, as requested by logprobs")),
        };
        if values.len() != ids.len() {
            let allowed = format!("one for each of {} token ids", ids.len());
            return Err(EngineClientError::invalid("token_logprobs", format_args!("{} values", values.len()), allowed));
        }
        for (&id, value) in ids.iter().zip(values) {
            let Some(value) = *value else {
                let field = format!("token_logprobs[{}]", tokens.count());
                return Err(EngineClientError::invalid(&field, "null", "a number"));
            };
            tokens.push(id, value);
        }
        Ok(())
    }

    /// How the sample ended. `None` if it has not.
    pub(super) fn finish(&self) -> Result<Option<SampleFinish>, EngineClientError> {
        let Some(found) = self.finish_reason.as_deref() else { return Ok(None) };
        let finish = SampleFinish::ALL.into_iter().find(|finish| finish.label() == found);
        finish.map(Some).ok_or_else(|| {
            let allowed = "stop, length, repetition or abort";
            EngineClientError::invalid("finish_reason", format_args!("{found:?}"), allowed)
        })
    }
}

/// Parses a response to a request for one sample.
pub(super) fn parse(
    body: &[u8],
    prompt: &[u32],
    tokens: &mut SampledTokens,
) -> Result<SampleOutcome, EngineClientError> {
    let completion: Completion<'_> = match serde_json::from_slice(body) {
        Ok(completion) => completion,
        // Some engines report errors with status 200.
        Err(_) if is_error(body) => {
            return Err(EngineClientError::status(COMPLETIONS, 200, message_of(body)));
        }
        Err(error) => return Err(EngineClientError::invalid("body", error, "a completion in JSON")),
    };
    let [choice] = completion.choices.as_slice() else {
        let found = completion.choices.len();
        return Err(EngineClientError::invalid("choices", format_args!("{found} samples"), "one, as requested by n"));
    };
    choice.append_to(prompt, tokens)?;
    let finish =
        choice.finish()?.ok_or_else(|| EngineClientError::invalid("finish_reason", "absent", "a finish reason"))?;
    if let Some(counted) = completion.usage.and_then(|usage| usage.completion_tokens)
        && counted != tokens.count() as u64
    {
        let allowed = format!("{}, the number of token ids", tokens.count());
        return Err(EngineClientError::invalid("usage.completion_tokens", counted, allowed));
    }
    let timings = completion.metrics.as_ref().map(Metrics::timings).unwrap_or_default();
    Ok(SampleOutcome { finish, timings })
}

/// Whether a body is an object with an error.
pub(super) fn is_error(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct ErrorBody {
        #[serde(default)]
        error: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_slice::<ErrorBody>(body).is_ok_and(|body| body.error.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As vLLM 0.32 responds.
    const REAL: &str = r#"{"id":"cmpl-a/b#1","object":"text_completion","created":1795178314,"model":"m","choices":[{"index":0,
        "text":"G{","logprobs":{"text_offset":[0,0],"token_logprobs":[-4.764978408813477,-4.887688636779785],"tokens":["","G"],
        "top_logprobs":[{"":-4.764978408813477},{"G":-4.887688636779785}]},"finish_reason":"length","stop_reason":null,
        "token_ids":[108,42],"prompt_logprobs":null,"prompt_token_ids":[5,6,7],"routed_experts":null}],"service_tier":null,
        "system_fingerprint":"vllm-0.32.0-36f742f9","usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,
        "prompt_tokens_details":null,"completion_tokens_details":null},"kv_transfer_params":null,"metrics":null}"#;

    fn refused(body: &str) -> String {
        parse(body.as_bytes(), &[5, 6, 7], &mut SampledTokens::default()).unwrap_err().to_string()
    }

    #[test]
    fn a_response_of_the_real_engine_is_parsed() {
        let mut tokens = SampledTokens::default();
        let outcome = parse(REAL.as_bytes(), &[5, 6, 7], &mut tokens).unwrap();
        assert_eq!(outcome, SampleOutcome { finish: SampleFinish::Length, timings: EngineTimings::default() });
        assert_eq!((tokens.ids(), tokens.log_probabilities()), (&[108, 42][..], &[-4.764_978_4, -4.887_688_6][..]));
    }

    #[test]
    fn missing_and_odd_fields_are_named() {
        let cases = [
            (REAL.replace("[108,42]", "[108]"), "token_logprobs is 2 values, allowed: one for each of 1 token ids"),
            (REAL.replace(",-4.887688636779785],", ",null],"), "token_logprobs[1] is null"),
            (REAL.replace(r#""token_ids":[108,42],"#, ""), "token_ids is absent"),
            (REAL.replace("\"length\"", "null"), "finish_reason is absent"),
            (REAL.replace("\"length\"", "\"error\""), "finish_reason is \"error\""),
            (REAL.replace("[5,6,7]", "[5,6]"), "prompt_token_ids is another prompt"),
            (REAL.replace("\"index\":0", "\"index\":1"), "choices[].index is 1"),
            (REAL.replace("\"completion_tokens\":2", "\"completion_tokens\":3"), "usage.completion_tokens is 3"),
            (REAL[..200].to_owned(), "body is "),
            (REAL.replace("-4.764978408813477,", "NaN,"), "body is "),
            (r#"{"choices":[]}"#.to_owned(), "choices is 0 samples"),
            (r#"{"error":{"message":"engine core died"}}"#.to_owned(), "engine core died"),
        ];
        for (body, said) in cases {
            let error = refused(&body);
            assert!(error.contains(said), "{error}");
        }
    }
}
