//! Sampling sessions and samples.

use std::sync::{Arc, PoisonError};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use evenkeel_host::sha256;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::Sampling;
use serde::Deserialize;
use serde_json::{Value, json};

use super::bodies::RequestBody;
use super::models::check_base;
use super::training::sampler_id;
use super::{ok, read, refused};
use crate::error::{ApiError, Failure};
use crate::front::{Front, SampleRequest};
use crate::futures::OperationOutcome;
use crate::sampling::SampleJob;
use crate::store::{Sampler, Weights, now};

/// Samples of one request.
const MAX_SAMPLES: u32 = 1024;

#[derive(Deserialize)]
struct Create {
    session_id: String,
    sampling_session_seq_id: u64,
    base_model: Option<String>,
    model_path: Option<String>,
}

pub(super) async fn create(State(front): State<Arc<Front>>, body: RequestBody) -> Result<Response, ApiError> {
    let Create { session_id, sampling_session_seq_id, base_model, model_path } = read(&body.bytes)?;
    front.check_session(&session_id)?;
    let weights = match &model_path {
        Some(path) => Some(front.sampler_checkpoint(path).map_err(refused)?),
        None => {
            check_base(&front, &base_model.ok_or_else(|| FieldError::missing("base_model", "or model_path"))?)?;
            None
        }
    };
    let id = sampler_id(&session_id, sampling_session_seq_id);
    let known = front.state().samplers.get(&id).map(|sampler| (sampler.path.clone(), sampler.weights.clone()));
    match known {
        Some(same) if same == (model_path.clone(), weights.clone()) => {}
        Some(_) => {
            let allowed = "a number that no other sampling session of this session has";
            return Err(FieldError::new("sampling_session_seq_id", sampling_session_seq_id, allowed).into());
        }
        None => {
            let sampler = Sampler { session: session_id, path: model_path, weights, created: now() };
            let new = id.clone();
            front.blocking(move |front| front.keep_sampler(new, sampler)).await.map_err(refused)?;
        }
    }
    Ok(ok(json!({"type": "create_sampling_session", "sampling_session_id": id})))
}

pub(super) async fn info(State(front): State<Arc<Front>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let state = front.state();
    let sampler = state.samplers.get(&id).ok_or_else(|| gone(&id))?;
    let mut body = json!({"sampler_id": id, "base_model": front.settings.model_name});
    if let Some(path) = &sampler.path {
        body["model_path"] = path.as_str().into();
    }
    let weights = sampler.weights.as_ref().or(state.base.as_ref());
    if let Some(verdict) = weights.and_then(|weights| front.verdicts.of(weights.version)) {
        let (found, why) = verdict.parts();
        body["weights_proof"] = json!({"state": found, "reason": why});
    }
    Ok(ok(body))
}

fn gone(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no sampling session {id} (any more; see keep_samplers)"))
}

#[derive(Deserialize)]
struct Sample {
    sampling_session_id: Option<String>,
    #[serde(default)]
    seq_id: u64,
    #[serde(default = "one")]
    num_samples: u32,
    prompt: Prompt,
    #[serde(default)]
    sampling_params: SamplingParams,
    #[serde(default)]
    prompt_logprobs: Option<bool>,
    /// What is not served, which a client must not believe to have.
    topk_prompt_logprobs: Option<u64>,
    topk_sample_logprobs: Option<u64>,
    prompt_alt_tokens_k: Option<u64>,
    target_prompt_logprobs: Option<Value>,
    prompt_logprobs_last_n: Option<Value>,
    record_stability_info: Option<bool>,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize)]
struct Prompt {
    chunks: Vec<PromptChunk>,
}

#[derive(Deserialize)]
struct PromptChunk {
    #[serde(rename = "type")]
    kind: Option<String>,
    tokens: Option<Vec<u32>>,
}

#[derive(Deserialize)]
#[serde(default)]
struct SamplingParams {
    max_tokens: Option<u32>,
    seed: Option<i64>,
    stop: Option<Stop>,
    temperature: f32,
    top_k: i64,
    top_p: f32,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self { max_tokens: None, seed: None, stop: None, temperature: 1.0, top_k: -1, top_p: 1.0 }
    }
}

/// Absent or empty: the model's end tokens.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text, a list of texts or a list of token ids")]
enum Stop {
    Text(String),
    Ids(Vec<u32>),
    Texts(Vec<String>),
}

pub(super) async fn sample(State(front): State<Arc<Front>>, body: RequestBody) -> Result<Response, ApiError> {
    let RequestBody { bytes, room } = body;
    let request: Sample = read(&bytes)?;
    let Some(sampler) = request.sampling_session_id.clone() else {
        return Err(
            FieldError::missing("sampling_session_id", "a sampling session, as SDKs since 0.25.0 have it").into()
        );
    };
    let (session, weights) = weights_of(&front, &sampler)?;
    front.sessions.heard(&session);
    let digest = sha256(&bytes);
    let number = request.seq_id;
    let mut sampled = front.sampled.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(earlier) = sampled.get(&(sampler.clone(), number)) {
        return if earlier.digest == digest {
            Ok(ok(earlier.answer()))
        } else {
            Err(ApiError::bad(format!("seq_id is {number}, which was taken by another request")))
        };
    }
    let room = front.admit(room)?;
    let promise = front.futures.promise(front.fresh_id("request"), &session, room);
    let taken = SampleRequest {
        digest,
        id: promise.id().to_owned(),
        samples: request.num_samples.min(MAX_SAMPLES),
        _room: front.admission.charge(SampleRequest::BYTES),
    };
    let answer = taken.answer();
    sampled.insert((sampler.clone(), number), taken);
    drop(sampled);
    match prepared(&front, &sampler, request) {
        Ok(Prepared { prompt, samples, sampling, stop_texts, prompt_logprobs }) => {
            let deadline_ms = front.settings.sample_deadline.as_millis() as u64;
            let job =
                SampleJob { weights, prompt, samples, sampling, stop_texts, prompt_logprobs, deadline_ms, promise };
            if front.samples.send(job).is_err() {
                return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"));
            }
        }
        Err(error) => promise.complete(OperationOutcome::Failed(Failure::from(error))),
    }
    Ok(ok(answer))
}

/// What a sampling session samples from, and whose it is.
fn weights_of(front: &Front, sampler: &str) -> Result<(String, Weights), ApiError> {
    let state = front.state();
    let sampler = state.samplers.get(sampler).ok_or_else(|| gone(sampler))?;
    let weights = sampler.weights.clone().or_else(|| state.base.clone());
    Ok((sampler.session.clone(), weights.ok_or_else(|| ApiError::not_found("the base model is not published"))?))
}

struct Prepared {
    prompt: Vec<u32>,
    samples: u32,
    sampling: Sampling,
    stop_texts: Vec<String>,
    prompt_logprobs: bool,
}

fn prepared(front: &Front, sampler: &str, request: Sample) -> Result<Prepared, FieldError> {
    let absent = "absent: it is not served";
    let counts = [
        ("topk_prompt_logprobs", request.topk_prompt_logprobs),
        ("topk_sample_logprobs", request.topk_sample_logprobs),
        ("prompt_alt_tokens_k", request.prompt_alt_tokens_k),
    ];
    if let Some((field, value)) = counts.into_iter().find_map(|(field, value)| Some((field, value.filter(|n| *n > 0)?)))
    {
        return Err(FieldError::new(field, value, absent));
    }
    for (field, value) in [
        ("target_prompt_logprobs", request.target_prompt_logprobs),
        ("prompt_logprobs_last_n", request.prompt_logprobs_last_n),
    ] {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            return Err(FieldError::new(field, value, absent));
        }
    }
    if request.record_stability_info == Some(true) {
        return Err(FieldError::new("record_stability_info", true, "false: the loss stable_reinforce is not served"));
    }
    let samples = request.num_samples;
    FieldError::ensure((1..=MAX_SAMPLES).contains(&samples), "num_samples", samples, format!("1 to {MAX_SAMPLES}"))?;
    let mut prompt = Vec::new();
    for (number, chunk) in request.prompt.chunks.into_iter().enumerate() {
        let field = format!("prompt.chunks[{number}]");
        match chunk {
            PromptChunk { tokens: Some(tokens), .. } => prompt.extend(tokens),
            PromptChunk { kind, .. } => return Err(FieldError::new(field, kind.unwrap_or_default(), "encoded_text")),
        }
    }
    let context = front.context as usize;
    FieldError::ensure(
        (1..context).contains(&prompt.len()),
        "prompt",
        format_args!("{} tokens", prompt.len()),
        format!("1 to {}", context.saturating_sub(1)),
    )?;
    let SamplingParams { max_tokens, seed, stop, temperature, top_k, top_p } = request.sampling_params;
    let left = (context - prompt.len()) as u32;
    let (stop_token_ids, stop_texts) = match stop {
        None => (Vec::new(), Vec::new()),
        Some(Stop::Ids(ids)) => (ids, Vec::new()),
        Some(Stop::Text(text)) => (Vec::new(), vec![text]),
        Some(Stop::Texts(texts)) => (Vec::new(), texts),
    };
    // Given stops take the place of the model's own; an empty list gives none.
    let ignore_eos = !stop_token_ids.is_empty() || !stop_texts.is_empty();
    if let Some(text) = stop_texts.iter().find(|text| text.is_empty() || !front.has_tokenizer) {
        return Err(FieldError::quoted(
            "stop",
            text,
            "texts of at least one character, where the model has a tokenizer",
        ));
    }
    let seed = match seed {
        Some(seed) => u64::try_from(seed).map_err(|_| FieldError::new("seed", seed, "0 or above"))?,
        None => seed_of(sampler, request.seq_id),
    };
    let sampling = Sampling {
        temperature: Some(temperature),
        top_p: Some(top_p),
        top_k: Some(u32::try_from(top_k.max(0)).unwrap_or(u32::MAX)),
        min_p: Some(0.0),
        repetition_penalty: Some(1.0),
        max_tokens: Some(max_tokens.unwrap_or(left).min(left)),
        min_tokens: Some(0),
        seed: Some(seed),
        stop_token_ids,
        ignore_eos: Some(ignore_eos),
        unseeded: false,
    };
    let prompt_logprobs = request.prompt_logprobs == Some(true);
    Ok(Prepared { prompt, samples, sampling, stop_texts, prompt_logprobs })
}

/// The seed of a request without one: a repeated request has the same samples.
fn seed_of(sampler: &str, number: u64) -> u64 {
    let digest = sha256(format!("{sampler} {number}"));
    u64::from_str_radix(&digest["sha256:".len()..][..15], 16).unwrap_or_default()
}
