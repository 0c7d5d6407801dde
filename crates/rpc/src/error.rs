//! One error for every door, and how it travels: a gRPC code, a machine-readable reason (`google.rpc.ErrorInfo`), the refused
//! fields (`google.rpc.BadRequest`) and when to come back (`google.rpc.RetryInfo`).

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use evenkeel_config::human;
use evenkeel_proto::FieldError;
use evenkeel_proto::shown::{MAX_MESSAGE_CHARS, shown};
use evenkeel_proto::v1::{Failure, FailureCode, FieldViolation};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Most bytes of a message in a header, in which all but letters, digits and some marks is written as three characters for a byte.
const MAX_MESSAGE_BYTES: usize = 5_000;
/// Most bytes of refused fields in a header, before they are written in base64. Clients take headers of 16 KiB in all, and break the
/// connection beyond.
const MAX_DETAIL_BYTES: usize = 3_000;

/// The domain of every reason.
pub const ERROR_DOMAIN: &str = "evenkeel.v1";

/// What a queue counts.
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

/// Why a call or an item was not done.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ServiceError {
    /// The request can never succeed as it is.
    #[error("{}", refusals(.0))]
    Invalid(Vec<FieldError>),
    /// Right in itself, but the state does not allow it.
    #[error("{message}")]
    Precondition {
        /// UPPER_SNAKE_CASE.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// It names something that is not there.
    #[error("{what} not found")]
    NotFound {
        /// What was looked for.
        what: String,
    },
    /// Something of that name is there and differs.
    #[error("{what} already exists")]
    AlreadyExists {
        /// What is there.
        what: String,
    },
    /// A bounded queue is full.
    #[error("queue `{queue}` is full, it takes {capacity} {}", unit.name())]
    QueueFull {
        /// Name of the queue.
        queue: &'static str,
        /// What it counts.
        unit: Unit,
        /// What it takes.
        capacity: u64,
        /// When to try again.
        retry_after: Option<Duration>,
    },
    /// A bounded queue has room, but not for this client.
    #[error("this client holds {held} of the {capacity} {} of queue `{queue}`, the rest is kept for others", unit.name())]
    ShareTaken {
        /// Name of the queue.
        queue: &'static str,
        /// What it counts.
        unit: Unit,
        /// What it takes.
        capacity: u64,
        /// What the client has of it.
        held: u64,
    },
    /// Every connection that the server takes is in use.
    #[error("the server has no connection left but for health checks (setting `max_connections`)")]
    ConnectionsFull,
    /// A message came too slowly.
    #[error("a message was incomplete after {} (setting `message_timeout`)", human(*timeout))]
    Late {
        /// How long it may take.
        timeout: Duration,
    },
    /// A message would be much larger in memory than on its way.
    #[error("the message would take more than {most} bytes when it is decoded (setting `max_decoded`)")]
    Expands {
        /// What it may take.
        most: u64,
    },
    /// Bytes that are no message of protobuf.
    #[error("what was sent is no message of protobuf")]
    Malformed,
    /// The client does not read its answers.
    #[error("no answer was read for {} s", timeout.as_secs())]
    Unread {
        /// How long answers may wait.
        timeout: Duration,
    },
    /// The server is about to end.
    #[error("the server drains and takes no new work")]
    Draining,
    /// Nothing more can be written: the disk, or what this user may have of it, is full.
    #[error("{message}")]
    DiskFull {
        /// For people.
        message: String,
    },
    /// Something that the server stands on is gone.
    #[error("{message}")]
    Unavailable {
        /// UPPER_SNAKE_CASE.
        reason: &'static str,
        /// For people.
        message: String,
    },
    /// Time ran out.
    #[error("the deadline ended after {} ms", .0.as_millis())]
    Deadline(Duration),
    /// The caller took it back.
    #[error("cancelled by the caller")]
    Cancelled,
    /// The door is there, what is behind it is not.
    #[error("{what} is not implemented")]
    Unimplemented {
        /// What is missing.
        what: &'static str,
    },
    /// Another call of the same kind is being done.
    #[error("{message}")]
    Conflict {
        /// For people.
        message: String,
    },
    /// Stored data is broken.
    #[error("{message}")]
    DataLoss {
        /// For people.
        message: String,
    },
    /// A defect.
    #[error("{message}")]
    Internal {
        /// For people.
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
    /// An error of the file system, `what` being what was done to which file.
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
            Self::Invalid(_) | Self::Malformed | Self::Expands { .. } => Code::InvalidArgument,
            Self::Precondition { .. } => Code::FailedPrecondition,
            Self::NotFound { .. } => Code::NotFound,
            Self::AlreadyExists { .. } => Code::AlreadyExists,
            Self::QueueFull { .. }
            | Self::ShareTaken { .. }
            | Self::ConnectionsFull
            | Self::DiskFull { .. }
            | Self::Unread { .. } => Code::ResourceExhausted,
            Self::Draining | Self::Unavailable { .. } => Code::Unavailable,
            Self::Deadline(_) | Self::Late { .. } => Code::DeadlineExceeded,
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
            Self::Late { .. } => "MESSAGE_TIMEOUT",
            Self::Expands { .. } => "MESSAGE_EXPANDS",
            Self::Malformed => "MALFORMED_MESSAGE",
            Self::Unread { .. } => "ANSWERS_UNREAD",
            Self::Draining => "DRAINING",
            Self::Deadline(_) => "DEADLINE_EXCEEDED",
            Self::Cancelled => "CANCELLED",
            Self::Unimplemented { .. } => "NOT_IMPLEMENTED",
            Self::Conflict { .. } => "CONFLICT",
            Self::DataLoss { .. } => "DATA_LOSS",
            Self::Internal { .. } => "DEFECT",
        }
    }

    /// The same as the failure of one item of a stream.
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
            Self::Invalid(_) | Self::Malformed | Self::Expands { .. } => FailureCode::InvalidArgument,
            Self::Precondition { .. } | Self::AlreadyExists { .. } | Self::Conflict { .. } => {
                FailureCode::FailedPrecondition
            }
            Self::NotFound { .. } => FailureCode::NotFound,
            Self::QueueFull { .. }
            | Self::ShareTaken { .. }
            | Self::ConnectionsFull
            | Self::DiskFull { .. }
            | Self::Unread { .. } => FailureCode::ResourceExhausted,
            Self::Draining | Self::Unavailable { .. } => FailureCode::Unavailable,
            Self::Deadline(_) | Self::Late { .. } => FailureCode::DeadlineExceeded,
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

/// As much of a text as fits into a header beside everything else.
fn cut_for_header(text: &str) -> &str {
    let mut bytes = 0;
    let end = text.char_indices().find(|(_, character)| {
        let plain = character.is_ascii_graphic() && !r##""#%<>`?{}"##.contains(*character);
        bytes += if plain { 1 } else { 3 * character.len_utf8() };
        bytes > MAX_MESSAGE_BYTES
    });
    end.map_or(text, |(end, _)| &text[..end])
}

/// The reason of a status that one of our servers answered. `None` where it came from elsewhere.
pub fn reason_of(status: &Status) -> Option<String> {
    status.get_details_error_info().filter(|info| info.domain == ERROR_DOMAIN).map(|info| info.reason)
}

/// Whole milliseconds, as large as they get.
pub(crate) fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_field_travels_as_a_field_violation() {
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
    fn a_full_queue_says_when_to_come_back() {
        let error = ServiceError::QueueFull {
            queue: "verify",
            unit: Unit::Items,
            capacity: 8,
            retry_after: Some(Duration::from_millis(50)),
        };
        assert_eq!(error.failure().retry_after_ms, Some(50));
        let status = Status::from(error);
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(status.message(), "queue `verify` is full, it takes 8 items");
        assert_eq!(status.get_details_retry_info().unwrap().retry_delay, Some(Duration::from_millis(50)));
    }

    #[test]
    fn a_full_disk_is_no_defect() {
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
