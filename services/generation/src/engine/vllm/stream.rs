//! An answer that comes token by token. It counts only with its end: an error may come in the middle, after a good status.

use reqwest::Response;
use serde::Deserialize;

use super::COMPLETIONS;
use super::answer::{Choice, Metrics, says_error};
use super::frames::Frames;
use super::http::{message_of, transport};
use crate::engine::believe::believe_tokens;
use crate::engine::{Draw, Ending, EngineError, EngineTimings, Finish, Tokens};

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    metrics: Option<Metrics>,
}

/// What has been read so far.
#[derive(Default)]
struct Progress {
    finish: Option<Finish>,
    timings: EngineTimings,
    done: bool,
}

/// Reads to the end. `tokens` holds at any moment what came and was checked.
pub(super) async fn read(
    response: &mut Response,
    draw: &Draw<'_>,
    limit: usize,
    tokens: &mut Tokens,
) -> Result<Ending, EngineError> {
    let (mut frames, mut progress) = (Frames::default(), Progress::default());
    while let Some(bytes) = response.chunk().await.map_err(|error| transport(COMPLETIONS, error))? {
        frames.push(&bytes);
        while let Some(data) = frames.next() {
            progress.take(data, draw, tokens)?;
        }
        if frames.pending() > limit {
            return Err(EngineError::answer("frame", format_args!("over {limit} bytes"), "at most max_answer_bytes"));
        }
    }
    match (progress.done, progress.finish) {
        (true, Some(finish)) => Ok(Ending { finish, timings: progress.timings }),
        (true, None) => Err(EngineError::answer("finish_reason", "absent at the end", "why it ended")),
        (false, _) => {
            Err(EngineError::answer("stream", format_args!("cut after {} tokens", tokens.len()), "an end, [DONE]"))
        }
    }
}

impl Progress {
    fn take(&mut self, data: &[u8], draw: &Draw<'_>, tokens: &mut Tokens) -> Result<(), EngineError> {
        if self.done {
            return Err(EngineError::answer("stream", "more after [DONE]", "nothing"));
        }
        if data == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        let piece: Piece<'_> = match serde_json::from_slice(data) {
            Ok(piece) => piece,
            Err(_) if says_error(data) => {
                return Err(EngineError::Status { route: COMPLETIONS, status: 200, message: message_of(data) });
            }
            Err(error) => return Err(EngineError::answer("frame", error, "a piece of a completion in JSON")),
        };
        if let Some(metrics) = &piece.metrics {
            self.timings = metrics.timings();
        }
        for choice in &piece.choices {
            if self.finish.is_some() {
                return Err(EngineError::answer("stream", "tokens after finish_reason", "none"));
            }
            let from = tokens.len();
            let checked = choice.append_to(draw.token_ids, tokens).and_then(|()| believe_tokens(tokens, from, draw));
            if let Err(error) = checked {
                tokens.ids.truncate(from);
                tokens.log_probabilities.truncate(from);
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

    fn take_all(frames: &[&str]) -> Result<(Progress, Tokens), String> {
        let sampling = SamplingSettings::plain(4, 1);
        let draw = Draw {
            request_id: "a",
            token_ids: &[5],
            sampling: &sampling,
            cache_salt: "0",
            traceparent: "",
            stream: true,
        };
        let (mut progress, mut tokens) = (Progress::default(), Tokens::default());
        for frame in frames {
            progress.take(frame.as_bytes(), &draw, &mut tokens).map_err(|error| {
                assert_eq!(tokens.ids.len(), tokens.log_probabilities.len());
                error.to_string()
            })?;
        }
        Ok((progress, tokens))
    }

    const FIRST: &str = r#"{"choices":[{"index":0,"text":"","logprobs":{"token_logprobs":[-4.5]},"finish_reason":null,"prompt_token_ids":[5],"token_ids":[108]}]}"#;
    const LAST: &str = r#"{"choices":[{"index":0,"logprobs":{"token_logprobs":[-1.5,-2.5]},"finish_reason":"stop","token_ids":[42,1]}]}"#;

    #[test]
    fn pieces_add_up() {
        let usage = r#"{"choices":[],"usage":{"completion_tokens":3}}"#;
        let (progress, tokens) = take_all(&[FIRST, LAST, usage, "[DONE]"]).unwrap_or_else(|error| panic!("{error}"));
        assert!(progress.done);
        assert_eq!(progress.finish, Some(Finish::Stop));
        assert_eq!(tokens, Tokens { ids: vec![108, 42, 1], log_probabilities: vec![-4.5, -1.5, -2.5] });
    }

    #[test]
    fn what_comes_after_an_end_or_says_error_is_no_data() {
        let refused = |frames: &[&str]| take_all(frames).err().unwrap();
        assert!(refused(&[FIRST, r#"{"error":{"message":"out of memory"}}"#]).contains("out of memory"));
        assert!(refused(&[LAST, FIRST]).contains("tokens after finish_reason"));
        assert!(refused(&[FIRST, LAST, "[DONE]", FIRST]).contains("more after [DONE]"));
        assert!(refused(&[FIRST, "{nonsense"]).contains("frame is"));
        assert!(refused(&[FIRST, LAST, LAST]).contains("tokens after finish_reason"));
        assert!(refused(&[&FIRST.replace("-4.5", "0.5")]).contains("token_logprobs[0] is 0.5"));
    }
}
