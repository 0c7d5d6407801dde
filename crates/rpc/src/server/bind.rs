//! Binding ports.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::files::FileError;

/// Why a server could not start or failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be bound.
    #[error("cannot listen on {address} (setting `{setting}`): {source}")]
    Listen {
        /// The setting with its path.
        setting: String,
        /// Its value.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A file that a setting names cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The certificates cannot be used, or do not belong together.
    #[error("cannot use the certificates of setting `{setting}`: {message}")]
    Tls {
        /// The setting with its path.
        setting: String,
        /// What is wrong.
        message: String,
    },
    /// The transport failed.
    #[error("the transport failed: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// Binds an address; `setting` names it in errors.
pub(super) async fn bind(setting: String, address: &str) -> Result<(TcpListener, SocketAddr), ServerError> {
    let listen = |source| ServerError::Listen { setting, address: address.to_owned(), source };
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        io::Result::Ok((listener, address))
    };
    bound.await.map_err(listen)
}
