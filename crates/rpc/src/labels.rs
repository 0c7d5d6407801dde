//! Labels of metrics that have few values: what is recorded and what [`crate::series`] lists are the same names.

macro_rules! labels {
    ($($(#[$doc:meta])* $label:ident { $($(#[$what:meta])* $value:ident = $name:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $label {
            $($(#[$what])* $value),+
        }

        impl $label {
            /// The names of all values.
            pub(crate) const ALL: &'static [&'static str] = &[$(Self::$value.name()),+];

            /// The name of the value.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }
        }
    )+};
}

labels! {
    /// How an item of a dispatcher ended.
    ItemEnd {
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
        Misanswered = "misanswered",
    }

    /// How an item of a server, or a whole stream, ended.
    ItemResult {
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
    CloseReason {
        /// It was opened and not used.
        NeverUsed = "no call was begun in time",
        /// It was not used any more.
        Idle = "no call for long",
        /// Another connection needed its place.
        Evicted = "room was needed",
    }
}
