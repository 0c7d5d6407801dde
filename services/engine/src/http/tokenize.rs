//! `/tokenize` and `/detokenize`.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use evenkeel_errors::FieldError;
use evenkeel_model_folder::TextError;
use serde_json::{Map, Value, json};

use super::error::ApiError;
use super::fields::Fields;
use super::{App, ok, parse};
use crate::text::Tokenizer;

pub(super) async fn tokenize(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let map: Map<String, Value> = parse(&body)?;
    if let Some(messages) = map.get("messages").filter(|messages| !messages.is_null()) {
        return Err(FieldError::new("messages", messages, "absent (no chat templates are rendered here)").into());
    }
    required(&map, "prompt", "a string")?;
    let mut fields = Fields::new(map);
    let model = fields.string("model");
    let text = fields.string("prompt");
    let add_special = fields.bool("add_special_tokens").unwrap_or(true);
    let with_strings = fields.bool("return_token_strs").unwrap_or(false);
    fields.refuse_malformed()?;
    fields.refuse_rest()?;
    let tokenizer = tokenizer(&app, model)?;
    let text = text.unwrap_or_default();
    let work = move || {
        let tokens = tokenizer.encode(&text, add_special)?;
        let strings = with_strings.then(|| tokens.iter().map(|&id| tokenizer.token(id)).collect::<Vec<_>>());
        Ok::<_, TextError>((tokens, strings))
    };
    let (tokens, strings) = blocking(work).await??;
    let context = app.model.context;
    Ok(ok(&json!({"count": tokens.len(), "max_model_len": context, "tokens": tokens, "token_strs": strings})))
}

pub(super) async fn detokenize(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let map: Map<String, Value> = parse(&body)?;
    required(&map, "tokens", "a list of token ids")?;
    let mut fields = Fields::new(map);
    let model = fields.string("model");
    let ids = fields.ints("tokens").unwrap_or_default();
    if let Some((at, id)) = ids.iter().enumerate().find(|&(_, &id)| id < 0) {
        fields.refuse(&format!("tokens.{at}"), &json!(id), "0 or above");
    }
    fields.refuse_malformed()?;
    fields.refuse_rest()?;
    let tokenizer = tokenizer(&app, model)?;
    // Unknown ids have no text, including those beyond 32 bits.
    let ids: Vec<u32> = ids.into_iter().filter_map(|id| u32::try_from(id).ok()).collect();
    let text = blocking(move || tokenizer.decode(&ids, false)).await?;
    Ok(ok(&json!({"prompt": text})))
}

fn required(map: &Map<String, Value>, name: &str, allowed: &str) -> Result<(), ApiError> {
    if map.get(name).is_some_and(|value| !value.is_null()) {
        return Ok(());
    }
    Err(ApiError::malformed_field(FieldError::missing(format!("body.{name}"), allowed)))
}

fn tokenizer(app: &App, model: Option<String>) -> Result<Arc<Tokenizer>, ApiError> {
    if let Some(asked) = model.filter(|asked| !asked.is_empty() && *asked != app.model.name) {
        return Err(ApiError::no_model(&asked, &app.model.name));
    }
    app.model.tokenizer.clone().ok_or_else(|| ApiError::bad(None, "the model has no tokenizer.json"))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::internal(error.to_string()))
}
