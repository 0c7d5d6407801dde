//! `POST /v1/completions`: reads the request, submits it, and responds as a whole or as a stream.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use super::error::{ApiError, json_response};
use super::logprobs::PromptLogprobs;
use super::request::Request;
use super::response::{Completion, CompletionChoice, StopReason, Timings, Usage};
use super::submit::{RunningRequest, submit};
use super::writer::Writer;
use super::{App, stream};
use crate::finish::FinishReason;
use crate::scheduler::Output;

pub(super) async fn create(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Result<Response, ApiError> {
    let request = read(&app, &headers, &body)?;
    let running = submit(&app, &headers, request).await?;
    if running.options.stream { Ok(stream::respond(app, running)) } else { respond_whole(&app, running).await }
}

fn read(app: &App, headers: &HeaderMap, body: &[u8]) -> Result<Request, ApiError> {
    super::require_json(headers)?;
    Request::read(super::parse(body)?, &app.model, &app.settings)
}

/// Waits for all samples and responds as a whole.
async fn respond_whole(app: &Arc<App>, mut running: RunningRequest) -> Result<Response, ApiError> {
    let count = running.prompts.len() * running.samples;
    let mut found: Vec<Option<Output>> = (0..count).map(|_| None).collect();
    for _ in 0..count {
        let Some(output) = running.outputs.recv().await else {
            return Err(ApiError::internal("the engine has stopped"));
        };
        if let Some(FinishReason::Error(error)) = &output.finish {
            return Err(ApiError::internal(error.clone()));
        }
        let at = output.index;
        found[at] = Some(output);
    }
    let found: Vec<Output> = found.into_iter().flatten().collect();
    Ok(json_response(StatusCode::OK, render(app, &running, &found)?))
}

fn render(app: &App, running: &RunningRequest, found: &[Output]) -> Result<Vec<u8>, ApiError> {
    let options = &running.options;
    let mut writers: Vec<Writer> = found
        .iter()
        .map(|output| {
            let (prompt, sampling) = &running.prompts[output.index / running.samples];
            let mut writer = Writer::new(app.model.tokenizer.as_ref(), prompt, sampling, options.tokens_as_ids);
            writer.push(output);
            writer
        })
        .collect();
    let choices = found.iter().zip(&mut writers).map(|(output, writer)| {
        let (prompt, sampling) = &running.prompts[output.index / running.samples];
        let scored = sampling.prompt_logprobs;
        let logprobs = writer.logprobs(output);
        CompletionChoice {
            index: output.index,
            text: writer.text(),
            logprobs,
            finish_reason: output.finish.as_ref().map(FinishReason::label),
            stop_reason: StopReason::of(output.finish.as_ref()),
            token_ids: options.token_ids.then_some(&output.ids[..]),
            prompt_logprobs: scored.then(|| PromptLogprobs::of(prompt, &output.prompt, app.model.tokenizer.as_ref())),
            prompt_token_ids: options.token_ids.then_some(&prompt[..]),
            routed_experts: (),
        }
    });
    let generated = found.iter().map(|output| output.ids.len()).sum();
    let answer = Completion {
        id: &running.id,
        object: "text_completion",
        created: running.created,
        model: &app.model.name,
        choices: choices.collect(),
        service_tier: (),
        system_fingerprint: &app.fingerprint,
        usage: Usage::new(running.prompt_tokens(), generated).into(),
        kv_transfer_params: (),
        ec_transfer_params: (),
        metrics: match found {
            [output] if app.settings.per_request_metrics => Some(Timings::of(&output.times, output.ids.len())),
            _ => None,
        },
    };
    serde_json::to_vec(&answer).map_err(|error| ApiError::internal(error.to_string()))
}
