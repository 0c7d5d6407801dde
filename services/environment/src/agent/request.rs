//! A request for a chat completion: what it asks, in one form, or why it is refused.
//!
//! What would change the meaning of an answer and cannot be had is refused by name. How tokens are drawn is the run's
//! to say: `temperature` and the like are ignored, since the learner has to know what was sampled from.

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::ModelRequest;
use serde_json::{Map, Value, json};

use super::message::message;
use crate::program::require_name;

/// Most messages and tools of a request.
const MAX_MESSAGES: usize = 4096;
const MAX_TOOLS: usize = 128;
/// Most texts that end an answer, and the longest, in bytes.
const MAX_STOPS: usize = 16;
const MAX_STOP: usize = 1024;

/// A field of a request, whether it may have a value, and what is allowed.
type Rule = (&'static str, fn(&Value) -> bool, &'static str);

/// What each of these may be at most, besides absent or null.
const ONLY: &[Rule] = &[
    ("n", |value| value.as_u64() == Some(1), "1: a request is one turn of the episode"),
    ("logprobs", Value::is_boolean, "true or false"),
    (
        "top_logprobs",
        |value| value.as_u64() == Some(0),
        "0: an engine says what it sampled, and nothing of other tokens",
    ),
    ("return_token_ids", Value::is_boolean, "true or false"),
    ("response_format", |value| value["type"] == "text", "{\"type\": \"text\"}"),
    ("tool_choice", |value| value == "auto" || value == "none", "\"auto\" or \"none\""),
    ("functions", |_| false, "none: `tools` takes functions"),
    ("function_call", |_| false, "none: `tool_choice` is for tools"),
    ("logit_bias", |value| value.as_object().is_some_and(Map::is_empty), "none"),
    ("modalities", |value| *value == json!(["text"]), "[\"text\"]"),
    ("audio", |_| false, "none"),
];

/// What an agent asks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChatRequest {
    /// As chat templates take them: contents are texts, arguments of calls are values.
    pub(super) messages: Vec<Map<String, Value>>,
    pub(super) tools: Vec<Value>,
    /// The most tokens of the answer.
    pub(super) max_tokens: Option<u32>,
    /// Texts that end the answer.
    pub(super) stop: Vec<String>,
    /// Whether the answer has the log-probability of each token.
    pub(super) log_probabilities: bool,
    /// Whether the answer has the ids of its tokens and of those before.
    pub(super) token_ids: bool,
    /// The name of the model, which is repeated in the answer.
    pub(super) model: String,
    /// Whether the answer is a stream of events.
    pub(super) stream: bool,
    /// Whether that stream ends with the tokens used.
    pub(super) stream_usage: bool,
}

impl ChatRequest {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// What is no request, or asks what cannot be had.
    pub(super) fn read(body: &[u8]) -> Result<Self, FieldError> {
        let not_json = |found: String| FieldError::new("the body", found, "a JSON object");
        let fields = match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(not_json("no object".to_owned())),
            Err(error) => return Err(not_json(format!("no JSON ({error})"))),
        };
        let get = |name: &str| fields.get(name).filter(|value| !value.is_null());
        for (name, is_allowed, allowed) in ONLY {
            if let Some(value) = get(name).filter(|value| !is_allowed(value)) {
                return Err(FieldError::new(*name, value, *allowed));
            }
        }
        let messages = match get("messages") {
            Some(Value::Array(messages)) if (1..=MAX_MESSAGES).contains(&messages.len()) => messages,
            Some(Value::Array(messages)) => {
                let allowed = format!("1 to {MAX_MESSAGES} messages");
                return Err(FieldError::new("messages", format!("{} messages", messages.len()), allowed));
            }
            _ => return Err(FieldError::missing("messages", "a list of messages")),
        };
        let read = |(index, value)| message(value).map_err(|error| error.within(format!("messages[{index}]")));
        let messages = messages.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let without_tools = get("tool_choice").is_some_and(|choice| choice == "none");
        let options = get("stream_options").unwrap_or(&Value::Null);
        Ok(Self {
            messages,
            tools: if without_tools { Vec::new() } else { tools(get("tools"))? },
            max_tokens: max_tokens(&get)?,
            stop: stop(get("stop"))?,
            log_probabilities: get("logprobs") == Some(&Value::Bool(true)),
            token_ids: get("return_token_ids") == Some(&Value::Bool(true)),
            model: get("model").and_then(Value::as_str).unwrap_or("policy").to_owned(),
            stream: get("stream") == Some(&Value::Bool(true)),
            stream_usage: options["include_usage"] == Value::Bool(true),
        })
    }

    /// Whether it asks the same.
    pub(super) fn is_again(&self, before: &Self) -> bool {
        let essence =
            |request: &Self| Self { model: String::new(), stream: false, stream_usage: false, ..request.clone() };
        essence(self) == essence(before)
    }

    /// What is asked of the model; `conversation` is empty where that goes on with the one before.
    pub(super) fn ask(&self, conversation: Vec<u8>) -> ModelRequest {
        let wants_tokens = self.log_probabilities || self.token_ids;
        ModelRequest { conversation, max_tokens: self.max_tokens, stop: self.stop.clone(), wants_tokens }
    }

    /// The conversation as the protocol has it.
    pub(super) fn conversation(&self) -> Vec<u8> {
        json!({"messages": self.messages, "tools": self.tools}).to_string().into_bytes()
    }
}

fn max_tokens<'a>(get: &impl Fn(&str) -> Option<&'a Value>) -> Result<Option<u32>, FieldError> {
    let mut least = None;
    for name in ["max_tokens", "max_completion_tokens"] {
        let Some(value) = get(name) else { continue };
        let tokens = value.as_u64().filter(|tokens| *tokens > 0);
        let tokens = tokens.ok_or_else(|| FieldError::new(name, value, "a whole number, at least 1"))?;
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        least = Some(least.map_or(tokens, |least: u32| least.min(tokens)));
    }
    Ok(least)
}

fn stop(value: Option<&Value>) -> Result<Vec<String>, FieldError> {
    let texts = match value {
        None => return Ok(Vec::new()),
        Some(Value::String(text)) => Some(vec![text.clone()]),
        Some(Value::Array(texts)) => texts.iter().map(|text| text.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    };
    let is_allowed =
        |texts: &Vec<String>| texts.len() <= MAX_STOPS && texts.iter().all(|text| (1..=MAX_STOP).contains(&text.len()));
    let allowed = || format!("a text, or at most {MAX_STOPS} texts, of 1 to {MAX_STOP} bytes");
    let found = value.unwrap_or(&Value::Null);
    texts.filter(is_allowed).ok_or_else(|| FieldError::new("stop", found, allowed()))
}

fn tools(value: Option<&Value>) -> Result<Vec<Value>, FieldError> {
    let listed = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(tools)) if tools.len() <= MAX_TOOLS => tools,
        Some(_) => return Err(FieldError::new("tools", "refused", format!("a list of at most {MAX_TOOLS} tools"))),
    };
    let read = |(index, tool): (usize, &Value)| {
        let field = |name: &str| format!("tools[{index}].{name}");
        let function = tool["function"].as_object().filter(|_| tool["type"] == "function");
        let function = function.ok_or_else(|| FieldError::new(format!("tools[{index}]"), tool, "a function"))?;
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        require_name(name).map_err(|error| FieldError::quoted(field("function.name"), name, error.allowed))?;
        let mut taken = Map::new();
        taken.insert("name".to_owned(), name.into());
        for (key, otherwise) in
            [("description", json!("")), ("parameters", json!({"type": "object", "properties": {}}))]
        {
            let value = function.get(key).filter(|value| !value.is_null()).cloned().unwrap_or(otherwise);
            taken.insert(key.to_owned(), value);
        }
        Ok::<_, FieldError>(json!({"type": "function", "function": taken}))
    };
    listed.iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &Value) -> Result<ChatRequest, String> {
        ChatRequest::read(body.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    fn with(name: &str, value: Value) -> Result<ChatRequest, String> {
        let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "a"}]});
        body[name] = value;
        read(&body)
    }

    #[test]
    fn what_cannot_be_had_is_refused_by_field_value_and_what_is_allowed() {
        for (name, value, words) in [
            ("n", json!(2), "n is 2, allowed: 1: a request is one turn"),
            ("stop", json!(["\n", ""]), "stop is [\"\\n\",\"\"], allowed: a text, or at most 16 texts"),
            ("stop", json!(7), "stop is 7, allowed: a text"),
            ("logprobs", json!(3), "logprobs is 3, allowed: true or false"),
            ("top_logprobs", json!(2), "top_logprobs is 2, allowed: 0"),
            ("response_format", json!({"type": "json_object"}), "response_format is {\"type\":\"json_object\"}"),
            ("tool_choice", json!("required"), "tool_choice is \"required\", allowed: \"auto\" or \"none\""),
            ("max_tokens", json!(0), "max_tokens is 0, allowed: a whole number, at least 1"),
            ("messages", json!([]), "messages is 0 messages"),
            ("messages", json!([3]), "messages[0].role is absent"),
            ("messages", json!([{"role": "function", "content": ""}]), "messages[0].role is \"function\""),
            ("messages", json!([{"role": "user"}]), "messages[0].content is absent"),
            (
                "messages",
                json!([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]),
                "messages[0].content[0].type is \"image_url\", allowed: \"text\"",
            ),
            ("messages", json!([{"role": "assistant", "tool_calls": [{}]}]), "messages[0].tool_calls[0].function.name"),
            ("tools", json!([{"type": "custom"}]), "tools[0] is {\"type\":\"custom\"}, allowed: a function"),
            (
                "tools",
                json!([{"type": "function", "function": {"name": "a b"}}]),
                "tools[0].function.name is \"a b\", allowed: 1 to 64 letters",
            ),
        ] {
            let error = with(name, value).unwrap_err();
            assert!(error.starts_with(words), "{name}: {error}");
        }
        assert!(ChatRequest::read(b"\xff{").unwrap_err().to_string().starts_with("the body is no JSON"));
        assert!(ChatRequest::read(b"[]").unwrap_err().to_string().starts_with("the body is no object"));
    }

    #[test]
    fn how_tokens_are_drawn_is_ignored_and_the_length_is_honoured() {
        let body = json!({
            "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
            "temperature": 0, "top_p": 0.5, "seed": 1, "user": "me", "n": 1, "stop": null, "logprobs": false,
            "max_tokens": 9, "max_completion_tokens": 7, "stream": true, "stream_options": {"include_usage": true},
        });
        let request = read(&body).unwrap();
        assert_eq!((request.max_tokens, request.stream, request.stream_usage), (Some(7), true, true));
        assert_eq!(request.messages[0]["content"], "a\nb");
        assert_eq!(request.model, "policy");
    }

    #[test]
    fn texts_that_end_an_answer_and_its_tokens_are_asked_for() {
        let asked = |name, value| with(name, value).unwrap().ask(Vec::new());
        assert_eq!(asked("stop", json!("\n")).stop, ["\n"]);
        assert_eq!(asked("stop", json!(["a", "b"])).stop, ["a", "b"]);
        assert!(asked("stop", json!(null)).stop.is_empty() && asked("stop", json!([])).stop.is_empty());
        assert!(asked("logprobs", json!(true)).wants_tokens && asked("return_token_ids", json!(true)).wants_tokens);
        assert!(!asked("logprobs", json!(false)).wants_tokens);
    }

    #[test]
    fn messages_have_one_form_whatever_a_client_adds() {
        let body = json!({"messages": [
            {"role": "user", "content": "a", "name": null},
            {"role": "assistant", "content": null, "refusal": null, "annotations": [], "audio": null, "function_call": null,
             "tool_calls": [{"id": "c", "type": "function", "index": 0, "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "2"},
        ]});
        let calls = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}]);
        let messages = Value::from(read(&body).unwrap().messages.into_iter().map(Value::Object).collect::<Vec<_>>());
        assert_eq!(
            messages,
            json!([
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "", "tool_calls": calls},
                {"role": "tool", "content": "2", "tool_call_id": "c"},
            ])
        );
    }

    #[test]
    fn tools_are_left_out_where_none_may_be_called() {
        let tool = json!({"type": "function", "function": {"name": "f", "strict": true}});
        let body = json!({"messages": [{"role": "user", "content": "a"}], "tools": [tool], "tool_choice": "auto"});
        let tools = read(&body).unwrap().tools;
        let parameters = json!({"type": "object", "properties": {}});
        let function = json!({"name": "f", "description": "", "parameters": parameters});
        assert_eq!(tools, [json!({"type": "function", "function": function})]);
        let body = json!({"messages": [{"role": "user", "content": "a"}], "tools": [tool], "tool_choice": "none"});
        assert_eq!(read(&body).unwrap().tools, [] as [Value; 0]);
    }
}
