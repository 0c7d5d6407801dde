//! Certificates and keys in PEM files. Errors name the setting and the file.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, InconsistentKeys, RootCertStore};
use webpki::EndEntityCert;

use crate::files::{FileError, read};

/// HTTP/2 and HTTP/1.1, as TLS negotiates them.
pub(crate) const HTTP_2: &[u8] = b"h2";
pub(crate) const HTTP_1: &[u8] = b"http/1.1";

/// Where a setting is, and the file that it names.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    /// The path of the setting.
    pub(crate) setting: &'a str,
    pub(crate) path: &'a Path,
}

impl Named<'_> {
    /// The file cannot be used.
    pub(crate) fn refuse(self, message: impl ToString) -> FileError {
        FileError::new(self.setting, self.path, message)
    }
}

/// The cryptography of all connections.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The certificates of a file, at least one. Each is parsed, so that a truncated one is found here.
pub(crate) fn certificates(file: Named<'_>) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = read(file.setting, file.path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| file.refuse(format_args!("it is not complete PEM: {error}")))?;
    if found.is_empty() {
        return Err(file.refuse("it contains no certificate in PEM"));
    }
    for certificate in &found {
        EndEntityCert::try_from(certificate)
            .map_err(|error| file.refuse(format_args!("it contains an invalid certificate: {error}")))?;
    }
    Ok(found)
}

/// The private key of a file.
pub(crate) fn key(file: Named<'_>) -> Result<PrivateKeyDer<'static>, FileError> {
    let text = read(file.setting, file.path)?;
    // The parser's error is about the form of the file and contains nothing of it.
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| file.refuse(format_args!("it is not a valid private key in PEM: {error}")))
}

/// The authorities of a file.
pub(crate) fn authorities(file: Named<'_>) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots
            .add(certificate)
            .map_err(|error| file.refuse(format_args!("it contains no certificate authority: {error}")))?;
    }
    Ok(roots)
}

/// Why a certificate and its key cannot be used together.
pub(crate) fn mismatch(certificate: Named<'_>, key: Named<'_>, error: &rustls::Error) -> FileError {
    match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            key.refuse(format_args!("it is not the key of the certificate in {}", certificate.path.display()))
        }
        error => certificate.refuse(error),
    }
}

/// The DNS names that a certificate was issued for.
pub(crate) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    EndEntityCert::try_from(certificate)
        .map(|certificate| certificate.valid_dns_names().map(str::to_owned).collect())
        .unwrap_or_default()
}
