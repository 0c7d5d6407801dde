//! Lists of models and checkpoints.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::bodies::RequestBody;
use super::{ok, read, refused};
use crate::error::ApiError;
use crate::front::Front;
use crate::store::{Checkpoint, CheckpointKind, Model, StoredState};

/// Entries of a list at most.
const PAGE: usize = 1000;

#[derive(Deserialize)]
pub(super) struct Page {
    limit: Option<usize>,
    offset: Option<usize>,
}

impl Page {
    fn of(&self, all: Vec<Value>) -> (Vec<Value>, Value) {
        let limit = self.limit.unwrap_or(100).min(PAGE);
        let offset = self.offset.unwrap_or(0);
        let cursor = json!({"limit": limit, "offset": offset, "total_count": all.len()});
        (all.into_iter().skip(offset).take(limit).collect(), cursor)
    }
}

pub(super) async fn runs(State(front): State<Arc<Front>>, Query(page): Query<Page>) -> Response {
    let state = front.state();
    let all = state.models.iter().map(|(id, model)| describe_run(&front, &state, id, model)).collect();
    let (runs, cursor) = page.of(all);
    ok(json!({"training_runs": runs, "cursor": cursor}))
}

pub(super) async fn run(State(front): State<Arc<Front>>, Path(id): Path<String>) -> Result<Response, ApiError> {
    let state = front.state();
    let model = state.models.get(&id).ok_or_else(|| ApiError::not_found(format!("there is no training run {id}")))?;
    Ok(ok(describe_run(&front, &state, &id, model)))
}

fn describe_run(front: &Front, state: &StoredState, id: &str, model: &Model) -> Value {
    let of_model = |kind| {
        let all = state.checkpoints.iter().filter(|(_, checkpoint)| checkpoint.model == id && checkpoint.kind == kind);
        all.max_by_key(|(_, checkpoint)| checkpoint.created).map(|(path, checkpoint)| describe(path, checkpoint))
    };
    let mut body = json!({
        "training_run_id": id,
        "base_model": front.settings.model_name,
        "model_owner": "",
        "is_lora": true,
        "lora_rank": front.adapters.rank,
        "corrupted": false,
        "last_request_time": time(model.updated),
    });
    for (field, checkpoint) in [
        ("last_checkpoint", of_model(CheckpointKind::Training)),
        ("last_sampler_checkpoint", of_model(CheckpointKind::Sampler)),
        ("user_metadata", model.user_metadata.clone()),
    ] {
        if let Some(value) = checkpoint {
            body[field] = value;
        }
    }
    body
}

pub(super) async fn of_run(State(front): State<Arc<Front>>, Path(id): Path<String>) -> Response {
    let state = front.state();
    let all = state.checkpoints.iter().filter(|(_, checkpoint)| checkpoint.model == id);
    let all: Vec<Value> = all.map(|(path, checkpoint)| describe(path, checkpoint)).collect();
    ok(json!({"checkpoints": all}))
}

pub(super) async fn all(State(front): State<Arc<Front>>, Query(page): Query<Page>) -> Response {
    let all = front.state().checkpoints.iter().map(|(path, checkpoint)| describe(path, checkpoint)).collect();
    let (checkpoints, cursor) = page.of(all);
    ok(json!({"checkpoints": checkpoints, "cursor": cursor}))
}

fn describe(path: &str, checkpoint: &Checkpoint) -> Value {
    let kind = match checkpoint.kind {
        CheckpointKind::Training => "training",
        CheckpointKind::Sampler => "sampler",
    };
    let mut body = json!({
        "checkpoint_id": format!("{}/{}", checkpoint.kind.folder(), checkpoint.name),
        "checkpoint_type": kind,
        "time": time(checkpoint.created),
        "tinker_path": path,
        "size_bytes": checkpoint.size_bytes,
        "public": false,
    });
    if let Some(metadata) = &checkpoint.user_metadata {
        body["user_metadata"] = metadata.clone();
    }
    if let Some(expires) = checkpoint.expires {
        body["expires_at"] = time(expires).into();
    }
    body
}

pub(super) async fn delete(
    State(front): State<Arc<Front>>,
    Path((id, kind, name)): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    let path = format!("tinker://{id}/{kind}/{name}");
    let unknown = ApiError::not_found(format!("there is no checkpoint {path}"));
    match front.blocking(move |front| front.delete_checkpoint(&path)).await.map_err(refused)? {
        Some(()) => Ok(StatusCode::NO_CONTENT.into_response()),
        None => Err(unknown),
    }
}

#[derive(Deserialize)]
struct WeightsInfo {
    tinker_path: String,
}

pub(super) async fn weights_info(State(front): State<Arc<Front>>, body: RequestBody) -> Result<Response, ApiError> {
    let WeightsInfo { tinker_path } = read(&body.bytes)?;
    if !front.state().checkpoints.contains_key(&tinker_path) {
        return Err(ApiError::not_found(format!("there is no checkpoint {tinker_path}")));
    }
    let adapters = front.adapters;
    Ok(ok(json!({
        "base_model": front.settings.model_name,
        "is_lora": true,
        "lora_rank": adapters.rank,
        "train_unembed": adapters.head,
        "train_mlp": adapters.mlp,
        "train_attn": adapters.attention,
    })))
}

/// A time as RFC 3339 writes it.
fn time(seconds: u64) -> String {
    let days = seconds / 86_400;
    let of_day = seconds % 86_400;
    // Civil from days (Howard Hinnant), for dates after 1970.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let hour = of_day / 3600;
    let minute = of_day / 60 % 60;
    let second = of_day % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_are_written_as_rfc_3339() {
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
        assert_eq!(time(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(time(1_795_723_200), "2026-11-26T20:00:00Z");
    }
}
