//! vLLM's responses: from a running server, or recorded.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Client, HttpAnswer};

/// A response without timing-dependent parts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) value: Value,
}

impl Reply {
    pub(super) fn of(answer: &HttpAnswer) -> Self {
        let value = match answer.content_type.split(';').next().unwrap_or_default() {
            "text/event-stream" => whole_of(&answer.text),
            "text/plain" => metric_types(&answer.text),
            _ => serde_json::from_str(&answer.text).unwrap_or(Value::String(answer.text.clone())),
        };
        Self { status: answer.status, content_type: answer.content_type.clone(), value }
    }
}

/// The other side of every exchange.
pub(super) enum Theirs {
    /// A server, and the file for its responses.
    Live { client: Client, keep: Option<PathBuf>, kept: Vec<String> },
    /// Recorded responses, in order.
    Recorded(VecDeque<Value>),
}

impl Theirs {
    pub(super) fn recorded(lines: &str) -> Self {
        Self::Recorded(lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    /// Sends `body`; `about` identifies it in a recording.
    pub(super) async fn ask(&mut self, method: &str, path: &str, body: Option<&Value>, about: &Value) -> Reply {
        match self {
            Self::Live { client, keep, kept } => {
                let headers: &[(&str, &str)] =
                    if body.is_some() { &[("content-type", "application/json")] } else { &[] };
                let text = body.map(Value::to_string).unwrap_or_default();
                let reply = Reply::of(&client.raw(method, path, headers, text).await);
                if keep.is_some() {
                    kept.push(
                        json!({"about": about, "status": reply.status, "type": reply.content_type, "value": reply.value})
                            .to_string(),
                    );
                }
                reply
            }
            Self::Recorded(exchanges) => {
                let exchange = exchanges.pop_front().expect("the recording has no more answers: record it again");
                assert_eq!(&exchange["about"], about, "another request than was recorded: record it again");
                Reply {
                    status: exchange["status"].as_u64().unwrap().try_into().unwrap(),
                    content_type: exchange["type"].as_str().unwrap().to_owned(),
                    value: exchange["value"].clone(),
                }
            }
        }
    }

    /// Writes the recording, or checks that all of it was used.
    pub(super) fn end(self) {
        match self {
            Self::Live { keep: Some(path), kept, .. } => std::fs::write(path, kept.join("\n") + "\n").unwrap(),
            Self::Live { .. } => {}
            Self::Recorded(left) => assert!(left.is_empty(), "{} recorded answers were not asked for", left.len()),
        }
    }
}

/// Names and kinds of metrics.
fn metric_types(text: &str) -> Value {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE vllm:")).map(str::to_owned).collect()
}

/// The frames of a stream, merged by sample: how many tokens share a frame depends on timing.
fn whole_of(text: &str) -> Value {
    let events: Vec<&str> = text.split("\n\n").filter(|event| !event.is_empty()).collect();
    assert_eq!(events.last(), Some(&"data: [DONE]"), "{text}");
    let mut samples: BTreeMap<u64, serde_json::Map<String, Value>> = Default::default();
    let mut rest = Vec::new();
    for event in &events[..events.len() - 1] {
        let frame: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
        let mut outer: Vec<String> = frame.as_object().unwrap().keys().cloned().collect();
        outer.sort_unstable();
        let Some(choice) = frame["choices"].get(0) else {
            rest.push(frame.clone());
            continue;
        };
        let sample = samples.entry(choice["index"].as_u64().unwrap()).or_default();
        for (key, value) in choice.as_object().unwrap() {
            match (sample.get_mut(key), value) {
                (Some(Value::String(text)), Value::String(more)) if key == "text" => text.push_str(more),
                (Some(Value::Array(all)), Value::Array(more)) => all.extend(more.clone()),
                (Some(Value::Object(all)), Value::Object(more)) => {
                    for (key, value) in more {
                        all[key].as_array_mut().unwrap().extend(value.as_array().unwrap().clone());
                    }
                }
                (Some(_), Value::Null) => {}
                _ => {
                    sample.insert(key.clone(), value.clone());
                }
            }
        }
        sample.insert("last frame".into(), json!(outer));
        if let Some(usage) = frame.get("usage") {
            sample.insert("last usage".into(), usage.clone());
        }
    }
    json!({"samples": samples.into_values().collect::<Vec<_>>(), "rest": rest})
}
