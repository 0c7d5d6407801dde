//! Scores of given tokens: `prompt_logprobs` of one request with several prompts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_rpc::error::millis;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::LogProbabilities;
use super::{COMPLETIONS, VllmClient, adapters};
use crate::engine::{EngineClientError, ScoreRequest, SequenceScore, http, opaque_request_id};

/// A token of a large model on few cores takes some milliseconds.
const TIME_PER_TOKEN: Duration = Duration::from_millis(50);
/// The most that this time is multiplied by, for machines that have much else to do.
const MAX_TIMEOUT_FACTOR: u32 = 64;

#[derive(Deserialize)]
struct Completion {
    choices: Vec<ScoredChoice>,
}

#[derive(Deserialize)]
struct ScoredChoice {
    index: usize,
    #[serde(default)]
    token_ids: Option<Vec<u32>>,
    #[serde(default)]
    prompt_token_ids: Option<Vec<u32>>,
    #[serde(default)]
    logprobs: Option<LogProbabilities>,
    /// Scores of each token of the prompt; null for the first. Keys are token ids as text.
    #[serde(default)]
    prompt_logprobs: Option<Vec<Option<HashMap<String, Score>>>>,
}

#[derive(Deserialize)]
struct Score {
    logprob: f32,
}

impl VllmClient {
    /// Scores sequences in one request, within the time of a control call and [`TIME_PER_TOKEN`]; in twice that after
    /// it did not suffice.
    pub(super) async fn score_sequences(
        &self,
        request: ScoreRequest<'_>,
    ) -> Result<Vec<SequenceScore>, EngineClientError> {
        let model = Arc::clone(&*self.model.read().await);
        let request_id = opaque_request_id();
        tracing::debug!(request_id, engine = self.endpoint, sequences = request.sequences.len(), "asks for scores");
        let body = body(request.adapter.unwrap_or(&model), &request_id, &request).to_string().into_bytes();
        let exchange = async {
            let response = self.samples.post_json(COMPLETIONS, body, None).await;
            let mut response = response.map_err(|error| adapters::lost(error, request.adapter))?;
            http::read_all(COMPLETIONS, &mut response, self.max_answer).await
        };
        let tokens: usize = request.sequences.iter().map(Vec::len).sum();
        let factor = self.score_timeout_factor.load(Ordering::Relaxed);
        let usual = self.control_timeout + TIME_PER_TOKEN * u32::try_from(tokens).unwrap_or(u32::MAX);
        let limit = usual.saturating_mul(factor);
        let Ok(answered) = tokio::time::timeout(limit, exchange).await else {
            self.score_timeout_factor.store(factor.saturating_mul(2).min(MAX_TIMEOUT_FACTOR), Ordering::Relaxed);
            return Err(EngineClientError::Timeout { route: COMPLETIONS, after_ms: millis(limit) });
        };
        let bytes = answered?;
        parse(&bytes, request.sequences)
    }
}

/// Every field that influences the answer, as in a request for a sample.
fn body(model: &str, request_id: &str, request: &ScoreRequest<'_>) -> Value {
    json!({
        "model": model, "prompt": request.sequences, "n": 1, "max_tokens": 1, "temperature": request.temperature, "top_p": 1.0,
        "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "seed": 0,
        "min_tokens": 0, "ignore_eos": true, "stop": [], "stop_token_ids": [], "logprobs": 0, "prompt_logprobs": 0,
        "return_token_ids": true, "skip_special_tokens": false, "echo": false, "stream": false,
        "cache_salt": request.cache_salt, "request_id": request_id,
    })
}

fn parse(body: &[u8], sequences: &[Vec<u32>]) -> Result<Vec<SequenceScore>, EngineClientError> {
    let mut completion: Completion = serde_json::from_slice(body)
        .map_err(|error| EngineClientError::invalid("body", error, "a completion in JSON"))?;
    let choices = &mut completion.choices;
    choices.sort_by_key(|choice| choice.index);
    if choices.len() != sequences.len() {
        let allowed = format!("{}, one for each prompt", sequences.len());
        return Err(EngineClientError::invalid("choices", choices.len(), allowed));
    }
    let each = choices.iter().zip(sequences).enumerate();
    each.map(|(number, (choice, ids))| {
        if choice.index != number {
            let allowed = format!("{number}, since each prompt is answered once");
            return Err(EngineClientError::invalid("choices[].index", choice.index, allowed));
        }
        score_of(choice, ids)
    })
    .collect()
}

fn score_of(choice: &ScoredChoice, ids: &[u32]) -> Result<SequenceScore, EngineClientError> {
    if choice.prompt_token_ids.as_ref().is_some_and(|read| read != ids) {
        return Err(EngineClientError::invalid("prompt_token_ids", "another prompt", "the ids that were sent"));
    }
    let absent = || {
        EngineClientError::invalid("prompt_logprobs", "absent", "one for each token, as requested by prompt_logprobs")
    };
    let found = choice.prompt_logprobs.as_ref().ok_or_else(absent)?;
    if found.len() != ids.len() {
        let allowed = format!("{}, one for each token of the prompt", ids.len());
        return Err(EngineClientError::invalid("prompt_logprobs", format_args!("{} values", found.len()), allowed));
    }
    let scores = found.iter().zip(ids).enumerate().skip(1).map(|(at, (score, id))| {
        let score = score.as_ref().and_then(|scores| scores.get(&id.to_string()));
        let missing =
            || EngineClientError::invalid(&format!("prompt_logprobs[{at}]"), "without the prompt's token", "with it");
        score.map(|score| score.logprob).ok_or_else(missing)
    });
    let sampled = (choice.token_ids.as_deref(), choice.logprobs.as_ref().map(|found| found.token_logprobs.as_slice()));
    let (Some(&[id]), Some(&[Some(log_probability)])) = sampled else {
        return Err(EngineClientError::invalid(
            "token_ids",
            "not one token with its log-probability",
            "one, as requested by max_tokens",
        ));
    };
    Ok(SequenceScore { log_probabilities: scores.collect::<Result<_, _>>()?, sampled: (id, log_probability) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(prompt_logprobs: Value) -> Vec<u8> {
        let choice = |index: usize| json!({"index": index, "token_ids": [7], "logprobs": {"token_logprobs": [-0.5]}, "prompt_logprobs": prompt_logprobs});
        // Engines may answer prompts in any order.
        json!({"choices": [choice(1), choice(0)]}).to_string().into_bytes()
    }

    #[test]
    fn the_scores_are_those_of_the_prompts_own_tokens() {
        let scores =
            json!([null, {"5": {"logprob": -1.5, "rank": 3}, "9": {"logprob": -0.1}}, {"6": {"logprob": -2.5}}]);
        let parsed = parse(&answer(scores), &[vec![4, 5, 6], vec![4, 5, 6]]).unwrap();
        assert_eq!(parsed.len(), 2);
        assert_eq!(parsed[0], SequenceScore { log_probabilities: vec![-1.5, -2.5], sampled: (7, -0.5) });
    }

    #[test]
    fn an_answer_to_another_prompt_and_a_second_one_are_refused() {
        let scored = json!([null, {"5": {"logprob": -1.5}, "6": {"logprob": -1.0}}]);
        let choice = |index: usize, ids: [u32; 2]| {
            json!({"index": index, "token_ids": [7], "logprobs": {"token_logprobs": [-0.5]},
                "prompt_token_ids": ids, "prompt_logprobs": scored})
        };
        let read = |choices: [Value; 2]| {
            let body = json!({"choices": choices}).to_string();
            parse(body.as_bytes(), &[vec![4, 5], vec![4, 6]]).map_err(|error| error.to_string())
        };
        assert!(read([choice(0, [4, 5]), choice(1, [4, 6])]).is_ok());
        let swapped = read([choice(1, [4, 5]), choice(0, [4, 6])]).unwrap_err();
        assert!(swapped.contains("prompt_token_ids is another prompt"), "{swapped}");
        let twice = read([choice(0, [4, 5]), choice(0, [4, 5])]).unwrap_err();
        assert!(twice.contains("choices[].index is 0, allowed: 1"), "{twice}");
    }

    #[test]
    fn answers_without_scores_are_refused_by_name() {
        let refused = |scores, ids: Vec<u32>| parse(&answer(scores), &[ids.clone(), ids]).unwrap_err().to_string();
        assert!(refused(json!(null), vec![4, 5]).contains("prompt_logprobs is absent"));
        assert!(refused(json!([null]), vec![4, 5]).contains("prompt_logprobs is 1 values"));
        let other = refused(json!([null, {"9": {"logprob": -0.1}}]), vec![4, 5]);
        assert!(other.contains("prompt_logprobs[1] is without the prompt's token"), "{other}");
    }
}
