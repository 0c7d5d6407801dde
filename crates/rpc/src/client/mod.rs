//! Channels to single servers (learner, generation), with the limits, certificates and tokens of the settings. Calls
//! carry the trace context of the current task. For many workers of one kind see [`crate::dispatch`].

mod channel;
mod headers;
mod health;
mod settings;
mod tls;

pub use channel::{ClientChannel, Connector, SOCKET, ServerAddress};
pub use headers::Headers;
pub use health::Health;
pub(crate) use settings::MIN_MESSAGE;
pub use settings::{ClientSettings, ClientTlsSettings};
pub use tls::TlsError;

/// Why a channel could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("`{url}` is not an endpoint, allowed: http://HOST:PORT or https://HOST:PORT")]
    Url { url: String },
    /// A file that a setting names cannot be used.
    #[error(transparent)]
    File(#[from] crate::files::FileError),
    /// The certificates cannot be used, or the settings have none.
    #[error("cannot use TLS for {url}: {source}")]
    Tls { url: String, source: TlsError },
    #[error("cannot connect to {url}: {message}")]
    Connect {
        url: String,
        /// The error of the transport.
        message: String,
    },
}

/// An error with its sources; transport errors alone say nothing.
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
