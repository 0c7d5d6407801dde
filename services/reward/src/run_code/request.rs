//! What a client asks for, and what is refused of it.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::reply::Refused;

/// The time limits of a request that names none, in seconds.
const DEFAULT_TIMEOUT: f64 = 10.0;
/// The longest time limit that is taken as it is.
const MAX_TIMEOUT: f64 = 600.0;
/// Before a client gives up, so that the answer still arrives.
const MARGIN: Duration = Duration::from_secs(1);

/// The names of Python among SandboxFusion's languages.
const PYTHON: &str = "python";

/// A program to run.
#[derive(Debug, PartialEq)]
pub(super) struct RunCode {
    pub(super) code: String,
    language: String,
    pub(super) stdin: String,
    compile_timeout: f64,
    pub(super) run_timeout: f64,
    /// In bytes; `None` for the worker's own limit.
    pub(super) memory: Option<u64>,
    has_files: bool,
}

impl RunCode {
    /// Reads a body.
    ///
    /// # Errors
    /// 422 in FastAPI's shape, as the original answers: each field at fault by its place.
    pub(super) fn read(body: &[u8]) -> Result<Self, Refused> {
        let body: Value = serde_json::from_slice(body).map_err(|error| {
            Refused::invalid(vec![fault(&["body"], "json_invalid", &format!("JSON decode error: {error}"))])
        })?;
        let Value::Object(fields) = body else {
            return Err(Refused::invalid(vec![fault(&["body"], "model_attributes_type", "Input should be an object")]));
        };
        let mut faults = Vec::new();
        let mut reader = FieldReader { fields: &fields, faults: &mut faults };
        let request = Self {
            code: reader.required("code"),
            language: reader.required("language"),
            stdin: reader.text("stdin").unwrap_or_default(),
            compile_timeout: reader.seconds("compile_timeout"),
            run_timeout: reader.seconds("run_timeout"),
            memory: reader.megabytes("memory_limit_MB"),
            has_files: ["files", "fetch_files"].iter().any(|name| reader.has_entries(name)),
        };
        if faults.is_empty() { Ok(request) } else { Err(Refused::invalid(faults)) }
    }

    /// What of the request is not served here, in the words of the answer.
    pub(super) fn unserved(&self) -> Option<String> {
        if self.language != PYTHON {
            let language: String = self.language.chars().take(32).collect();
            return Some(format!("language {language:?} is not served here (python only)"));
        }
        self.has_files.then(|| "files are not served here: programs have no file system".to_owned())
    }

    /// How long the client waits, `margin` beyond the time limits, less what the answer takes.
    pub(super) fn client_timeout(&self, margin: Duration) -> Duration {
        let timeout = Duration::from_secs_f64(self.compile_timeout + self.run_timeout) + margin;
        timeout.saturating_sub(MARGIN).max(margin / 2)
    }
}

/// Reads fields and gathers what is wrong with them.
struct FieldReader<'a> {
    fields: &'a Map<String, Value>,
    faults: &'a mut Vec<Value>,
}

impl FieldReader<'_> {
    fn required(&mut self, name: &str) -> String {
        if self.fields.contains_key(name) {
            return self.text(name).unwrap_or_default();
        }
        self.faults.push(fault(&["body", name], "missing", "Field required"));
        String::new()
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.fields.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Null if name == "stdin" => None,
            _ => {
                self.faults.push(fault(&["body", name], "string_type", "Input should be a valid string"));
                None
            }
        }
    }

    fn number(&mut self, name: &str) -> Option<f64> {
        match self.fields.get(name)? {
            Value::Null => None,
            value => {
                let number = value.as_f64();
                if number.is_none() {
                    self.faults.push(fault(&["body", name], "float_type", "Input should be a valid number"));
                }
                number
            }
        }
    }

    fn seconds(&mut self, name: &str) -> f64 {
        let seconds = self.number(name).unwrap_or(DEFAULT_TIMEOUT);
        if seconds > 0.0 {
            return seconds.min(MAX_TIMEOUT);
        }
        self.faults.push(fault(&["body", name], "greater_than", "Input should be greater than 0"));
        DEFAULT_TIMEOUT
    }

    /// A limit in megabytes as bytes; `None` for a negative one, which means none.
    fn megabytes(&mut self, name: &str) -> Option<u64> {
        let megabytes = self.number(name).filter(|megabytes| *megabytes > 0.0)?;
        // Saturates.
        Some((megabytes * f64::from(1 << 20)) as u64)
    }

    fn has_entries(&self, name: &str) -> bool {
        match self.fields.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::Object(entries)) => !entries.is_empty(),
            Some(Value::Array(entries)) => !entries.is_empty(),
            Some(_) => true,
        }
    }
}

fn fault(place: &[&str], kind: &str, message: &str) -> Value {
    json!({ "type": kind, "loc": place, "msg": message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &Value) -> Result<RunCode, Value> {
        RunCode::read(body.to_string().as_bytes()).map_err(|refused| refused.detail)
    }

    #[test]
    fn what_verl_sends_is_read() {
        let body = json!({"code": "print(1)", "stdin": "5", "language": "python", "compile_timeout": 10,
            "run_timeout": 2, "memory_limit_MB": 1024, "files": {}, "fetch_files": []});
        let request = read(&body).unwrap();
        assert_eq!((request.code.as_str(), request.stdin.as_str()), ("print(1)", "5"));
        assert_eq!((request.run_timeout, request.memory, request.unserved()), (2.0, Some(1 << 30), None));
        assert_eq!(request.client_timeout(Duration::from_secs(10)), Duration::from_secs(21));
    }

    #[test]
    fn what_the_official_client_leaves_out_has_the_originals_defaults() {
        let body = json!({"code": "", "language": "python", "stdin": null, "memory_limit_MB": -1});
        let request = read(&body).unwrap();
        assert_eq!((request.compile_timeout, request.run_timeout, request.memory), (10.0, 10.0, None));
    }

    #[test]
    fn fields_at_fault_are_named_as_fastapi_names_them() {
        let detail = read(&json!({"code": 5, "run_timeout": "x", "compile_timeout": 0})).unwrap_err();
        let found: Vec<_> =
            detail.as_array().unwrap().iter().map(|one| (one["loc"][1].clone(), one["type"].clone())).collect();
        let expected = [
            ("code", "string_type"),
            ("language", "missing"),
            ("compile_timeout", "greater_than"),
            ("run_timeout", "float_type"),
        ];
        assert_eq!(found, expected.map(|(name, kind)| (json!(name), json!(kind))));
        assert!(RunCode::read(b"{\"code\": ").is_err());
        assert!(RunCode::read(b"[]").is_err());
        assert!(RunCode::read(b"\xff").is_err());
    }

    #[test]
    fn other_languages_and_files_are_not_served() {
        let body = |language: &str, files: Value| json!({"code": "x", "language": language, "files": files});
        let unserved = |body: &Value| read(body).unwrap().unserved();
        assert!(unserved(&body("cpp", json!({}))).unwrap().contains("\"cpp\" is not served here (python only)"));
        assert!(unserved(&body("python", json!({"a": "eA=="}))).unwrap().contains("files"));
        assert_eq!(unserved(&body("python", json!(null))), None);
    }
}
