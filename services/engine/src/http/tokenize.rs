//! `/tokenize` and `/detokenize`.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use evenkeel_errors::FieldError;
use evenkeel_model_folder::TextError;
use serde::Deserialize;
use serde_json::json;

use super::error::ApiError;
use super::fields::{Lax, read};
use super::{App, ok, parse};
use crate::text::Tokenizer;

/// A body of `/tokenize`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenizeFields {
    prompt: Lax<String>,
    #[serde(default)]
    model: Lax<String>,
    add_special_tokens: Option<Lax<bool>>,
    return_token_strs: Option<Lax<bool>>,
}

/// A body of `/detokenize`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DetokenizeFields {
    tokens: Vec<Lax<i64>>,
    #[serde(default)]
    model: Lax<String>,
}

pub(super) async fn tokenize(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let TokenizeFields { prompt, model, add_special_tokens, return_token_strs } = read(&parse(&body)?)?;
    let tokenizer = tokenizer(&app, &model.0)?;
    let add_special = add_special_tokens.is_none_or(|add| add.0);
    let with_strings = return_token_strs.is_some_and(|with| with.0);
    let work = move || {
        let tokens = tokenizer.encode(&prompt.0, add_special)?;
        let strings = with_strings.then(|| tokens.iter().map(|&id| tokenizer.token(id)).collect::<Vec<_>>());
        Ok::<_, TextError>((tokens, strings))
    };
    let (tokens, strings) = blocking(work).await??;
    let context = app.model.context;
    Ok(ok(&json!({"count": tokens.len(), "max_model_len": context, "tokens": tokens, "token_strs": strings})))
}

pub(super) async fn detokenize(State(app): State<Arc<App>>, body: Bytes) -> Result<Response, ApiError> {
    let DetokenizeFields { tokens, model } = read(&parse(&body)?)?;
    if let Some((at, id)) = tokens.iter().enumerate().find(|(_, id)| id.0 < 0) {
        return Err(FieldError::new(format!("tokens[{at}]"), id.0, "0 or above").into());
    }
    let tokenizer = tokenizer(&app, &model.0)?;
    // Unknown ids have no text, including those beyond 32 bits.
    let ids: Vec<u32> = tokens.into_iter().filter_map(|id| u32::try_from(id.0).ok()).collect();
    let text = blocking(move || tokenizer.decode(&ids, false)).await?;
    Ok(ok(&json!({"prompt": text})))
}

fn tokenizer(app: &App, model: &str) -> Result<Arc<Tokenizer>, ApiError> {
    if !model.is_empty() && model != app.model.name {
        return Err(ApiError::no_model(model, &app.model.name));
    }
    app.model.tokenizer.clone().ok_or_else(|| ApiError::bad(None, "the model has no tokenizer.json"))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ApiError::internal(error.to_string()))
}
