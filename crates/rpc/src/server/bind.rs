//! Binding ports.

use std::io;
use std::net::SocketAddr;

use evenkeel_proto::FieldError;
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
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A file that a setting names cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A setting that is refused.
    #[error(transparent)]
    Setting(#[from] FieldError),
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
