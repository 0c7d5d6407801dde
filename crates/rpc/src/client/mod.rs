//! Channels to one server, with the limits, certificates and tokens of the settings; the trace of the running task travels along.
//!
//! For one server each (learner, generation). Many workers of one kind are what [`crate::dispatch`] is for.

mod channel;
mod headers;
mod settings;

pub use channel::{ClientChannel, Connector, Target};
pub use headers::Headers;
pub(crate) use settings::MIN_MESSAGE;
pub use settings::{ClientSettings, ClientTlsSettings};

/// Why no channel could be had.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Not a URL of a server.
    #[error("`{url}` is not an endpoint, allowed: http://HOST:PORT or https://HOST:PORT")]
    Url {
        /// What it was.
        url: String,
    },
    /// A file that a setting names cannot be used.
    #[error(transparent)]
    File(#[from] crate::files::FileError),
    /// The certificates cannot be used, or the settings have none.
    #[error("cannot use TLS for {url}: {message}")]
    Tls {
        /// The endpoint.
        url: String,
        /// What is wrong.
        message: String,
    },
    /// Nobody answers there.
    #[error("cannot connect to {url}: {message}")]
    Connect {
        /// The endpoint.
        url: String,
        /// What the system said.
        message: String,
    },
}

/// An error with everything behind it; transport errors say nothing by themselves.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = error.source();
    }
    text
}
