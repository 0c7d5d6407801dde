//! The error of all services and its gRPC status: a code, a machine-readable reason (`google.rpc.ErrorInfo`), the refused fields
//! (`google.rpc.BadRequest`) and the delay before a retry (`google.rpc.RetryInfo`).

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use evenkeel_config::human;
use evenkeel_proto::FieldError;
use evenkeel_proto::shown::{MAX_MESSAGE_CHARS, shown};
use evenkeel_proto::v1::{Failure, FailureCode, FieldViolation};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Largest size of a message in a header, where most bytes other than letters and digits are escaped as three.
const MAX_MESSAGE_BYTES: usize = 5_000;
/// Largest size of refused fields in a header, before base64. Clients accept 16 KiB of headers in all and close the connection beyond.
const MAX_DETAIL_BYTES: usize = 3_000;

/// The domain of every reason.
pub const ERROR_DOMAIN: &str = "evenkeel.v1";

/// The unit of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Items.
    Items,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// Its plural.
    pub fn name(self) -> &'static str {
        match self {
            Self::Items => "items",
            Self::Bytes => "bytes",
        }
    }
}

/// Why a call or an item failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ServiceError {
    /// The request can never succeed as it is.
    #[error("{}", refusals(.0))]
    Invalid(Vec<FieldError>),
    /// Valid, but not in the current state.
    #[error("{message}")]
    Precondition {
        /// UPPER_SNAKE_CASE.
        reason: &'static str,
        /// The message.
        message: String,
    },
    /// It names something that does not exist.
    #[error("{what} not found")]
    NotFound {
        /// What was requested.
        what: String,
    },
    /// Something different of that name exists.
    #[error("{what} already exists")]
    AlreadyExists {
        /// What exists.
        what: String,
    },
    /// A bounded queue is full.
    #[error("queue `{queue}` is full, its capacity is {capacity} {}", unit.name())]
    QueueFull {
        /// Name of the queue.
        queue: &'static str,
        /// What it counts.
        unit: Unit,
        /// Its capacity.
        capacity: u64,
        /// Delay before a retry.
        retry_after: Option<Duration>,
    },
    /// A bounded queue is not full, but this client has its share.
    #[error("this client holds {held} of the {capacity} {} of queue `{queue}`, the rest is kept for others", unit.name())]
    ShareTaken {
        /// Name of the queue.
        queue: &'static str,
        /// What it counts.
        unit: Unit,
        /// Its capacity.
        capacity: u64,
        /// What the client or its host holds.
        held: u64,
    },
    /// All connections of the server are in use.
    #[error("all connections of the server are in use; this one serves health checks only (setting `max_connections`)")]
    ConnectionsFull,
    /// A message took too long to arrive.
    #[error("a message was incomplete after {} (setting `message_timeout`)", human(*timeout))]
    MessageTimeout {
        /// The time limit.
        timeout: Duration,
    },
    /// A message would be too large once it is decoded.
    #[error("the message would take more than {most} bytes once it is decoded (setting `max_decoded`)")]
    MessageExpands {
        /// The limit in bytes.
        most: u64,
    },
    /// Bytes that are not a protobuf message.
    #[error("the message is not valid protobuf")]
    Malformed,
    /// The client does not read its responses.
    #[error("no response was read for {} s", timeout.as_secs())]
    ResponsesUnread {
        /// The time limit.
        timeout: Duration,
    },
    /// The server is shutting down.
    #[error("the server is draining and accepts no new work")]
    Draining,
    /// The disk is full, or the quota used up.
    #[error("{message}")]
    DiskFull {
        /// The message.
        message: String,
    },
    /// Something that the server depends on is unavailable.
    #[error("{message}")]
    Unavailable {
        /// UPPER_SNAKE_CASE.
        reason: &'static str,
        /// The message.
        message: String,
    },
    /// The deadline passed.
    #[error("the deadline passed after {} ms", .0.as_millis())]
    Deadline(Duration),
    /// The caller cancelled it.
    #[error("cancelled by the caller")]
    Cancelled,
    /// Defined in the API, not implemented by this server.
    #[error("{what} is not implemented")]
    Unimplemented {
        /// What is missing.
        what: &'static str,
    },
    /// Another call of the same kind is in progress.
    #[error("{message}")]
    Conflict {
        /// The message.
        message: String,
    },
    /// Stored data is corrupt.
    #[error("{message}")]
    DataLoss {
        /// The message.
        message: String,
    },
    /// A defect.
    #[error("{message}")]
    Internal {
        /// The message.
        message: String,
    },
}

fn refusals(errors: &[FieldError]) -> String {
    errors.iter().map(FieldError::to_string).collect::<Vec<_>>().join("; ")
}

impl From<FieldError> for ServiceError {
    fn from(error: FieldError) -> Self {
        Self::Invalid(vec![error])
    }
}

impl ServiceError {
    /// An error of the file system; `what` says what was done to which file.
    pub fn file(what: impl std::fmt::Display, error: &io::Error) -> Self {
        let message = format!("{what}: {error}");
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { message },
            _ => Self::Internal { message },
        }
    }

    /// The gRPC code.
    pub fn code(&self) -> Code {
        match self {
            Self::Invalid(_) | Self::Malformed | Self::MessageExpands { .. } => Code::InvalidArgument,
            Self::Precondition { .. } => Code::FailedPrecondition,
            Self::NotFound { .. } => Code::NotFound,
            Self::AlreadyExists { .. } => Code::AlreadyExists,
            Self::QueueFull { .. }
            | Self::ShareTaken { .. }
            | Self::ConnectionsFull
            | Self::DiskFull { .. }
            | Self::ResponsesUnread { .. } => Code::ResourceExhausted,
            Self::Draining | Self::Unavailable { .. } => Code::Unavailable,
            Self::Deadline(_) | Self::MessageTimeout { .. } => Code::DeadlineExceeded,
            Self::Cancelled => Code::Cancelled,
            Self::Unimplemented { .. } => Code::Unimplemented,
            Self::Conflict { .. } => Code::Aborted,
            Self::DataLoss { .. } => Code::DataLoss,
            Self::Internal { .. } => Code::Internal,
        }
    }

    /// The machine-readable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "FIELD_REFUSED",
            Self::Precondition { reason, .. } | Self::Unavailable { reason, .. } => reason,
            Self::NotFound { .. } => "NOT_FOUND",
            Self::AlreadyExists { .. } => "ALREADY_EXISTS",
            Self::QueueFull { unit: Unit::Items, .. } => "QUEUE_FULL",
            Self::QueueFull { unit: Unit::Bytes, .. } => "BYTES_FULL",
            Self::ShareTaken { .. } => "SHARE_TAKEN",
            Self::DiskFull { .. } => "DISK_FULL",
            Self::ConnectionsFull => "CONNECTIONS_FULL",
            Self::MessageTimeout { .. } => "MESSAGE_TIMEOUT",
            Self::MessageExpands { .. } => "MESSAGE_EXPANDS",
            Self::Malformed => "MALFORMED_MESSAGE",
            Self::ResponsesUnread { .. } => "ANSWERS_UNREAD",
            Self::Draining => "DRAINING",
            Self::Deadline(_) => "DEADLINE_EXCEEDED",
            Self::Cancelled => "CANCELLED",
            Self::Unimplemented { .. } => "NOT_IMPLEMENTED",
            Self::Conflict { .. } => "CONFLICT",
            Self::DataLoss { .. } => "DATA_LOSS",
            Self::Internal { .. } => "DEFECT",
        }
    }

    /// The failure of a stream item that reports this error.
    pub fn failure(&self) -> Failure {
        let mut failure = Failure::new(self.failure_code(), self.reason(), self.to_string());
        match self {
            Self::Invalid(errors) => failure.violations = errors.iter().cloned().map(FieldViolation::from).collect(),
            Self::QueueFull { retry_after: Some(after), .. } => failure.retry_after_ms = Some(millis(*after)),
            _ => {}
        }
        failure
    }

    fn failure_code(&self) -> FailureCode {
        match self {
            Self::Invalid(_) | Self::Malformed | Self::MessageExpands { .. } => FailureCode::InvalidArgument,
            Self::Precondition { .. } | Self::AlreadyExists { .. } | Self::Conflict { .. } => {
                FailureCode::FailedPrecondition
            }
            Self::NotFound { .. } => FailureCode::NotFound,
            Self::QueueFull { .. }
            | Self::ShareTaken { .. }
            | Self::ConnectionsFull
            | Self::DiskFull { .. }
            | Self::ResponsesUnread { .. } => FailureCode::ResourceExhausted,
            Self::Draining | Self::Unavailable { .. } => FailureCode::Unavailable,
            Self::Deadline(_) | Self::MessageTimeout { .. } => FailureCode::DeadlineExceeded,
            Self::Cancelled => FailureCode::Cancelled,
            Self::Unimplemented { .. } => FailureCode::Unimplemented,
            Self::DataLoss { .. } | Self::Internal { .. } => FailureCode::Internal,
        }
    }
}

impl From<ServiceError> for Status {
    fn from(error: ServiceError) -> Self {
        let mut details = ErrorDetails::with_error_info(error.reason(), ERROR_DOMAIN, HashMap::new());
        match &error {
            ServiceError::Invalid(errors) => {
                let mut left = MAX_DETAIL_BYTES;
                for refused in errors {
                    let description = format!("is {}, allowed: {}", refused.value, refused.allowed);
                    let Some(rest) = left.checked_sub(refused.field.len() + description.len()) else { break };
                    left = rest;
                    details.add_bad_request_violation(&refused.field, description);
                }
            }
            ServiceError::QueueFull { retry_after: Some(after), .. } => {
                details.set_retry_info(Some(*after));
            }
            _ => {}
        }
        let message = error.to_string();
        let message = shown(&message, MAX_MESSAGE_CHARS);
        Self::with_error_details(error.code(), cut_for_header(&message), details)
    }
}

/// The text cut to what fits into a header beside everything else.
fn cut_for_header(text: &str) -> &str {
    let mut bytes = 0;
    let end = text.char_indices().find(|(_, character)| {
        let plain = character.is_ascii_graphic() && !r##""#%<>`?{}"##.contains(*character);
        bytes += if plain { 1 } else { 3 * character.len_utf8() };
        bytes > MAX_MESSAGE_BYTES
    });
    end.map_or(text, |(end, _)| &text[..end])
}

/// The reason of a status of one of our servers. `None` if the status came from elsewhere.
pub fn reason_of(status: &Status) -> Option<String> {
    status.get_details_error_info().filter(|info| info.domain == ERROR_DOMAIN).map(|info| info.reason)
}

/// Whole milliseconds, saturating.
pub(crate) fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_field_becomes_a_field_violation() {
        let error = FieldError::new("samples[1].raw_reward", f64::NAN, "a finite number");
        let status = Status::from(ServiceError::from(error));
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.message(), "samples[1].raw_reward is NaN, allowed: a finite number");
        let request = status.get_details_bad_request().unwrap();
        assert_eq!(request.field_violations[0].field, "samples[1].raw_reward");
        assert_eq!(request.field_violations[0].description, "is NaN, allowed: a finite number");
        assert_eq!(reason_of(&status).as_deref(), Some("FIELD_REFUSED"));
    }

    #[test]
    fn a_full_queue_carries_the_delay_before_a_retry() {
        let error = ServiceError::QueueFull {
            queue: "verify",
            unit: Unit::Items,
            capacity: 8,
            retry_after: Some(Duration::from_millis(50)),
        };
        assert_eq!(error.failure().retry_after_ms, Some(50));
        let status = Status::from(error);
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(status.message(), "queue `verify` is full, its capacity is 8 items");
        assert_eq!(status.get_details_retry_info().unwrap().retry_delay, Some(Duration::from_millis(50)));
    }

    #[test]
    fn a_full_disk_is_not_a_defect() {
        for kind in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
            let status = Status::from(ServiceError::file("writing model.safetensors", &io::Error::from(kind)));
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert_eq!(reason_of(&status).as_deref(), Some("DISK_FULL"));
        }
        let other = ServiceError::file("writing x", &io::Error::from(io::ErrorKind::PermissionDenied));
        assert_eq!(other.code(), Code::Internal);
    }

    #[test]
    fn messages_stay_on_one_line_and_are_cut() {
        let what = format!("run `a\n\x1b[31m{}`", "x".repeat(1 << 20));
        let status = Status::from(ServiceError::NotFound { what: what.clone() });
        assert!(status.message().starts_with(r"run `a\n\u{1b}[31mxxx"), "{}", status.message());
        assert!(status.message().chars().count() < 2_100);
        assert_eq!(ServiceError::NotFound { what }.failure().message, status.message());
    }

    #[test]
    fn no_status_breaks_the_connection_by_the_size_of_its_headers() {
        let long = |text: &str| FieldError::new(text.repeat(1_000), text.repeat(10_000), text.repeat(10_000));
        let errors = [
            ServiceError::Invalid(vec![long("答"); 1_000]),
            ServiceError::Invalid(vec![long("a%\""); 1_000]),
            ServiceError::NotFound { what: "\u{1f600}".repeat(100_000) },
            ServiceError::Internal { message: "\n\x1b".repeat(100_000) },
        ];
        for error in errors {
            let response: http::Response<()> = Status::from(error).into_http();
            // As HTTP/2 counts them.
            let size: usize =
                response.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
            assert!(size < 16 << 10, "{size} bytes");
        }
    }

    #[test]
    fn a_status_from_elsewhere_has_no_reason() {
        assert_eq!(reason_of(&Status::unavailable("proxy")), None);
    }
}
