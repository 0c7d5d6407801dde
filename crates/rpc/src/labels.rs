//! Labels of metrics that have few values.

evenkeel_telemetry::labels! {
    /// How an item of a dispatcher ended.
    pub(crate) enum ItemEnd {
        /// A worker answered it.
        Answered = "answered",
        /// Its last worker failed and said so.
        Failed = "failed",
        /// Its last worker was lost.
        Lost = "lost",
        /// Its deadline passed.
        Deadline = "deadline",
        /// Its caller does not wait for it any more.
        Withdrawn = "withdrawn",
        /// Its worker answered under another id.
        UnexpectedId = "unexpected_id",
    }

    /// How an item of a server, or a whole stream, ended.
    pub(crate) enum ItemResult {
        /// The handler answered it.
        Answered = "answered",
        /// The client cancelled it.
        Cancelled = "cancelled",
        /// Its deadline passed.
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
        /// It was opened and not used.
        NeverUsed = "no call was begun in time",
        /// It was not used any more.
        Idle = "no call for long",
        /// Another connection needed its place.
        Evicted = "room was needed",
    }
}
