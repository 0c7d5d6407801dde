//! A streamed response. It counts only if it is complete: an error may come in the middle, after a successful status.

use reqwest::Response;
use serde::Deserialize;

use super::COMPLETIONS;
use super::answer::{CompletionChoice, Metrics, is_error};
use super::frames::Frames;
use crate::engine::http::{message_of, transport};
use crate::engine::validate::validate_tokens;
use crate::engine::{EngineClientError, EngineTimings, SampleFinish, SampleOutcome, SampleRequest, SampledTokens};

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Vec<CompletionChoice<'a>>,
    #[serde(default)]
    metrics: Option<Metrics>,
}

/// What has been read so far.
#[derive(Default)]
struct StreamReader {
    finish: Option<SampleFinish>,
    timings: EngineTimings,
    done: bool,
}

/// Reads to the end. `tokens` always holds what has been received and validated.
pub(super) async fn read(
    response: &mut Response,
    request: &SampleRequest<'_>,
    limit: usize,
    tokens: &mut SampledTokens,
) -> Result<SampleOutcome, EngineClientError> {
    let mut frames = Frames::default();
    let mut reader = StreamReader::default();
    while let Some(bytes) = response.chunk().await.map_err(|error| transport(COMPLETIONS, error))? {
        frames.push(&bytes);
        while let Some(data) = frames.next() {
            reader.take(data, request, tokens)?;
        }
        if frames.pending() > limit {
            return Err(EngineClientError::invalid("frame", format_args!("over {limit} bytes"), "at most max_answer"));
        }
    }
    match (reader.done, reader.finish) {
        (true, Some(finish)) => Ok(SampleOutcome { finish, timings: reader.timings }),
        (true, None) => Err(EngineClientError::invalid("finish_reason", "absent at the end", "a finish reason")),
        (false, _) => Err(EngineClientError::invalid(
            "stream",
            format_args!("cut after {} tokens", tokens.count()),
            "[DONE] at the end",
        )),
    }
}

impl StreamReader {
    fn take(
        &mut self,
        data: &[u8],
        request: &SampleRequest<'_>,
        tokens: &mut SampledTokens,
    ) -> Result<(), EngineClientError> {
        if self.done {
            return Err(EngineClientError::invalid("stream", "more after [DONE]", "nothing"));
        }
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Chunk<'_> = match serde_json::from_slice(data) {
            Ok(chunk) => chunk,
            Err(_) if is_error(data) => {
                return Err(EngineClientError::status(COMPLETIONS, 200, message_of(data)));
            }
            Err(error) => return Err(EngineClientError::invalid("frame", error, "a chunk of a completion in JSON")),
        };
        if let Some(metrics) = &chunk.metrics {
            self.timings = metrics.timings();
        }
        for choice in &chunk.choices {
            if self.finish.is_some() {
                return Err(EngineClientError::invalid("stream", "tokens after finish_reason", "none"));
            }
            let from = tokens.count();
            let checked =
                choice.append_to(request.token_ids, tokens).and_then(|()| validate_tokens(tokens, from, request));
            if let Err(error) = checked {
                tokens.truncate(from);
                return Err(error);
            }
            self.finish = choice.finish()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::SamplingSettings;

    use super::*;

    fn take_all(frames: &[&str]) -> Result<(StreamReader, SampledTokens), String> {
        let sampling = SamplingSettings::plain(4, 1);
        let request = SampleRequest {
            request_id: "a",
            token_ids: &[5],
            sampling: &sampling,
            adapter: None,
            cache_salt: "0",
            traceparent: None,
            stream: true,
        };
        let mut reader = StreamReader::default();
        let mut tokens = SampledTokens::default();
        for frame in frames {
            reader.take(frame.as_bytes(), &request, &mut tokens).map_err(|error| error.to_string())?;
        }
        Ok((reader, tokens))
    }

    const FIRST: &str = r#"{"choices":[{"index":0,"text":"","logprobs":{"token_logprobs":[-4.5]},"finish_reason":null,"prompt_token_ids":[5],"token_ids":[108]}]}"#;
    const LAST: &str = r#"{"choices":[{"index":0,"logprobs":{"token_logprobs":[-1.5,-2.5]},"finish_reason":"stop","token_ids":[42,1]}]}"#;

    #[test]
    fn chunks_add_up() {
        let usage = r#"{"choices":[],"usage":{"completion_tokens":3}}"#;
        let (reader, tokens) = take_all(&[FIRST, LAST, usage, "[DONE]"]).unwrap_or_else(|error| panic!("{error}"));
        assert!(reader.done);
        assert_eq!(reader.finish, Some(SampleFinish::Stop));
        assert_eq!((tokens.ids(), tokens.log_probabilities()), (&[108, 42, 1][..], &[-4.5, -1.5, -2.5][..]));
    }

    #[test]
    fn what_comes_after_an_end_or_is_error_is_no_data() {
        let refused = |frames: &[&str]| take_all(frames).err().unwrap();
        assert!(refused(&[FIRST, r#"{"error":{"message":"out of memory"}}"#]).contains("out of memory"));
        assert!(refused(&[LAST, FIRST]).contains("tokens after finish_reason"));
        assert!(refused(&[FIRST, LAST, "[DONE]", FIRST]).contains("more after [DONE]"));
        assert!(refused(&[FIRST, "{nonsense"]).contains("frame is"));
        assert!(refused(&[FIRST, LAST, LAST]).contains("tokens after finish_reason"));
        assert!(refused(&[&FIRST.replace("-4.5", "0.5")]).contains("token_logprobs[0] is 0.5"));
    }
}
