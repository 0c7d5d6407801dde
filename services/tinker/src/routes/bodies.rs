//! Bodies of requests, and refusals that name the field that cannot be read.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use evenkeel_proto::FieldError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};
use tokio_stream::StreamExt as _;

use crate::error::ApiError;

/// The model that a training request is for, and its number among that model's requests.
#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Place {
    pub(super) model_id: String,
    pub(super) seq_id: u64,
}

/// A body that must be JSON.
pub(super) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, ApiError> {
    fields(body).map_err(unreadable)
}

/// The refusal of a body that takes no place.
pub(super) fn unreadable(error: FieldError) -> ApiError {
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
}

/// Reads the fields of a JSON object; the error names the one that cannot be read.
pub(super) fn fields<T: DeserializeOwned>(body: &Bytes) -> Result<T, FieldError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let said = error.inner().to_string();
        let said = said.split(" at line ").next().unwrap_or_default();
        if let Some(name) = said.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
            let missing = FieldError::missing(name, "this field");
            return if path == "." { missing } else { missing.within(path) };
        }
        let Some(value) = value_at(body, error.path()) else {
            return FieldError::new("body", "not readable", format!("JSON, but: {said}"));
        };
        let allowed = match said.rsplit_once("expected ").map_or(said, |(_, expected)| expected) {
            "f32" | "f64" => "a finite number (NaN and infinity arrive as null)",
            "u32" | "u64" => "a whole number, 0 or above",
            other => other,
        };
        FieldError::new(if path == "." { "body" } else { path.as_str() }, value, allowed)
    })
}

/// The value at a path of a body, if the body is JSON and has one there.
fn value_at(body: &Bytes, path: &Path) -> Option<Value> {
    let mut value: &Value = &serde_json::from_slice(body).ok()?;
    for segment in path {
        value = match segment {
            Segment::Seq { index } => value.get(index)?,
            Segment::Map { key } => value.get(key)?,
            Segment::Enum { .. } | Segment::Unknown => return None,
        };
    }
    Some(value.clone())
}

/// Reads a body of at most `limit` bytes. `Err` has the first `limit` bytes of a longer one; the rest is read and
/// forgotten, so that the client sees its answer.
pub(super) async fn read_up_to(body: Body, limit: usize) -> Result<Result<Bytes, Bytes>, ApiError> {
    let mut whole = Vec::new();
    let mut is_longer = false;
    let mut parts = body.into_data_stream();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| ApiError::bad(format!("the body did not arrive: {error}")))?;
        let room = (limit - whole.len()).min(part.len());
        is_longer |= room < part.len();
        whole.extend_from_slice(&part[..room]);
    }
    let whole = Bytes::from(whole);
    Ok(if is_longer { Err(whole) } else { Ok(whole) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Outer {
        #[expect(dead_code, reason = "only read")]
        inner: Option<Inner>,
        #[expect(dead_code, reason = "only read")]
        ttl_seconds: Option<u64>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        #[expect(dead_code, reason = "only read")]
        learning_rate: f64,
    }

    fn refused(body: &'static str) -> String {
        fields::<Outer>(&Bytes::from_static(body.as_bytes())).unwrap_err().to_string()
    }

    #[test]
    fn the_field_that_cannot_be_read_is_named_with_its_value() {
        assert_eq!(
            refused(r#"{"inner": {"learning_rate": null}}"#),
            "inner.learning_rate is null, allowed: a finite number (NaN and infinity arrive as null)"
        );
        assert_eq!(refused(r#"{"ttl_seconds": -1}"#), "ttl_seconds is -1, allowed: a whole number, 0 or above");
        assert_eq!(refused(r#"{"inner": {}}"#), "inner.learning_rate is absent, required: this field");
        assert!(refused("{").starts_with("body is not readable, allowed: JSON, but: EOF"), "{}", refused("{"));
    }

    #[test]
    fn a_place_is_read_whatever_else_the_body_holds() {
        let body = Bytes::from_static(br#"{"model_id": "m", "adam_params": {"learning_rate": null}, "seq_id": 3}"#);
        assert_eq!(fields(&body), Ok(Place { model_id: "m".to_owned(), seq_id: 3 }));
    }

    #[tokio::test]
    async fn of_a_body_that_is_too_long_the_beginning_is_kept() {
        let read = async |text: &'static str| read_up_to(Body::from(text), 3).await.unwrap();
        assert_eq!(read("abc").await, Ok(Bytes::from_static(b"abc")));
        assert_eq!(read("abcd").await, Err(Bytes::from_static(b"abc")));
    }
}
