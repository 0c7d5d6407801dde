//! What a request is answered with: the model's turn as a chat completion, whole or as a stream of events.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use evenkeel_proto::v1::{FinishReason, SampledToken};
use serde_json::{Map, Value, json};

use super::request::ChatRequest;
use crate::action::Action;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChatAnswer {
    /// Number of the turn, from 1.
    turn: u32,
    content: String,
    reasoning: String,
    /// Id, name and arguments of each call.
    calls: Vec<(String, String, String)>,
    finish_reason: &'static str,
    /// Tokens before the turn, and of it.
    tokens: (u32, u32),
    /// Token ids before the turn, and tokens of the turn, where they are wanted.
    token_ids: (Vec<u32>, Vec<SampledToken>),
}

impl ChatAnswer {
    /// The turn of the model that answers this request. A turn with a call that cannot be read is a text, and so is
    /// every turn without tools.
    pub(super) fn to(request: &ChatRequest, action: Action) -> Self {
        let Action { message, finish_reason, turn, tokens, token_ids } = action;
        let calls_are_read = message.tool_calls.iter().all(|call| call.error.is_empty());
        let has_calls = !message.tool_calls.is_empty() && calls_are_read && !request.tools.is_empty();
        let of_call = |call: evenkeel_proto::v1::ToolCall| (call.id, call.name, call.arguments);
        let (content, calls) = match has_calls {
            true => (message.content, message.tool_calls.into_iter().map(of_call).collect()),
            false if message.text.is_empty() => (message.content, Vec::new()),
            false => (message.text, Vec::new()),
        };
        let finish_reason = match finish_reason {
            FinishReason::Length => "length",
            _ if has_calls => "tool_calls",
            _ => "stop",
        };
        Self { turn, content, reasoning: message.reasoning, calls, finish_reason, tokens, token_ids }
    }

    /// A budget of the run is used up: nothing is said any more.
    pub(super) fn used_up(turn: u32) -> Self {
        let content = String::new();
        let reasoning = String::new();
        let calls = Vec::new();
        let token_ids = (Vec::new(), Vec::new());
        Self { turn, content, reasoning, calls, finish_reason: "length", tokens: (0, 0), token_ids }
    }

    /// The message as the agent repeats it in its next request, in the form that [`ChatRequest`] has. Reasoning is left
    /// out: what becomes of it in later prompts is a setting of the run.
    pub(super) fn message(&self) -> Map<String, Value> {
        let mut message = Map::new();
        message.insert("role".to_owned(), "assistant".into());
        message.insert("content".to_owned(), self.content.as_str().into());
        if !self.calls.is_empty() {
            let call = |(id, name, arguments): &(String, String, String)| {
                let arguments = serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments.as_str()));
                json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
            };
            message.insert("tool_calls".to_owned(), self.calls.iter().map(call).collect());
        }
        message
    }

    /// As a response to the request.
    pub(super) fn response(&self, request: &ChatRequest) -> Response {
        if request.stream {
            ([(CONTENT_TYPE, "text/event-stream")], self.events(request)).into_response()
        } else {
            json_of(StatusCode::OK, &self.whole(request))
        }
    }

    fn whole(&self, request: &ChatRequest) -> Value {
        let mut message = self.said();
        message["role"] = "assistant".into();
        // As OpenAI writes a message that has calls only.
        if self.content.is_empty() && !self.calls.is_empty() {
            message["content"] = Value::Null;
        }
        let mut completion = self.head(request, "chat.completion");
        completion["choices"] = json!([self.choice(request, "message", &message)]);
        completion["usage"] = self.usage();
        completion
    }

    /// One chunk with all that is said, and the end.
    fn events(&self, request: &ChatRequest) -> String {
        let mut delta = self.said();
        delta["role"] = "assistant".into();
        if let Some(Value::Array(calls)) = delta.get_mut("tool_calls") {
            for (index, call) in calls.iter_mut().enumerate() {
                call["index"] = index.into();
            }
        }
        let mut chunk = self.head(request, "chat.completion.chunk");
        chunk["choices"] = json!([self.choice(request, "delta", &delta)]);
        let mut events = format!("data: {chunk}\n\n");
        if request.stream_usage {
            chunk["choices"] = json!([]);
            chunk["usage"] = self.usage();
            events.push_str(&format!("data: {chunk}\n\n"));
        }
        events.push_str("data: [DONE]\n\n");
        events
    }

    /// What is said, with the tokens that the request wants: their ids as vLLM has them.
    fn choice(&self, request: &ChatRequest, name: &str, said: &Value) -> Value {
        let (_, sampled) = &self.token_ids;
        let mut choice = json!({"index": 0, "finish_reason": self.finish_reason, "logprobs": null});
        choice[name] = said.clone();
        if request.log_probabilities {
            let token = |token: &SampledToken| {
                // Part of a character has no text.
                let is_whole = !token.text.contains(char::REPLACEMENT_CHARACTER);
                let bytes = is_whole.then_some(token.text.as_bytes());
                json!({"token": token.text, "bytes": bytes, "logprob": token.log_probability, "top_logprobs": []})
            };
            choice["logprobs"] = json!({"content": sampled.iter().map(token).collect::<Vec<_>>(), "refusal": null});
        }
        if request.token_ids {
            choice["token_ids"] = sampled.iter().map(|token| token.id).collect();
        }
        choice
    }

    fn said(&self) -> Value {
        let mut said = json!({"content": self.content});
        if !self.reasoning.is_empty() {
            said["reasoning_content"] = self.reasoning.as_str().into();
        }
        if !self.calls.is_empty() {
            let call = |(id, name, arguments): &(String, String, String)| {
                let function = json!({"name": name, "arguments": arguments});
                json!({"id": id, "type": "function", "function": function})
            };
            said["tool_calls"] = self.calls.iter().map(call).collect();
        }
        said
    }

    fn head(&self, request: &ChatRequest, object: &str) -> Value {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let id = format!("chatcmpl-{}", self.turn);
        let mut head = json!({"id": id, "object": object, "created": created, "model": request.model});
        if request.token_ids {
            head["prompt_token_ids"] = self.token_ids.0.as_slice().into();
        }
        head
    }

    fn usage(&self) -> Value {
        let (prompt, completion) = self.tokens;
        let total = u64::from(prompt) + u64::from(completion);
        json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total})
    }
}

/// A response that is JSON.
pub(super) fn json_of(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// A refusal, as OpenAI writes one.
pub(super) fn refusal(status: StatusCode, message: &str, field: Option<&str>) -> Response {
    let error = json!({"message": message, "type": "invalid_request_error", "param": field, "code": null});
    json_of(status, &json!({"error": error}))
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{AssistantMessage, ToolCall};

    use super::*;

    fn request(more: &str) -> ChatRequest {
        let body = format!("{{\"model\": \"m\", \"messages\": [{{\"role\": \"user\", \"content\": \"a\"}}]{more}}}");
        ChatRequest::read(body.as_bytes()).unwrap()
    }

    const TOOLS: &str = r#", "tools": [{"type": "function", "function": {"name": "f"}}]"#;

    fn action(error: &str) -> Action {
        let call =
            ToolCall { id: "call_1_1".into(), name: "f".into(), arguments: "{\"a\":1}".into(), error: error.into() };
        let message = AssistantMessage {
            content: "I call.".into(),
            tool_calls: vec![call],
            text: "I call. <tool_call>...".into(),
            reasoning: "Hm".into(),
        };
        let tokens = [(7, "I", -0.5), (8, "\u{fffd}", -1.0)];
        let tokens = tokens.map(|(id, text, log_probability)| SampledToken { id, text: text.into(), log_probability });
        let token_ids = (vec![1, 2], tokens.to_vec());
        Action { message, finish_reason: FinishReason::Stop, turn: 1, tokens: (5, 7), token_ids }
    }

    #[test]
    fn a_turn_is_a_completion_with_its_calls() {
        let request = request(TOOLS);
        let answer = ChatAnswer::to(&request, action(""));
        let mut whole = answer.whole(&request);
        whole["created"] = 0.into();
        let call = json!({"id": "call_1_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}});
        let message =
            json!({"content": "I call.", "reasoning_content": "Hm", "tool_calls": [call], "role": "assistant"});
        let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": null});
        assert_eq!(
            whole,
            json!({
                "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice],
                "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
            })
        );
        assert_eq!(answer.message()["tool_calls"][0]["function"]["arguments"], json!({"a": 1}));
    }

    #[test]
    fn tokens_and_log_probabilities_are_in_the_answer_where_they_are_wanted() {
        let request = request(r#", "logprobs": true, "return_token_ids": true"#);
        let whole = ChatAnswer::to(&request, action("")).whole(&request);
        let choice = &whole["choices"][0];
        assert_eq!((&whole["prompt_token_ids"], &choice["token_ids"]), (&json!([1, 2]), &json!([7, 8])));
        let first = json!({"token": "I", "bytes": [73], "logprob": -0.5, "top_logprobs": []});
        let second = json!({"token": "\u{fffd}", "bytes": null, "logprob": -1.0, "top_logprobs": []});
        assert_eq!(choice["logprobs"]["content"], json!([first, second]));
    }

    #[test]
    fn a_call_that_cannot_be_read_or_that_no_tool_takes_is_text() {
        for (request, error) in [(request(TOOLS), "not valid JSON"), (request(""), "")] {
            let answer = ChatAnswer::to(&request, action(error));
            assert_eq!((answer.content.as_str(), answer.finish_reason), ("I call. <tool_call>...", "stop"));
            assert!(answer.calls.is_empty());
        }
    }

    #[test]
    fn a_stream_is_one_chunk_the_tokens_where_they_are_wanted_and_the_end() {
        let request = request(&format!("{TOOLS}, \"stream\": true, \"stream_options\": {{\"include_usage\": true}}"));
        let events = ChatAnswer::to(&request, action("")).events(&request);
        let data: Vec<_> = events.split("\n\n").filter_map(|event| event.strip_prefix("data: ")).collect();
        let [chunk, usage, "[DONE]"] = data[..] else { panic!("{events}") };
        let [chunk, usage]: [Value; 2] = [chunk, usage].map(|json| serde_json::from_str(json).unwrap());
        let choice = &chunk["choices"][0];
        assert_eq!(
            (&choice["delta"]["tool_calls"][0]["index"], &choice["delta"]["role"]),
            (&json!(0), &json!("assistant"))
        );
        assert_eq!((&choice["finish_reason"], &chunk["usage"]), (&json!("tool_calls"), &Value::Null));
        assert_eq!((&usage["choices"], &usage["usage"]["total_tokens"]), (&json!([]), &json!(12)));
    }
}
