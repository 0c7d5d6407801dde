//! Training requests: each takes its place among those of its model by its number, also one that is refused.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use evenkeel_host::sha256;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::ApplyOperation;
use evenkeel_rpc::server::ReceivedBody;
use prost::Message as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::bodies::{Place, RequestBody, check_metadata, fields, receive};
use super::{ok, read};
use crate::admission::Room;
use crate::datum::accumulation;
use crate::error::ApiError;
use crate::front::Front;
use crate::sessions::session_of;
use crate::store::now;
use crate::training::{Keep, LIVE, Operation, SamplerTarget, Training};
use crate::wire::{ForwardBackwardPlace, ForwardBackwardRequest, PROTOBUF};

pub(super) async fn forward_backward(State(front): State<Arc<Front>>, request: Request) -> Result<Response, ApiError> {
    let headers = request.headers();
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind != PROTOBUF || headers.contains_key("content-encoding") {
        let message = format!("allowed: {PROTOBUF}, not compressed, as SDKs since 0.25.0 send it here");
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    let limit = front.settings.max_body;
    let (body, room) = receive(&front, request).await?;
    let (bytes, is_whole) = match body {
        ReceivedBody::Whole(bytes) => (bytes, true),
        ReceivedBody::Longer { beginning, .. } => (beginning, false),
    };
    // What stands at the beginning can be read even of a request that is cut or damaged later on.
    let mut place = ForwardBackwardPlace::default();
    let readable = place.merge(bytes.clone());
    let number = u64::try_from(place.seq_id).ok().filter(|_| !place.model_id.is_empty());
    let Some(number) = number else {
        let cause = readable.map_or_else(|error| error.to_string(), |()| "seq_id and model_id are required".to_owned());
        return Err(ApiError::bad(format!("the body is not a ForwardBackwardRequest: {cause}")));
    };
    // Large ones take a while.
    let digest = sha256(&bytes);
    let decoded = tokio::task::spawn_blocking(move || {
        let allowed = "less data (the server's tinker.max_body)";
        FieldError::ensure(is_whole, "body", format_args!("above {limit}"), allowed)?;
        ForwardBackwardRequest::decode(bytes)
            .map_err(|error| FieldError::new("body", "not readable", format!("a ForwardBackwardRequest, but: {error}")))
            .and_then(accumulation)
    });
    let operation =
        decoded.await.map_err(|error| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    submit(&front, &place.model_id, number, digest, room, Operation::Accumulate(operation))
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
    adam_params: Option<AdamParams>,
    optimizer_params: Option<Value>,
}

pub(super) async fn optim_step(State(front): State<Arc<Front>>, body: RequestBody) -> Result<Response, ApiError> {
    let place: Place = read(&body.bytes)?;
    let operation =
        fields(&body.bytes).and_then(|OptimStep { adam_params, optimizer_params }| match optimizer_params {
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
        });
    submit_json(&front, &place, body, Operation::Apply(operation))
}

#[derive(Deserialize)]
struct Save {
    path: Option<String>,
    #[serde(default)]
    overwrite: bool,
    ttl_seconds: Option<u64>,
    user_metadata: Option<Value>,
    sampling_session_seq_id: Option<u64>,
    kind: Option<String>,
}

impl Save {
    fn keep(&mut self) -> Result<Keep, FieldError> {
        check_metadata(self.user_metadata.as_ref())?;
        let expires = self.ttl_seconds.map(|seconds| now().saturating_add(seconds));
        Ok(Keep { expires, user_metadata: self.user_metadata.take() })
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

pub(super) async fn save(State(front): State<Arc<Front>>, body: RequestBody) -> Result<Response, ApiError> {
    let place: Place = read(&body.bytes)?;
    let operation = fields(&body.bytes).and_then(|mut request: Save| {
        Ok(Operation::Save { name: request.name()?, overwrite: request.overwrite, keep: request.keep()? })
    });
    submit_json(&front, &place, body, operation.unwrap_or_else(Operation::Refused))
}

pub(super) async fn save_for_sampler(State(front): State<Arc<Front>>, body: RequestBody) -> Result<Response, ApiError> {
    let place: Place = read(&body.bytes)?;
    let operation = fields(&body.bytes).and_then(|mut request: Save| {
        if let Some(kind) = request.kind.as_deref().filter(|kind| *kind != "snapshot") {
            return Err(FieldError::quoted("kind", kind, "snapshot: weights that clients sample from do not change"));
        }
        let target = match (&request.path, request.sampling_session_seq_id) {
            (Some(_), _) => SamplerTarget::Path { name: request.name()?, overwrite: request.overwrite },
            (None, Some(number)) => SamplerTarget::Session(sampler_id(session_of(&place.model_id), number)),
            (None, None) => return Err(FieldError::missing("path", "a name, or sampling_session_seq_id")),
        };
        Ok(Operation::SaveForSampler { target, keep: request.keep()? })
    });
    submit_json(&front, &place, body, operation.unwrap_or_else(Operation::Refused))
}

/// The id of a sampling session.
pub(super) fn sampler_id(session: &str, number: u64) -> String {
    format!("{session}:sample:{number}")
}

/// Queues what a JSON request asks for.
pub(super) fn submit_json(
    front: &Front,
    place: &Place,
    body: RequestBody,
    operation: Operation,
) -> Result<Response, ApiError> {
    submit(front, &place.model_id, place.seq_id, sha256(&body.bytes), body.room, operation)
}

/// Queues an operation of the model in training.
fn submit(
    front: &Front,
    model: &str,
    number: u64,
    digest: String,
    room: Room,
    operation: Operation,
) -> Result<Response, ApiError> {
    let training = training(front, model)?;
    front.sessions.heard(&training.session);
    let id = training.submit(number, digest, |is_next| {
        let room = if is_next { room } else { front.admit(room)? };
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
