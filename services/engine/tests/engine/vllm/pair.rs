//! Sends the same requests to this engine and to vLLM.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::theirs::{Reply, Theirs};
use crate::support::{Client, with};

pub(super) const CLOSE: f64 = 1e-4;

pub(super) struct Pair {
    pub(super) ours: Client,
    pub(super) theirs: Theirs,
    /// Folders by their name in recordings.
    pub(super) folders: Vec<(&'static str, String)>,
    pub(super) differences: Vec<String>,
    pub(super) largest: f64,
    pub(super) compared: usize,
}

impl Pair {
    /// Answers of this engine and of vLLM, without comparing them.
    pub(super) async fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> (Reply, Reply) {
        let headers: &[(&str, &str)] = if body.is_some() { &[("content-type", "application/json")] } else { &[] };
        let text = body.map(Value::to_string).unwrap_or_default();
        let about = self.folders.iter().fold(json!([method, path, body]).to_string(), |text, (name, folder)| {
            text.replace(&format!("\"{folder}\""), &format!("\"{name}\""))
        });
        let about = serde_json::from_str(&about).unwrap();
        let ours = Reply::of(&self.ours.raw(method, path, headers, text).await);
        (ours, self.theirs.ask(method, path, body, &about).await)
    }

    pub(super) async fn both(&mut self, method: &str, path: &str, body: Option<Value>) -> (Value, Value) {
        let (ours, theirs) = self.ask(method, path, body.as_ref()).await;
        let about = format!("{method} {path} {}", body.map(|body| body.to_string()).unwrap_or_default());
        let about: String = about.chars().take(220).collect();
        if ours.status != theirs.status {
            self.differences.push(format!("{about}: status {} and {}: {}", ours.status, theirs.status, theirs.value));
        }
        if ours.content_type != theirs.content_type {
            self.differences.push(format!("{about}: type {:?} and {:?}", ours.content_type, theirs.content_type));
        }
        self.compare(&about, &ours.value, &theirs.value);
        (ours.value, theirs.value)
    }

    fn compare(&mut self, path: &str, ours: &Value, theirs: &Value) {
        self.compared += 1;
        // What each server says of a refusal.
        if [".error.type", ".error.param"].iter().any(|own| path.ends_with(own)) {
            return;
        }
        // Values that each server chooses, and the wording of its messages.
        let own = [".id", ".created", ".message", ".system_fingerprint", ".root"];
        match (ours, theirs) {
            (Value::Object(a), Value::Object(b)) => {
                let mine: BTreeSet<_> = a.keys().collect();
                let other: BTreeSet<_> = b.keys().collect();
                if mine != other && !path.ends_with("top_logprobs") && !path.contains(".top_logprobs.") {
                    self.differences.push(format!("{path}: keys {mine:?} and {other:?}"));
                }
                for (key, theirs) in b {
                    match a.get(key) {
                        Some(ours) => self.compare(&format!("{path}.{key}"), ours, theirs),
                        // Tokens that could not have been drawn differ.
                        None if theirs == &json!(-9999.0) => {}
                        None if path.contains(".top_logprobs.") => {
                            self.differences.push(format!("{path}.{key}: only theirs, {theirs}"));
                        }
                        None => {}
                    }
                }
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                for (at, (ours, theirs)) in a.iter().zip(b).enumerate() {
                    self.compare(&format!("{path}.{at}"), ours, theirs);
                }
            }
            (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
                let apart = (a.as_f64().unwrap() - b.as_f64().unwrap()).abs();
                self.largest = self.largest.max(apart);
                if apart > CLOSE {
                    self.differences.push(format!("{path}: {a} and {b}"));
                }
            }
            (Value::String(_), Value::String(_)) if own.iter().any(|own| path.ends_with(own)) => {}
            (Value::Number(_), Value::Number(_)) if path.ends_with(".created") => {}
            (a, b) if a == b => {}
            (a, b) => self.differences.push(format!("{path}: {a} and {b}")),
        }
    }

    /// A short greedy completion with these fields.
    pub(super) async fn complete(&mut self, fields: Value) -> (Value, Value) {
        let base = json!({"model": NAME, "prompt": [51, 23, 52, 31, 2], "max_tokens": 6, "temperature": 0});
        self.both("POST", "/v1/completions", Some(with(base, fields))).await
    }
}

/// The name of the model on both.
pub(super) const NAME: &str = "pair";
