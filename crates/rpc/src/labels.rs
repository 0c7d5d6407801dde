//! Labels of metrics that have few values.

evenkeel_telemetry::labels! {
    /// How an item of a dispatcher ended.
    pub(crate) enum ItemEnd {
        /// A worker answered it.
        Answered = "answered",
        /// The last worker failed and said so.
        Failed = "failed",
        /// The last worker was lost.
        Lost = "lost",
        /// The deadline passed.
        Deadline = "deadline",
        /// The caller no longer waits for it.
        Withdrawn = "withdrawn",
        /// The worker answered under another id.
        UnexpectedId = "unexpected_id",
    }

    /// How an item of a server, or a whole stream, ended.
    pub(crate) enum ItemResult {
        /// The handler answered it.
        Answered = "answered",
        /// The client cancelled it.
        Cancelled = "cancelled",
        /// The deadline passed.
        Deadline = "deadline",
        /// The server stopped.
        Aborted = "aborted",
        /// There was no room for it.
        Refused = "refused",
        /// The handler panicked.
        Panicked = "panicked",
        /// The client of the stream read no responses.
        Unread = "unread",
    }

    /// Why a server closed a connection.
    pub(crate) enum CloseReason {
        /// The connection was opened and not used.
        NeverUsed = "no call was begun in time",
        /// The connection was no longer used.
        Idle = "no call for long",
        /// Another connection needed its place.
        Evicted = "room was needed",
    }
}
