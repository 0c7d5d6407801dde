//! What an environment lets be seen.

use serde_json::{Map, Value};

use super::socket::SocketAnswer;
use crate::failure::Failure;

/// An observation, taken apart.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// For the model; may be empty.
    pub(super) text: String,
    /// Whether it is about a call that could not be carried out.
    pub(super) is_error: bool,
    pub(super) reward: Option<f64>,
    pub(super) done: bool,
}

impl Seen {
    /// # Errors
    /// An observation without one, or a tool that the server cannot reach: that is no fault of the model.
    pub(super) fn of(answer: SocketAnswer) -> Result<Self, Failure> {
        match answer {
            SocketAnswer::Refused(why) => Ok(Self { text: format!("error: {why}"), is_error: true, ..Self::default() }),
            SocketAnswer::Observation(mut data) => {
                let observation = data.get_mut("observation").map(Value::take);
                let Some(Value::Object(fields)) = observation else {
                    return Err(Failure::crashed("the server gave an observation that is not an object"));
                };
                let done = data.get("done").and_then(Value::as_bool).unwrap_or_default();
                let reward = match data.get("reward") {
                    Some(Value::Bool(reward)) => Some(f64::from(u8::from(*reward))),
                    reward => reward.and_then(Value::as_f64),
                };
                let error = fields.get("error").unwrap_or(&Value::Null);
                if let Some("timeout" | "transport_error") = error["error_type"].as_str() {
                    let why = error["message"].as_str().unwrap_or("a tool of the server cannot be reached");
                    return Err(Failure::crashed(why));
                }
                let (text, is_error) = shown(fields);
                Ok(Self { text, is_error, reward, done })
            }
        }
    }
}

/// An observation as a text: what a tool gave, the only field, or all fields as JSON.
fn shown(mut fields: Map<String, Value>) -> (String, bool) {
    for beside in ["metadata", "done", "reward"] {
        fields.shift_remove(beside);
    }
    if fields.contains_key("tool_name") && (fields.contains_key("result") || fields.contains_key("error")) {
        if let Some(message) = fields.get("error").filter(|error| !error.is_null()) {
            let message = message.get("message").and_then(Value::as_str).unwrap_or("it failed");
            return (format!("error: {message}"), true);
        }
        return result(fields.get("result").unwrap_or(&Value::Null));
    }
    let text = match fields.len() {
        0 => String::new(),
        1 => fields.values().next().map(plain).unwrap_or_default(),
        _ => Value::Object(fields).to_string(),
    };
    (text, false)
}

/// What a tool gave: the texts of its parts, as MCP has them, or the value itself.
fn result(value: &Value) -> (String, bool) {
    let is_error = value.get("is_error").and_then(Value::as_bool).unwrap_or_default();
    let parts = value.get("content").and_then(Value::as_array);
    let texts: Option<Vec<&str>> =
        parts.map(|parts| parts.iter().filter_map(|part| part.get("text")?.as_str()).collect());
    let text = match texts {
        Some(texts) if !texts.is_empty() => texts.join("\n"),
        _ => plain(value),
    };
    if is_error { (format!("error: {text}"), true) } else { (text, false) }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(data: Value) -> Seen {
        Seen::of(SocketAnswer::Observation(data)).unwrap()
    }

    #[test]
    fn an_observation_is_the_text_that_it_has_or_its_fields() {
        let only = seen(json!({"observation": {"board": "x.o", "metadata": {"a": 1}}, "reward": 0.5, "done": true}));
        assert_eq!(only, Seen { text: "x.o".into(), is_error: false, reward: Some(0.5), done: true });
        assert_eq!(seen(json!({"observation": {"a": 1, "b": [2]}, "reward": null})).text, r#"{"a":1,"b":[2]}"#);
        assert_eq!(seen(json!({"observation": {"metadata": {}}, "reward": true})).reward, Some(1.0));
        assert_eq!(seen(json!({"observation": {"metadata": {}}})).text, "");
    }

    #[test]
    fn the_result_of_a_tool_is_its_text_and_its_error_is_one() {
        let called = |result: Value, error: Value| {
            let seen = seen(json!({"observation": {"tool_name": "echo", "result": result, "error": error}}));
            (seen.text, seen.is_error)
        };
        let parts =
            json!({"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]});
        assert_eq!(called(parts, Value::Null), ("a\nb".into(), false));
        assert_eq!(called(json!("plain"), Value::Null), ("plain".into(), false));
        assert_eq!(called(json!(7), Value::Null), ("7".into(), false));
        assert_eq!(called(Value::Null, json!({"message": "no such tool"})), ("error: no such tool".into(), true));
        let failed = json!({"content": [{"text": "it broke"}], "is_error": true});
        assert_eq!(called(failed, Value::Null), ("error: it broke".into(), true));
        let late =
            json!({"observation": {"tool_name": "a", "error": {"error_type": "timeout", "message": "timed out"}}});
        assert_eq!(Seen::of(SocketAnswer::Observation(late)).unwrap_err().message, "timed out");
    }
}
