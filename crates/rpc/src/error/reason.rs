//! The machine-readable reasons of failures.

use std::fmt;
use std::str::FromStr;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $reason:ident = $name:literal,)+) => {
        /// Why a call or an item failed, finer than its code, as `google.rpc.ErrorInfo` and `Failure` carry it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[doc = $doc])+ $reason,)+
        }

        impl Reason {
            /// All reasons, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$reason,)+];

            /// Meaning, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$reason => concat!($($doc),+).trim_ascii(),)+
                }
            }

            /// The reason as messages carry it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)+
                }
            }
        }

        impl FromStr for Reason {
            type Err = UnknownReason;

            fn from_str(name: &str) -> Result<Self, UnknownReason> {
                match name {
                    $($name => Ok(Self::$reason),)+
                    _ => Err(UnknownReason),
                }
            }
        }
    };
}

/// A reason that this version does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an unknown reason")]
pub struct UnknownReason;

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

reasons! {
    /// A field of the request is refused.
    InvalidField = "INVALID_FIELD",
    /// The thing that the request names does not exist.
    NotFound = "NOT_FOUND",
    /// Something different of that name exists.
    AlreadyExists = "ALREADY_EXISTS",
    /// A queue has no room for another item.
    QueueFull = "QUEUE_FULL",
    /// A queue has no room for more bytes.
    BytesFull = "BYTES_FULL",
    /// The client has its share of a queue.
    ClientQuotaExceeded = "CLIENT_QUOTA_EXCEEDED",
    /// The disk is full, or the quota used up.
    DiskFull = "DISK_FULL",
    /// All connections of the server are in use.
    ConnectionsFull = "CONNECTIONS_FULL",
    /// A message took too long to arrive.
    MessageTimeout = "MESSAGE_TIMEOUT",
    /// A message would be too large once it is decoded.
    DecodedMessageTooLarge = "DECODED_MESSAGE_TOO_LARGE",
    /// Bytes that are not a protobuf message.
    MalformedMessage = "MALFORMED_MESSAGE",
    /// The client does not read its responses.
    ResponsesUnread = "RESPONSES_UNREAD",
    /// The caller is not authenticated.
    Unauthenticated = "UNAUTHENTICATED",
    /// The caller's role may not do this.
    InsufficientRole = "INSUFFICIENT_ROLE",
    /// The server is shutting down.
    Draining = "DRAINING",
    /// The deadline passed.
    DeadlineExceeded = "DEADLINE_EXCEEDED",
    /// The caller cancelled it.
    Cancelled = "CANCELLED",
    /// The server does not implement it.
    NotImplemented = "NOT_IMPLEMENTED",
    /// Another call of the same kind is in progress.
    Conflict = "CONFLICT",
    /// Stored data is corrupt.
    DataLoss = "DATA_LOSS",
    /// A defect of the server.
    Internal = "INTERNAL",
    /// Every worker that had the item was lost.
    WorkerLost = "WORKER_LOST",
    /// An unanswered item has the same id, or the item has none.
    DuplicateId = "DUPLICATE_ID",
    /// No reward worker answers.
    NoWorker = "NO_WORKER",
    /// The learner serves another run.
    RunMismatch = "RUN_MISMATCH",
    /// Another client holds the learner's lease.
    Leased = "LEASED",
    /// The weights have another version than the request names.
    VersionMismatch = "VERSION_MISMATCH",
    /// The folder of a published version is no longer there.
    WeightsGone = "WEIGHTS_GONE",
    /// Weights could not be fetched to where they are read.
    NotPulled = "NOT_PULLED",
    /// A second set of weights does not fit into memory.
    NoMemory = "NO_MEMORY",
    /// The settings differ from those of the request.
    SettingsMismatch = "SETTINGS_MISMATCH",
    /// A rank of a learner that has another program, recipe or model.
    RankRefused = "RANK_REFUSED",
    /// A rank of the learner is lost, or has not joined yet.
    RankLost = "RANK_LOST",
    /// The operation is not the next of its run.
    OutOfOrder = "OUT_OF_ORDER",
    /// An engine's log-probabilities are not the learner's, though both name one arithmetic.
    SampledOtherwise = "SAMPLED_OTHERWISE",
    /// There is no complete gradient to apply.
    NotAccumulated = "NOT_ACCUMULATED",
    /// No group arrived for too long, so the step was dropped.
    StepIdle = "STEP_IDLE",
    /// No engine has the version that the sample asks for.
    VersionUnavailable = "VERSION_UNAVAILABLE",
    /// No engine can sample.
    NoEngine = "NO_ENGINE",
    /// The engine serves no samples at the moment.
    NotServing = "NOT_SERVING",
    /// The engine cannot score tokens.
    NoScores = "NO_SCORES",
    /// The engine was lost meanwhile.
    EngineLost = "ENGINE_LOST",
    /// The engine failed.
    EngineFailed = "ENGINE_FAILED",
    /// Every engine that had the sample failed.
    EnginesFailed = "ENGINES_FAILED",
    /// The engine refused the sample.
    EngineRefused = "ENGINE_REFUSED",
    /// The engine took too long for the sample.
    EngineDeadline = "ENGINE_DEADLINE",
    /// The engine could not be resumed after a weight update.
    NotResumed = "NOT_RESUMED",
    /// The engine cannot sleep.
    SleepUnsupported = "SLEEP_UNSUPPORTED",
    /// Engines that sleep without weights need weights first.
    FirstWeights = "FIRST_WEIGHTS",
    /// Another run is in progress.
    Busy = "BUSY",
    /// The run directory cannot be used.
    RunDirectory = "RUN_DIRECTORY",
    /// The run directory cannot be written.
    DiskLost = "DISK_LOST",
    /// A service of the run stayed away.
    ServiceLost = "SERVICE_LOST",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_read_as_it_was_written() {
        for reason in [Reason::StepIdle, Reason::VersionMismatch, Reason::InvalidField] {
            assert_eq!(reason.as_str().parse(), Ok(reason));
        }
        assert_eq!("FROM_A_LATER_VERSION".parse::<Reason>(), Err(UnknownReason));
    }
}
