//! `POST /v1/completions`: from a body to samples and back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use evenkeel_telemetry::{TRACEPARENT, TraceContext};
use tokio::sync::mpsc;

use super::answer::{Choice, StopReason, Timings, Usage, Whole, Writer, finish_reason};
use super::body::Body;
use super::error::{ApiError, json_response};
use super::prompt::Prompts;
use super::request::{Request, Shape};
use super::{App, stream};
use crate::sampling::Sampling;
use crate::scheduler::{Finish, Job, Order, Output, Permit, Scheduler};

/// Texts up to this many bytes are tokenised where they are read; longer ones where nobody waits behind them.
const LONG_TEXT: usize = 8 << 10;

/// A request that runs.
pub(super) struct Running {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) shape: Shape,
    /// Samples of each prompt.
    pub(super) samples: usize,
    pub(super) prompts: Vec<(Arc<[u32]>, Arc<Sampling>)>,
    pub(super) outputs: mpsc::UnboundedReceiver<Output>,
    /// Frees what still runs when the client goes away or all is said.
    _leave: Leave,
}

impl Running {
    pub(super) fn prompt_tokens(&self) -> usize {
        self.prompts.iter().map(|(prompt, _)| prompt.len()).sum()
    }
}

/// Tells the scheduler, when dropped, that nobody waits any more.
struct Leave {
    gone: Arc<AtomicBool>,
    scheduler: Scheduler,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Release);
        self.scheduler.sweep();
    }
}

/// The handler.
pub(super) async fn create(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Result<Response, ApiError> {
    let request = read(&app, &headers, &body)?;
    let permits = places(&app, &request)?;
    let prompts = prompt_ids(&app, &request.prompts, request.add_special).await?;
    let running = start(&app, &headers, request, prompts, permits).await?;
    match running.shape.stream {
        true => Ok(stream::answer(app, running)),
        false => whole(&app, running).await,
    }
}

fn read(app: &App, headers: &HeaderMap, body: &[u8]) -> Result<Request, ApiError> {
    let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !media.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json")) {
        let message = format!("1 validation error:\n  the content type is {media:?}, allowed: application/json");
        return Err(ApiError::malformed(None, message));
    }
    let body: Body = super::parse(body)?;
    Request::read(body, &app.model, &app.settings)
}

fn places(app: &App, request: &Request) -> Result<Vec<Permit>, ApiError> {
    let count = request.prompts.len() * request.samples;
    app.admission.take(count).map_err(|full| {
        app.metrics.rejected();
        ApiError::busy(count, full.limit)
    })
}

/// The ids of the prompts, each of them in the vocabulary.
async fn prompt_ids(app: &Arc<App>, prompts: &Prompts, add_special: bool) -> Result<Vec<Arc<[u32]>>, ApiError> {
    match prompts {
        Prompts::Ids(lists) => {
            let vocabulary = app.model.config.vocab_size as u64;
            let known = |&id: &u64| match id < vocabulary {
                true => Ok(id as u32),
                false => {
                    let allowed = vocabulary - 1;
                    Err(ApiError::bad(None, format!("token id {id} is out of the vocabulary, allowed: 0 to {allowed}")))
                }
            };
            lists.iter().map(|list| list.iter().map(known).collect()).collect()
        }
        Prompts::Texts(texts) => {
            let Some(tokenizer) = app.model.tokenizer.clone() else {
                return Err(ApiError::bad(
                    Some("prompt"),
                    "a text needs a tokenizer.json, which the model does not have",
                ));
            };
            let encode = move |texts: &[String]| {
                let ids = texts.iter().map(|text| tokenizer.encode(text, add_special).map(Arc::from));
                ids.collect::<Result<Vec<_>, _>>().map_err(|error| ApiError::bad(Some("prompt"), error))
            };
            if texts.iter().map(String::len).sum::<usize>() <= LONG_TEXT {
                return encode(texts);
            }
            let texts = texts.clone();
            let encoded = tokio::task::spawn_blocking(move || encode(&texts)).await;
            encoded.map_err(|error| ApiError::internal(error.to_string()))?
        }
    }
}

async fn start(
    app: &Arc<App>,
    headers: &HeaderMap,
    request: Request,
    prompts: Vec<Arc<[u32]>>,
    permits: Vec<Permit>,
) -> Result<Running, ApiError> {
    let header = headers.get("x-request-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let id = header.or_else(|| request.shape.request_id.clone()).unwrap_or_else(|| app.fresh_id());
    let id = format!("cmpl-{id}");
    let checked = prompts.into_iter().map(|prompt| {
        let sampling = request.sampling_for(&prompt, app.model.context)?;
        Ok((prompt, sampling))
    });
    let prompts = checked.collect::<Result<Vec<_>, ApiError>>()?;
    let trace = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()?.parse::<TraceContext>().ok());
    let trace_id = trace.map(TraceContext::trace_id);
    tracing::debug!(id, trace_id, prompts = prompts.len(), samples = request.samples, "completion");

    let (sink, outputs) = mpsc::unbounded_channel();
    let gone = Arc::new(AtomicBool::new(false));
    let leave = Leave { gone: gone.clone(), scheduler: app.scheduler.clone() };
    let mut permits = permits.into_iter();
    let jobs = prompts.iter().enumerate().map(|(number, (prompt, sampling))| {
        app.metrics.asked(request.samples, sampling.max_tokens);
        Job {
            name: format!("{id}-{number}").into(),
            prompt: prompt.clone(),
            sampling: sampling.clone(),
            first: number * request.samples,
            count: request.samples,
            seed: request.seed,
            interval: request.shape.stream.then_some(request.shape.interval),
            sink: sink.clone(),
            gone: gone.clone(),
            permits: permits.by_ref().take(request.samples).collect(),
            arrived: Instant::now(),
        }
    });
    app.scheduler.order(Order::Run(jobs.collect())).await?;
    let created = super::unix_seconds();
    let Request { samples, shape, .. } = request;
    Ok(Running { id, created, shape, samples, prompts, outputs, _leave: leave })
}

/// Waits for all samples and answers in one piece.
async fn whole(app: &Arc<App>, mut running: Running) -> Result<Response, ApiError> {
    let count = running.prompts.len() * running.samples;
    let mut found: Vec<Option<Output>> = (0..count).map(|_| None).collect();
    for _ in 0..count {
        let Some(output) = running.outputs.recv().await else {
            return Err(ApiError::internal("the engine has stopped"));
        };
        if let Some(Finish::Error(error)) = &output.finish {
            return Err(ApiError::internal(error.clone()));
        }
        let at = output.index;
        found[at] = Some(output);
    }
    let found: Vec<Output> = found.into_iter().flatten().collect();
    Ok(json_response(StatusCode::OK, render(app, &running, &found)?))
}

fn render(app: &App, running: &Running, found: &[Output]) -> Result<Vec<u8>, ApiError> {
    let shape = &running.shape;
    let mut writers: Vec<Writer> = found
        .iter()
        .map(|output| {
            let (prompt, sampling) = &running.prompts[output.index / running.samples];
            let mut writer = Writer::new(app.model.tokenizer.as_ref(), prompt, sampling, shape.tokens_as_ids);
            writer.push(output);
            writer
        })
        .collect();
    let choices = found.iter().zip(&mut writers).map(|(output, writer)| {
        let prompt = &running.prompts[output.index / running.samples].0;
        let logprobs = writer.logprobs(output);
        Choice {
            index: output.index,
            text: writer.text(),
            logprobs,
            finish_reason: finish_reason(output.finish.as_ref()),
            stop_reason: StopReason::of(output.finish.as_ref()),
            token_ids: shape.token_ids.then_some(&output.ids[..]),
            prompt_logprobs: (),
            prompt_token_ids: shape.token_ids.then_some(&prompt[..]),
            routed_experts: (),
        }
    });
    let generated = found.iter().map(|output| output.ids.len()).sum();
    let answer = Whole {
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
