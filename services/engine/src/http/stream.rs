//! Streamed responses: server-sent events, with a frame for new tokens of one sample and `[DONE]` at the end.
//!
//! Tokens that arrive while a frame is being sent are merged into the next: a slow client gets fewer frames, never fewer tokens.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use tokio_stream::Stream;

use super::App;
use super::answer::{ChoiceDelta, Frame, StopReason, Usage, Writer, finish_reason};
use super::error::ApiError;
use super::submit::RunningRequest;
use crate::scheduler::{FinishReason, Output};

/// Responds with the stream.
pub(super) fn respond(app: Arc<App>, running: RunningRequest) -> Response {
    let headers = [(CONTENT_TYPE, "text/event-stream; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(FrameWriter::new(app, running).frames())).into_response()
}

/// How much of a sample has been streamed.
struct SampleStream {
    writer: Writer,
    has_prompt: bool,
    tokens: usize,
}

struct FrameWriter {
    app: Arc<App>,
    running: RunningRequest,
    samples: Vec<SampleStream>,
    unfinished: usize,
    done: bool,
}

impl FrameWriter {
    fn new(app: Arc<App>, running: RunningRequest) -> Self {
        let tokenizer = app.model.tokenizer.as_ref();
        let sample = |(prompt, sampling): &(Arc<[u32]>, Arc<crate::sampling::Sampling>)| SampleStream {
            writer: Writer::new(tokenizer, prompt, sampling, running.shape.tokens_as_ids),
            has_prompt: false,
            tokens: 0,
        };
        let prompts = running.prompts.iter().flat_map(|prompt| std::iter::repeat_n(prompt, running.samples));
        let samples: Vec<_> = prompts.map(sample).collect();
        let unfinished = samples.len();
        Self { app, running, samples, unfinished, done: false }
    }

    fn frames(mut self) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> {
        let mut waiting = Vec::new();
        poll_fn(move |context| {
            loop {
                if self.done {
                    return std::task::Poll::Ready(None);
                }
                let limit = self.samples.len().max(64);
                let received = self.running.outputs.poll_recv_many(context, &mut waiting, limit);
                let std::task::Poll::Ready(count) = received else {
                    return std::task::Poll::Pending;
                };
                let mut bytes = Vec::with_capacity(256 * count.max(1));
                match count {
                    // The scheduler ended without a last output.
                    0 => self.fail("the engine has stopped", &mut bytes),
                    _ => self.write(std::mem::take(&mut waiting), &mut bytes),
                }
                if !bytes.is_empty() {
                    return std::task::Poll::Ready(Some(Ok(Bytes::from(bytes))));
                }
            }
        })
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
            if self.running.shape.include_usage {
                self.frame(&[], Some(self.usage()), true, bytes);
            }
            bytes.extend_from_slice(b"data: [DONE]\n\n");
            self.done = true;
        }
    }

    fn delta(&mut self, output: &Output, bytes: &mut Vec<u8>) {
        let index = output.index;
        let (prompt, _) = self.running.prompts[index / self.running.samples].clone();
        let shape = self.running.shape.clone();
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
            finish_reason: finish_reason(output.finish.as_ref()),
            stop_reason: StopReason::of(output.finish.as_ref()),
            prompt_token_ids: (shape.token_ids && first).then_some(&prompt[..]),
            token_ids: shape.token_ids.then_some(&output.ids),
        };
        let usage = shape.continuous_usage.then(|| Usage::new(prompt.len(), self.samples[index].tokens));
        // The fingerprint comes last: with the usage if that was requested.
        let last = output.finish.is_some() && !shape.include_usage;
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

/// The outputs with those of one sample merged, in the order in which the samples came first.
fn merged(outputs: Vec<Output>) -> Vec<Output> {
    let mut merged: Vec<Output> = Vec::with_capacity(outputs.len());
    let mut positions: std::collections::HashMap<usize, usize> = std::collections::HashMap::new();
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

/// A stream from a poll function.
fn poll_fn<T>(
    poll: impl FnMut(&mut std::task::Context<'_>) -> std::task::Poll<Option<T>> + Unpin,
) -> impl Stream<Item = T> {
    struct Polled<F>(F);
    impl<T, F: FnMut(&mut std::task::Context<'_>) -> std::task::Poll<Option<T>> + Unpin> Stream for Polled<F> {
        type Item = T;

        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<T>> {
            (self.0)(context)
        }
    }
    Polled(poll)
}
