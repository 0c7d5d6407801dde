//! Training requests: each takes its place among those of its model by its number.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use evenkeel_host::sha256;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::ApplyOperation;
use prost::Message as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ok, read};
use crate::datum::accumulation;
use crate::error::ApiError;
use crate::front::Front;
use crate::store::now;
use crate::training::{Keep, LIVE, Operation, SamplerTarget, Training};
use crate::wire::{ForwardBackwardRequest, PROTOBUF};

pub(super) async fn forward_backward(
    State(front): State<Arc<Front>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind != PROTOBUF || headers.contains_key("content-encoding") {
        let message = format!("allowed: {PROTOBUF}, not compressed, as SDKs since 0.25.0 send it here");
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    // Large ones take a while.
    let digest = sha256(&body);
    let size = body.len();
    let bytes = body;
    let decoded = tokio::task::spawn_blocking(move || {
        let request = ForwardBackwardRequest::decode(bytes)
            .map_err(|error| ApiError::bad(format!("the body is not a ForwardBackwardRequest: {error}")))?;
        let model = request.model_id.clone();
        let number = request.seq_id;
        Ok::<_, ApiError>((model, number, accumulation(request)))
    });
    let decoded = decoded.await.map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let (model, number, operation) = decoded?;
    let number = u64::try_from(number).map_err(|_| FieldError::new("seq_id", number, "1 or above"))?;
    submit(&front, &model, number, digest, size, Operation::Accumulate(operation))
}

#[derive(Deserialize)]
#[serde(default)]
struct AdamParams {
    learning_rate: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    grad_clip_norm: f64,
}

impl Default for AdamParams {
    fn default() -> Self {
        Self { learning_rate: 1e-4, beta1: 0.9, beta2: 0.95, eps: 1e-12, weight_decay: 0.0, grad_clip_norm: 0.0 }
    }
}

#[derive(Deserialize)]
struct OptimStep {
    model_id: String,
    seq_id: u64,
    adam_params: Option<AdamParams>,
    optimizer_params: Option<Value>,
}

pub(super) async fn optim_step(State(front): State<Arc<Front>>, body: Bytes) -> Result<Response, ApiError> {
    let OptimStep { model_id, seq_id, adam_params, optimizer_params } = read(&body)?;
    let operation = match optimizer_params {
        Some(other) => Err(FieldError::new("optimizer_params", other, "absent: adam_params is what is served")),
        None => {
            let adam = adam_params.unwrap_or_default();
            Ok(ApplyOperation {
                learning_rate: adam.learning_rate,
                beta1: adam.beta1,
                beta2: adam.beta2,
                epsilon: adam.eps,
                weight_decay: adam.weight_decay,
                // 0 is none.
                max_gradient_norm: (adam.grad_clip_norm != 0.0).then_some(adam.grad_clip_norm),
            })
        }
    };
    submit(&front, &model_id, seq_id, sha256(&body), body.len(), Operation::Apply(operation))
}

#[derive(Deserialize)]
struct Save {
    model_id: String,
    seq_id: u64,
    path: Option<String>,
    #[serde(default)]
    overwrite: bool,
    ttl_seconds: Option<u64>,
    user_metadata: Option<Value>,
    sampling_session_seq_id: Option<u64>,
    kind: Option<String>,
}

impl Save {
    fn keep(&mut self) -> Keep {
        let expires = self.ttl_seconds.map(|seconds| now().saturating_add(seconds));
        Keep { expires, user_metadata: self.user_metadata.take() }
    }

    /// A name of a checkpoint, which is the last part of its path.
    fn name(&self) -> Result<String, FieldError> {
        let name = self.path.clone().unwrap_or_default();
        let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_name = (1..=128).contains(&name.len()) && name.bytes().all(good) && !name.bytes().all(|b| b == b'.');
        if is_name && name != LIVE {
            Ok(name)
        } else {
            Err(FieldError::quoted("path", name, "letters, digits, `-`, `_` and `.`, 1 to 128 of them"))
        }
    }
}

pub(super) async fn save(State(front): State<Arc<Front>>, body: Bytes) -> Result<Response, ApiError> {
    let mut request: Save = read(&body)?;
    let operation = match request.name() {
        Ok(name) => Operation::Save { name, overwrite: request.overwrite, keep: request.keep() },
        Err(refused) => Operation::Refused(refused),
    };
    submit(&front, &request.model_id, request.seq_id, sha256(&body), body.len(), operation)
}

pub(super) async fn save_for_sampler(State(front): State<Arc<Front>>, body: Bytes) -> Result<Response, ApiError> {
    let mut request: Save = read(&body)?;
    let target = || {
        if let Some(kind) = request.kind.as_deref().filter(|kind| *kind != "snapshot") {
            return Err(FieldError::quoted("kind", kind, "snapshot: weights that clients sample from do not change"));
        }
        match (&request.path, request.sampling_session_seq_id) {
            (Some(_), _) => request.name().map(SamplerTarget::Path),
            (None, Some(number)) => {
                let session = request.model_id.split(":train:").next().unwrap_or_default();
                Ok(SamplerTarget::Session(sampler_id(session, number)))
            }
            (None, None) => Err(FieldError::missing("path", "a name, or sampling_session_seq_id")),
        }
    };
    let operation = match target() {
        Ok(target) => Operation::SaveForSampler { target, keep: request.keep() },
        Err(refused) => Operation::Refused(refused),
    };
    submit(&front, &request.model_id, request.seq_id, sha256(&body), body.len(), operation)
}

/// The id of a sampling session.
pub(super) fn sampler_id(session: &str, number: u64) -> String {
    format!("{session}:sample:{number}")
}

/// Queues an operation of the model in training.
pub(super) fn submit(
    front: &Front,
    model: &str,
    number: u64,
    digest: String,
    size: usize,
    operation: Operation,
) -> Result<Response, ApiError> {
    let training = training(front, model)?;
    front.sessions.heard(&training.session);
    let id = training.submit(number, digest, |is_next| {
        let room = if is_next { front.admission.charge(size) } else { front.admit(size)? };
        Ok((operation, front.futures.promise(front.fresh_id("request"), &training.session, room)))
    })?;
    Ok(ok(json!({"request_id": id, "model_id": model})))
}

/// The model in training, if it is this one.
fn training(front: &Front, model: &str) -> Result<Arc<Training>, ApiError> {
    if let Some(training) = front.active().filter(|training| training.model == model) {
        return Ok(training);
    }
    let known = front.state().models.get(model).map(|model| model.gone.clone());
    match known {
        Some(gone) => {
            let why = gone.unwrap_or_else(|| "it is not in memory".to_owned());
            Err(ApiError::new(StatusCode::GONE, format!("model {model} is no longer trained: {why}")))
        }
        None => Err(ApiError::not_found(format!("there is no model {model}"))),
    }
}
