//! A message of a request, in the one form that chat templates take.

use evenkeel_proto::FieldError;
use serde_json::{Map, Value, json};

/// A message in one form: without what is null, and without what no chat template reads.
pub(super) fn message(value: &Value) -> Result<Map<String, Value>, FieldError> {
    let fields = value.as_object().ok_or_else(|| FieldError::new("role", "absent", "a message with a role"))?;
    let get = |name: &str| fields.get(name).filter(|value| !value.is_null());
    let role = get("role").and_then(Value::as_str).unwrap_or_default();
    if !matches!(role, "system" | "developer" | "user" | "assistant" | "tool") {
        return Err(FieldError::quoted("role", role, "system, developer, user, assistant or tool"));
    }
    let mut message = Map::new();
    message.insert("role".to_owned(), role.into());
    let content = match get("content") {
        None if role == "assistant" => String::new(),
        None => return Err(FieldError::missing("content", "a text")),
        Some(content) => text(content)?,
    };
    message.insert("content".to_owned(), content.into());
    let reasoning = get("reasoning_content").or_else(|| get("reasoning")).and_then(Value::as_str).unwrap_or_default();
    if role == "assistant" && !reasoning.is_empty() {
        message.insert("reasoning_content".to_owned(), reasoning.into());
    }
    match get("tool_calls") {
        Some(Value::Array(listed)) if role == "assistant" => {
            let calls = listed.iter().enumerate();
            let read = |(index, value)| call(value).map_err(|error| error.within(format!("tool_calls[{index}]")));
            let calls = calls.map(read).collect::<Result<Vec<_>, _>>()?;
            if !calls.is_empty() {
                message.insert("tool_calls".to_owned(), calls.into());
            }
        }
        None => {}
        Some(other) => return Err(FieldError::new("tool_calls", other, "a list of calls, of the assistant")),
    }
    for name in ["tool_call_id", "name"] {
        if let Some(value) = get(name) {
            let value = value.as_str().ok_or_else(|| FieldError::new(name, value, "a text"))?;
            message.insert(name.to_owned(), value.into());
        }
    }
    Ok(message)
}

fn text(content: &Value) -> Result<String, FieldError> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let mut texts = Vec::with_capacity(parts.len());
            for (index, part) in parts.iter().enumerate() {
                let text = part["text"].as_str().filter(|_| part["type"] == "text");
                let refused =
                    || FieldError::new(format!("content[{index}].type"), &part["type"], "\"text\", with a text");
                texts.push(text.ok_or_else(refused)?);
            }
            Ok(texts.join("\n"))
        }
        other => Err(FieldError::new("content", other, "a text, or a list of parts that are texts")),
    }
}

/// A call, whose arguments are what their JSON says, where it is JSON.
fn call(value: &Value) -> Result<Value, FieldError> {
    let function = &value["function"];
    let name = function["name"].as_str().ok_or_else(|| FieldError::missing("function.name", "a text"))?;
    let arguments = match &function["arguments"] {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str())),
        Value::Null => json!({}),
        other => other.clone(),
    };
    let id = value["id"].as_str().unwrap_or_default();
    Ok(json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}))
}
