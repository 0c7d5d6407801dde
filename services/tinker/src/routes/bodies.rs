//! Bodies of requests, and refusals that name the field that cannot be read.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use evenkeel_proto::FieldError;
use evenkeel_rpc::server::{ReceivedBody, read_up_to};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::admission::Room;
use crate::error::ApiError;
use crate::front::Front;

/// Longest `user_metadata`, as JSON: it is kept with models and checkpoints in one file.
const MAX_METADATA: usize = 64 << 10;

/// A request's body, and the memory that it takes, which was counted before it was read.
pub(super) struct RequestBody {
    pub(super) bytes: Bytes,
    pub(super) room: Room,
}

impl FromRequest<Arc<Front>> for RequestBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, front: &Arc<Front>) -> Result<Self, ApiError> {
        match receive(front, request).await? {
            (ReceivedBody::Whole(bytes), room) => Ok(Self { bytes, room }),
            (ReceivedBody::Longer { bytes, .. }, _) => {
                let limit = front.settings.max_body;
                let message = format!("the body is {bytes} bytes, allowed: at most {limit} (tinker.max_body)");
                Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message))
            }
        }
    }
}

/// Reads a body, as soon as there is room for the length that its client declares, and keeps `max_body` of it.
pub(super) async fn receive(front: &Front, request: Request) -> Result<(ReceivedBody, Room), ApiError> {
    let limit = front.settings.max_body.bytes_usize();
    let declared = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let mut room = front.receive(declared.unwrap_or(limit).min(limit))?;
    let body = read_up_to(request.into_body(), limit).await;
    let body =
        body.map_err(|error| ApiError::new(StatusCode::REQUEST_TIMEOUT, format!("the body did not arrive: {error}")))?;
    if let ReceivedBody::Whole(bytes) = &body {
        room.shrink_to(bytes.len());
    }
    Ok((body, room))
}

/// Refuses metadata that is longer than what is kept.
pub(super) fn check_metadata(metadata: Option<&Value>) -> Result<(), FieldError> {
    let bytes = metadata.map_or(0, |metadata| metadata.to_string().len());
    let allowed = format!("at most {MAX_METADATA} bytes of JSON");
    FieldError::ensure(bytes <= MAX_METADATA, "user_metadata", format_args!("{bytes} bytes"), allowed)
}

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

    #[test]
    fn metadata_is_bounded_by_its_size_as_json() {
        let metadata = |bytes: usize| Value::from("x".repeat(bytes - 2));
        assert_eq!(check_metadata(Some(&metadata(MAX_METADATA))), Ok(()));
        assert_eq!(
            check_metadata(Some(&metadata(MAX_METADATA + 1))).unwrap_err().to_string(),
            "user_metadata is 65537 bytes, allowed: at most 65536 bytes of JSON"
        );
    }
}
