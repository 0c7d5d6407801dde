//! The error of all services and its gRPC status: a code, a machine-readable reason (`google.rpc.ErrorInfo`), the
//! refused fields (`google.rpc.BadRequest`) and the delay before a retry (`google.rpc.RetryInfo`).

mod reason;
mod status;

use std::io;
use std::time::Duration;

use evenkeel_config::human;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{Failure, FailureCode, FieldViolation};
use tonic::Code;

pub use reason::{Reason, UnknownReason};
pub use status::{ERROR_DOMAIN, has_reason, reason_of};

/// The unit of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Items,
    Bytes,
}

impl Unit {
    /// The names of both.
    pub(crate) const NAMES: &'static [&'static str] = &[Self::Items.name(), Self::Bytes.name()];

    /// The plural of the unit's name.
    pub const fn name(self) -> &'static str {
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
    Precondition { reason: Reason, message: String },
    /// The request refers to something that does not exist.
    #[error("{what} not found")]
    NotFound { what: String },
    /// Something different with that name exists.
    #[error("{what} already exists")]
    AlreadyExists { what: String },
    /// A bounded queue is full.
    #[error("queue `{queue}` is full, its capacity is {capacity} {}", unit.name())]
    QueueFull {
        /// Name of the queue.
        queue: &'static str,
        unit: Unit,
        capacity: u64,
        /// Delay before a retry.
        retry_after: Option<Duration>,
    },
    /// A bounded queue is not full, but this client has its share.
    #[error(
        "this client holds {held} of the {capacity} {} of queue `{queue}`, the rest is kept for others",
        unit.name()
    )]
    ClientQuotaExceeded {
        /// Name of the queue.
        queue: &'static str,
        unit: Unit,
        capacity: u64,
        /// What the client or its host holds.
        held: u64,
    },
    /// All connections of the server are in use.
    #[error("all connections of the server are in use; this one serves health checks only (setting `max_connections`)")]
    ConnectionsFull,
    /// A message took too long to arrive.
    #[error("a message was incomplete after {} (setting `message_timeout`)", human(*timeout))]
    MessageTimeout { timeout: Duration },
    /// A message would be too large once it is decoded.
    #[error("the message would take more than {most} bytes once it is decoded (setting `max_decoded`)")]
    DecodedMessageTooLarge {
        /// The limit in bytes.
        most: u64,
    },
    /// Bytes that are not a protobuf message.
    #[error("the message is not valid protobuf")]
    Malformed,
    /// The client does not read its responses.
    #[error("no response was read for {} s", timeout.as_secs())]
    ResponsesUnread { timeout: Duration },
    /// The caller is not authenticated.
    #[error("{message}")]
    Unauthenticated { message: &'static str },
    /// The caller's role may not do this.
    #[error("the role `{role}` may not call {method}, which requires `{needed}`")]
    Forbidden {
        method: String,
        role: &'static str,
        /// The least role of the method.
        needed: &'static str,
    },
    /// The server is shutting down.
    #[error("the server is draining and accepts no new work")]
    Draining,
    /// The disk is full, or the quota used up.
    #[error("{message}")]
    DiskFull { message: String },
    /// Weights do not fit into memory.
    #[error("{message}")]
    NoMemory { message: String },
    /// Something that the server depends on is unavailable.
    #[error("{message}")]
    Unavailable { reason: Reason, message: String },
    #[error("the deadline passed after {} ms", .0.as_millis())]
    Deadline(Duration),
    /// The caller cancelled it.
    #[error("cancelled by the caller")]
    Cancelled,
    /// Defined in the API, not implemented by this server.
    #[error("{what} is not implemented")]
    Unimplemented { what: &'static str },
    /// Another call of the same kind is in progress.
    #[error("{message}")]
    Conflict { message: String },
    /// Stored data is corrupt.
    #[error("{message}")]
    DataLoss { message: String },
    #[error("{message}")]
    Internal { message: String },
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

    pub fn code(&self) -> Code {
        match self {
            Self::Invalid(_) | Self::Malformed | Self::DecodedMessageTooLarge { .. } => Code::InvalidArgument,
            Self::Precondition { .. } => Code::FailedPrecondition,
            Self::NotFound { .. } => Code::NotFound,
            Self::AlreadyExists { .. } => Code::AlreadyExists,
            Self::QueueFull { .. }
            | Self::ClientQuotaExceeded { .. }
            | Self::ConnectionsFull
            | Self::DiskFull { .. }
            | Self::NoMemory { .. }
            | Self::ResponsesUnread { .. } => Code::ResourceExhausted,
            Self::Draining | Self::Unavailable { .. } => Code::Unavailable,
            Self::Deadline(_) | Self::MessageTimeout { .. } => Code::DeadlineExceeded,
            Self::Cancelled => Code::Cancelled,
            Self::Unauthenticated { .. } => Code::Unauthenticated,
            Self::Forbidden { .. } => Code::PermissionDenied,
            Self::Unimplemented { .. } => Code::Unimplemented,
            Self::Conflict { .. } => Code::Aborted,
            Self::DataLoss { .. } => Code::DataLoss,
            Self::Internal { .. } => Code::Internal,
        }
    }

    pub fn reason(&self) -> Reason {
        match self {
            Self::Invalid(_) => Reason::InvalidField,
            Self::Precondition { reason, .. } | Self::Unavailable { reason, .. } => *reason,
            Self::NotFound { .. } => Reason::NotFound,
            Self::AlreadyExists { .. } => Reason::AlreadyExists,
            Self::QueueFull { unit: Unit::Items, .. } => Reason::QueueFull,
            Self::QueueFull { unit: Unit::Bytes, .. } => Reason::BytesFull,
            Self::ClientQuotaExceeded { .. } => Reason::ClientQuotaExceeded,
            Self::DiskFull { .. } => Reason::DiskFull,
            Self::NoMemory { .. } => Reason::NoMemory,
            Self::ConnectionsFull => Reason::ConnectionsFull,
            Self::MessageTimeout { .. } => Reason::MessageTimeout,
            Self::DecodedMessageTooLarge { .. } => Reason::DecodedMessageTooLarge,
            Self::Malformed => Reason::MalformedMessage,
            Self::ResponsesUnread { .. } => Reason::ResponsesUnread,
            Self::Unauthenticated { .. } => Reason::Unauthenticated,
            Self::Forbidden { .. } => Reason::InsufficientRole,
            Self::Draining => Reason::Draining,
            Self::Deadline(_) => Reason::DeadlineExceeded,
            Self::Cancelled => Reason::Cancelled,
            Self::Unimplemented { .. } => Reason::NotImplemented,
            Self::Conflict { .. } => Reason::Conflict,
            Self::DataLoss { .. } => Reason::DataLoss,
            Self::Internal { .. } => Reason::Internal,
        }
    }

    /// The failure of a stream item that reports this error.
    pub fn failure(&self) -> Failure {
        let mut failure = Failure::new(self.failure_code(), self.reason().as_str(), self.to_string());
        match self {
            Self::Invalid(errors) => failure.violations = errors.iter().cloned().map(FieldViolation::from).collect(),
            Self::QueueFull { retry_after: Some(after), .. } => failure.retry_after_ms = Some(millis(*after)),
            _ => {}
        }
        failure
    }

    fn failure_code(&self) -> FailureCode {
        match self {
            Self::Invalid(_) | Self::Malformed | Self::DecodedMessageTooLarge { .. } => FailureCode::InvalidArgument,
            Self::Precondition { .. }
            | Self::AlreadyExists { .. }
            | Self::Conflict { .. }
            | Self::Unauthenticated { .. }
            | Self::Forbidden { .. } => FailureCode::FailedPrecondition,
            Self::NotFound { .. } => FailureCode::NotFound,
            Self::QueueFull { .. }
            | Self::ClientQuotaExceeded { .. }
            | Self::ConnectionsFull
            | Self::DiskFull { .. }
            | Self::NoMemory { .. }
            | Self::ResponsesUnread { .. } => FailureCode::ResourceExhausted,
            Self::Draining | Self::Unavailable { .. } => FailureCode::Unavailable,
            Self::Deadline(_) | Self::MessageTimeout { .. } => FailureCode::DeadlineExceeded,
            Self::Cancelled => FailureCode::Cancelled,
            Self::Unimplemented { .. } => FailureCode::Unimplemented,
            Self::DataLoss { .. } | Self::Internal { .. } => FailureCode::Internal,
        }
    }
}

/// A duration in whole milliseconds, saturating.
pub fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

/// A duration in whole microseconds, saturating.
pub fn micros(duration: Duration) -> u64 {
    duration.as_micros().try_into().unwrap_or(u64::MAX)
}
