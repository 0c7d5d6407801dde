//! TLS of a server.

use tonic::transport::{Certificate, Identity, ServerTlsConfig as Transport};

use super::ServerTlsSettings;
use crate::files::{FileError, read};

/// Reads the files of the settings.
pub(super) fn load(section: &str, settings: &ServerTlsSettings) -> Result<Transport, FileError> {
    let certificate = read(&format!("{section}.tls.certificate_file"), &settings.certificate_file)?;
    let key = read(&format!("{section}.tls.key_file"), &settings.key_file)?;
    let transport = Transport::new().identity(Identity::from_pem(certificate, key));
    Ok(match &settings.client_ca_file {
        None => transport,
        Some(path) => {
            transport.client_ca_root(Certificate::from_pem(read(&format!("{section}.tls.client_ca_file"), path)?))
        }
    })
}
