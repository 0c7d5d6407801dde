//! Streamed responses: server-sent events, with a frame for new tokens of one sample and `[DONE]` at the end.
//!
//! Tokens that arrive while a frame is being sent are merged into the next: a slow client gets fewer frames, never
//! fewer tokens.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use tokio_stream::Stream;

use super::App;
use super::error::ApiError;
use super::response::{ChoiceDelta, Frame, StopReason, Usage};
use super::submit::RunningRequest;
use super::writer::Writer;
use crate::finish::FinishReason;
use crate::scheduler::Output;

/// Outputs that may be received at once; as many as there are samples, if that is more.
const MIN_OUTPUTS: usize = 64;

/// Responds with the stream.
pub(super) fn respond(app: Arc<App>, running: RunningRequest) -> Response {
    let headers = [(CONTENT_TYPE, "text/event-stream; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(FrameStream::new(app, running))).into_response()
}

/// How much of a sample has been streamed.
struct SampleStream {
    writer: Writer,
    has_prompt: bool,
    tokens: usize,
}

/// The frames of a response.
struct FrameStream {
    app: Arc<App>,
    running: RunningRequest,
    samples: Vec<SampleStream>,
    /// Outputs that were received and not written yet.
    received: Vec<Output>,
    unfinished: usize,
    done: bool,
}

impl FrameStream {
    fn new(app: Arc<App>, running: RunningRequest) -> Self {
        let tokenizer = app.model.tokenizer.as_ref();
        let sample = |(prompt, sampling): &(Arc<[u32]>, Arc<crate::sampling::SamplingParams>)| SampleStream {
            writer: Writer::new(tokenizer, prompt, sampling, running.options.tokens_as_ids),
            has_prompt: false,
            tokens: 0,
        };
        let prompts = running.prompts.iter().flat_map(|prompt| std::iter::repeat_n(prompt, running.samples));
        let samples: Vec<_> = prompts.map(sample).collect();
        let unfinished = samples.len();
        Self { app, running, samples, received: Vec::new(), unfinished, done: false }
    }

    /// Writes the outputs, merging those of one sample.
    fn write(&mut self, outputs: Vec<Output>, bytes: &mut Vec<u8>) {
        for output in merged(outputs) {
            if let Some(FinishReason::Error(error)) = &output.finish {
                let error = error.clone();
                return self.fail(&error, bytes);
            }
            self.delta(&output, bytes);
            self.unfinished -= usize::from(output.finish.is_some());
        }
        if self.unfinished == 0 {
            if self.running.options.include_usage {
                self.frame(&[], Some(self.usage()), true, bytes);
            }
            bytes.extend_from_slice(b"data: [DONE]\n\n");
            self.done = true;
        }
    }

    fn delta(&mut self, output: &Output, bytes: &mut Vec<u8>) {
        let index = output.index;
        let (prompt, _) = self.running.prompts[index / self.running.samples].clone();
        let options = self.running.options.clone();
        let sample = &mut self.samples[index];
        sample.tokens += output.ids.len();
        let first = !std::mem::replace(&mut sample.has_prompt, true);
        sample.writer.push(output);
        let logprobs = sample.writer.logprobs(output);
        let text = sample.writer.take_text(output.finish.is_some()).to_owned();
        let delta = ChoiceDelta {
            index,
            text: &text,
            logprobs,
            finish_reason: output.finish.as_ref().map(FinishReason::label),
            stop_reason: StopReason::of(output.finish.as_ref()),
            prompt_token_ids: (options.token_ids && first).then_some(&prompt[..]),
            token_ids: options.token_ids.then_some(&output.ids),
        };
        let usage = options.continuous_usage.then(|| Usage::new(prompt.len(), self.samples[index].tokens));
        // The fingerprint comes last: with the usage if that was requested.
        let last = output.finish.is_some() && !options.include_usage;
        self.frame(std::slice::from_ref(&delta), usage, last, bytes);
    }

    fn usage(&self) -> Usage {
        Usage::new(self.running.prompt_tokens(), self.samples.iter().map(|sample| sample.tokens).sum())
    }

    fn frame(&self, choices: &[ChoiceDelta<'_>], usage: Option<Usage>, fingerprint: bool, bytes: &mut Vec<u8>) {
        let frame = Frame {
            id: &self.running.id,
            object: "text_completion",
            created: self.running.created,
            model: &self.app.model.name,
            choices,
            usage,
            system_fingerprint: fingerprint.then_some(&self.app.fingerprint),
        };
        bytes.extend_from_slice(b"data: ");
        // Strings, numbers and lists are valid JSON, and writing to memory does not fail.
        let _ = serde_json::to_writer(&mut *bytes, &frame);
        bytes.extend_from_slice(b"\n\n");
    }

    /// An error after the status 200: a separate frame, then the end.
    fn fail(&mut self, message: &str, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(format!("data: {}\n\ndata: [DONE]\n\n", ApiError::internal(message).body()).as_bytes());
        self.done = true;
    }
}

impl Stream for FrameStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let stream = self.get_mut();
        while !stream.done {
            let limit = stream.samples.len().max(MIN_OUTPUTS);
            let count = ready!(stream.running.outputs.poll_recv_many(context, &mut stream.received, limit));
            let mut bytes = Vec::with_capacity(256 * count.max(1));
            match count {
                // The scheduler ended without a last output.
                0 => stream.fail("the engine has stopped", &mut bytes),
                _ => {
                    let outputs = std::mem::take(&mut stream.received);
                    stream.write(outputs, &mut bytes);
                }
            }
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Bytes::from(bytes))));
            }
        }
        Poll::Ready(None)
    }
}

/// The outputs with those of one sample merged, in the order in which the samples came first.
fn merged(outputs: Vec<Output>) -> Vec<Output> {
    let mut merged: Vec<Output> = Vec::with_capacity(outputs.len());
    let mut positions: HashMap<usize, usize> = HashMap::new();
    for output in outputs {
        match positions.get(&output.index) {
            Some(&at) => {
                let whole = &mut merged[at];
                whole.ids.extend(output.ids);
                whole.logprobs.extend(output.logprobs);
                whole.top.extend(output.top);
                whole.finish = output.finish;
            }
            None => {
                positions.insert(output.index, merged.len());
                merged.push(output);
            }
        }
    }
    merged
}
