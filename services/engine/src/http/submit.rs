//! From a validated request to sequences in the scheduler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::http::HeaderMap;
use evenkeel_errors::FieldError;
use evenkeel_telemetry::{TRACEPARENT, TraceContext};
use tokio::sync::mpsc;

use super::App;
use super::error::ApiError;
use super::prompt::Prompts;
use super::request::{Request, ResponseOptions};
use super::span::RequestSpan;
use crate::sampling::SamplingParams;
use crate::scheduler::{Command, Job, Output, Permit, Scheduler};

/// Texts of up to this many bytes are tokenized on the async runtime, longer ones on a blocking thread.
const LONG_TEXT: usize = 8 << 10;

/// A request whose samples are being generated. Dropping it cancels them.
pub(super) struct RunningRequest {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) options: ResponseOptions,
    /// Samples of each prompt.
    pub(super) samples: usize,
    pub(super) prompts: Vec<(Arc<[u32]>, Arc<SamplingParams>)>,
    pub(super) outputs: mpsc::UnboundedReceiver<Output>,
    _cancel: CancelOnDrop,
    _span: Option<RequestSpan>,
}

impl RunningRequest {
    pub(super) fn prompt_tokens(&self) -> usize {
        self.prompts.iter().map(|(prompt, _)| prompt.len()).sum()
    }
}

/// Tells the scheduler that the client has gone.
struct CancelOnDrop {
    cancelled: Arc<AtomicBool>,
    scheduler: Scheduler,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Release);
        self.scheduler.remove_cancelled();
    }
}

/// Admits a request and starts its samples.
pub(super) async fn submit(app: &Arc<App>, headers: &HeaderMap, request: Request) -> Result<RunningRequest, ApiError> {
    let permits = admit(app, &request)?;
    let prompts = prompt_ids(app, &request.prompts, request.add_special).await?;
    start(app, headers, request, prompts, permits).await
}

fn admit(app: &App, request: &Request) -> Result<Vec<Permit>, ApiError> {
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
            let known = |&id: &u64| {
                if id < vocabulary {
                    Ok(id as u32)
                } else {
                    let allowed = format!("ids from 0 to vocab_size - 1 = {}", vocabulary - 1);
                    Err(FieldError::new("prompt", format_args!("[.., {id}, ..]"), allowed).into())
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
                ids.collect::<Result<Vec<_>, _>>().map_err(ApiError::from)
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
) -> Result<RunningRequest, ApiError> {
    let header = headers.get("x-request-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let id = header.or_else(|| request.options.request_id.clone()).unwrap_or_else(|| app.fresh_id());
    let id = format!("cmpl-{id}");
    let checked = prompts.into_iter().map(|prompt| {
        let sampling = request.sampling_for(&prompt, app.model.context)?;
        Ok((prompt, sampling))
    });
    let prompts = checked.collect::<Result<Vec<_>, ApiError>>()?;
    let trace = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()?.parse::<TraceContext>().ok());
    let trace_id = trace.map(TraceContext::trace_id);
    let span = RequestSpan::begin(trace, &id, prompts.len(), request.samples);
    tracing::debug!(id, trace_id, prompts = prompts.len(), samples = request.samples, "completion");

    let (sink, outputs) = mpsc::unbounded_channel();
    let cancelled = Arc::new(AtomicBool::new(false));
    let cancel = CancelOnDrop { cancelled: cancelled.clone(), scheduler: app.scheduler.clone() };
    let mut permits = permits.into_iter();
    let jobs = prompts.iter().enumerate().map(|(number, (prompt, sampling))| {
        app.metrics.admitted(request.samples, sampling.max_tokens);
        Job {
            request_id: format!("{id}-{number}").into(),
            prompt: prompt.clone(),
            sampling: sampling.clone(),
            first: number * request.samples,
            count: request.samples,
            seed: request.seed,
            interval: request.options.stream.then_some(request.options.interval),
            sink: sink.clone(),
            cancelled: cancelled.clone(),
            permits: permits.by_ref().take(request.samples).collect(),
            arrived: Instant::now(),
        }
    });
    app.scheduler.send(Command::Run(jobs.collect())).await?;
    let created = super::unix_seconds();
    let Request { samples, options, .. } = request;
    Ok(RunningRequest { id, created, options, samples, prompts, outputs, _cancel: cancel, _span: span })
}
