//! Creating a model, afresh or from a checkpoint. There is one at a time: the next one takes its place once its session
//! has ended.

use std::sync::{Arc, PoisonError};

use axum::extract::State;
use axum::response::Response;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::operate_request::Kind;
use evenkeel_proto::v1::{BeginOperation, LoadOperation};
use serde::Deserialize;
use serde_json::{Value, json};

use super::bodies::{RequestBody, check_metadata, fields, unreadable};
use super::training::submit_json;
use super::{ok, read};
use crate::Adapters;
use crate::admission::Room;
use crate::error::{ApiError, Failure};
use crate::front::Front;
use crate::futures::{OperationOutcome, Promise};
use crate::operations::activate;
use crate::settings::UnembedSetting;
use crate::training::{Operation, Training};

#[derive(Deserialize)]
#[serde(default)]
struct LoraConfig {
    rank: u32,
    seed: Option<i64>,
    train_unembed: bool,
    train_mlp: bool,
    train_attn: bool,
}

impl Default for LoraConfig {
    fn default() -> Self {
        Self { rank: 32, seed: None, train_unembed: true, train_mlp: true, train_attn: true }
    }
}

#[derive(Deserialize)]
struct Create {
    session_id: String,
    model_seq_id: u64,
    base_model: String,
    lora_config: Option<LoraConfig>,
    user_metadata: Option<Value>,
    optimizer_config: Option<OptimizerConfig>,
}

#[derive(Deserialize)]
struct OptimizerConfig {
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// The weights that a model begins with.
enum InitialWeights {
    Fresh { seed: Option<u64> },
    Checkpoint { path: String, optimizer: bool },
}

pub(super) async fn create(State(front): State<Arc<Front>>, body: RequestBody) -> Result<Response, ApiError> {
    let request: Create = read(&body.bytes)?;
    check_metadata(request.user_metadata.as_ref()).map_err(unreadable)?;
    front.check_session(&request.session_id)?;
    let checked = check(&front, &request);
    let Create { session_id, model_seq_id, user_metadata, .. } = request;
    let origin = match checked {
        Ok(seed) => InitialWeights::Fresh { seed },
        Err(error) => return front.refused_future(&session_id, body.room, error.into()),
    };
    begin(&front, session_id, model_seq_id, user_metadata, origin, body.room)
}

/// Refuses what this server would not do as it was asked. Returns the seed of the adapters.
fn check(front: &Front, request: &Create) -> Result<Option<u64>, FieldError> {
    check_base(front, &request.base_model)?;
    let kind = request.optimizer_config.as_ref().and_then(|config| config.kind.as_deref());
    if let Some(other) = kind.filter(|kind| *kind != "adamw") {
        return Err(FieldError::quoted("optimizer_config.type", other, "adamw"));
    }
    let Some(lora) = &request.lora_config else {
        return Err(FieldError::missing("lora_config", "adapters: all weights are not trained here"));
    };
    let Adapters { rank, mlp, attention, head } = front.adapters;
    FieldError::ensure(
        lora.rank == rank,
        "lora_config.rank",
        lora.rank,
        format!("{rank}, that of this server (its setting learner.lora.rank)"),
    )?;
    for (field, asked, served) in
        [("lora_config.train_mlp", lora.train_mlp, mlp), ("lora_config.train_attn", lora.train_attn, attention)]
    {
        FieldError::ensure(
            asked == served,
            field,
            asked,
            format!("{served} (the server's setting learner.lora.targets)"),
        )?;
    }
    if head {
        let allowed = "true: the output head has an adapter here (the server's setting learner.lora.targets)";
        FieldError::ensure(lora.train_unembed, "lora_config.train_unembed", false, allowed)?;
    } else if lora.train_unembed && front.settings.unembed == UnembedSetting::Refuse {
        let allowed = "false: the output head has no adapter here (or set tinker.unembed = frozen on the server, which \
            leaves it as it is)";
        return Err(FieldError::new("lora_config.train_unembed", true, allowed));
    }
    lora.seed
        .map(|seed| u64::try_from(seed).map_err(|_| FieldError::new("lora_config.seed", seed, "0 or above, or absent")))
        .transpose()
}

/// Refuses names of other models. What follows a colon is the hosted service's.
pub(super) fn check_base(front: &Front, name: &str) -> Result<(), FieldError> {
    let served = front.settings.model_name.as_str();
    let plain = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    if plain(name) == plain(served) {
        Ok(())
    } else {
        Err(FieldError::quoted("base_model", name, format!("{served:?}, the model of this server")))
    }
}

#[derive(Deserialize)]
struct Load {
    path: String,
    #[serde(default)]
    optimizer: bool,
    session_id: Option<String>,
    model_seq_id: Option<u64>,
    base_model: Option<String>,
    user_metadata: Option<Value>,
}

pub(super) async fn load(State(front): State<Arc<Front>>, body: RequestBody) -> Result<Response, ApiError> {
    let request = fields(&body.bytes);
    if let Ok(place) = fields(&body.bytes) {
        let operation = request.map(|Load { path, optimizer, .. }| Operation::Load { path, optimizer });
        return submit_json(&front, &place, body, operation.unwrap_or_else(Operation::Refused));
    }
    let Load { path, optimizer, session_id, model_seq_id, base_model, user_metadata } = request.map_err(unreadable)?;
    let (Some(session), Some(number)) = (session_id, model_seq_id) else {
        return Err(FieldError::missing("session_id", "with model_seq_id, or model_id with seq_id").into());
    };
    check_metadata(user_metadata.as_ref()).map_err(unreadable)?;
    front.check_session(&session)?;
    if let Some(Err(error)) = base_model.map(|name| check_base(&front, &name)) {
        return front.refused_future(&session, body.room, error.into());
    }
    begin(&front, session, number, user_metadata, InitialWeights::Checkpoint { path, optimizer }, body.room)
}

/// Begins a model in the background; a repeated request has the id of the first.
fn begin(
    front: &Arc<Front>,
    session: String,
    number: u64,
    user_metadata: Option<Value>,
    origin: InitialWeights,
    room: Room,
) -> Result<Response, ApiError> {
    let model = format!("{session}:train:{number}");
    let mut created = front.created.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(id) = created.get(&model) {
        return Ok(ok(json!({"request_id": id, "model_id": model})));
    }
    let room = front.admit(room)?;
    let promise = front.futures.promise(front.fresh_id("request"), &session, room);
    let id = promise.id().to_owned();
    created.insert(model.clone(), id.clone());
    drop(created);
    let front = Arc::clone(front);
    let answer = json!({"request_id": id, "model_id": model});
    tokio::spawn(async move { begun(&front, session, model, user_metadata, origin, promise).await });
    Ok(ok(answer))
}

async fn begun(
    front: &Arc<Front>,
    session: String,
    model: String,
    user_metadata: Option<Value>,
    origin: InitialWeights,
    promise: Promise,
) {
    let result = async {
        let _creating = front.creating.lock().await;
        take_over(front, &session).await?;
        let version = front.blocking(Front::fresh_version).await?;
        // The learner's name for the model: a new one each time, since its numbers begin anew.
        let run_id = format!("{}.{version}", model.replace(':', "."));
        let (kind, answer) = match origin {
            InitialWeights::Fresh { seed } => {
                let begin = BeginOperation { version, adapter_seed: seed };
                (Kind::Begin(begin), json!({"type": "create_model", "model_id": model}))
            }
            InitialWeights::Checkpoint { path, optimizer } => {
                let (from_run_id, name) = front.training_checkpoint(&path)?;
                let load = LoadOperation { name, from_run_id, optimizer, version };
                (Kind::Load(load), json!({"type": "load_weights", "path": path, "model_id": model}))
            }
        };
        front.backend.operate(&run_id, 1, kind).await?;
        let of = (model.clone(), session.clone());
        front.blocking(move |front| front.begin_model(&of.0, &of.1, user_metadata)).await?;
        activate(front, Training::new(model.clone(), session.clone(), run_id, 0));
        tracing::info!(model, "model begun");
        Ok(OperationOutcome::Json(answer))
    };
    let result: Result<OperationOutcome, Failure> = result.await;
    if result.is_err() {
        // It may be tried again.
        front.created.lock().unwrap_or_else(PoisonError::into_inner).remove(&model);
    }
    promise.settle(result);
}

/// Makes room for a model: refuses while another session's client is there, and waits to see whether it is.
async fn take_over(front: &Arc<Front>, session: &str) -> Result<(), Failure> {
    let Some(holder) = front.active() else { return Ok(()) };
    let refused = |why: &str| {
        Err(Failure::user(format!("this server trains one model at a time, and {} is trained {why}", holder.model)))
    };
    if holder.session == session {
        return refused("in this session");
    }
    if front.sessions.is_heard_again(&holder.session, front.settings.session_expiry).await {
        return refused("by another client, which is there: try again when it has finished");
    }
    let end = move |front: &Front| {
        front.end_session(&holder.session, "its session ended: its client was silent, and another took the model over");
        front.end_model(&holder.model, "its client was silent, and another took the model over");
    };
    front.blocking(end).await;
    Ok(())
}

#[derive(Deserialize)]
struct Info {
    model_id: String,
}

pub(super) async fn info(State(front): State<Arc<Front>>, body: RequestBody) -> Result<Response, ApiError> {
    let Info { model_id } = read(&body.bytes)?;
    if !front.state().models.contains_key(&model_id) {
        return Err(ApiError::not_found(format!("there is no model {model_id}")));
    }
    let name = &front.settings.model_name;
    Ok(ok(json!({
        "type": "get_info",
        "model_id": model_id,
        "is_lora": true,
        "lora_rank": front.adapters.rank,
        "model_name": name,
        "model_data": {
            "arch": front.architecture,
            "model_name": name,
            "tokenizer_id": front.settings.tokenizer_name(),
        },
    })))
}
