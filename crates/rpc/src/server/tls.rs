//! TLS of a server.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::WebPkiClientVerifier;

use super::ServerTlsSettings;
use crate::files::FileError;
use crate::pem::{HTTP_1, HTTP_2, Named, authorities, certificates, key, mismatch, provider};
use crate::reload::Reloading;

/// The certificates of a server. New connections get those that the files hold then.
#[derive(Debug, Clone)]
pub struct ServerCertificates(Reloading<ServerConfig>);

impl ServerCertificates {
    /// Reads the files of the settings, for gRPC. `optional`: whether clients may come without a certificate where an
    /// authority for them is set.
    pub(super) fn for_grpc(section: &str, settings: &ServerTlsSettings, optional: bool) -> Result<Self, FileError> {
        Self::open(&format!("{section}.tls"), settings, optional, HTTP_2)
    }

    /// Reads the files of the settings, for a server of HTTP/1.1. `section` is their path, for errors: `engine.tls`.
    /// Where they name an authority for clients, each client needs a certificate.
    ///
    /// # Errors
    /// A file that cannot be used, by setting and path.
    pub fn for_http1(section: &str, settings: &ServerTlsSettings) -> Result<Self, FileError> {
        Self::open(section, settings, false, HTTP_1)
    }

    fn open(
        section: &str,
        settings: &ServerTlsSettings,
        optional: bool,
        protocol: &'static [u8],
    ) -> Result<Self, FileError> {
        let files = [&settings.certificate_file, &settings.key_file].into_iter().chain(&settings.client_ca_file);
        let files: Vec<PathBuf> = files.cloned().collect();
        let setting = section.to_owned();
        let settings = settings.clone();
        let load = move || {
            let mut config = load(&setting, &settings, optional)?;
            config.alpn_protocols = vec![protocol.to_vec()];
            Ok(config)
        };
        Reloading::open(section, files, load).map(Self)
    }

    /// Takes the next connection.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.current())
    }
}

fn load(section: &str, settings: &ServerTlsSettings, optional: bool) -> Result<ServerConfig, FileError> {
    let setting = ["certificate_file", "key_file", "client_ca_file"].map(|key| format!("{section}.{key}"));
    let certificate_file = Named { setting: &setting[0], path: &settings.certificate_file };
    let key_file = Named { setting: &setting[1], path: &settings.key_file };
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| certificate_file.refuse(error))?;
    let builder = match &settings.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let file = Named { setting: &setting[2], path };
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities(file)?), provider());
            let verifier = if optional { verifier.allow_unauthenticated() } else { verifier };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| file.refuse(error))?)
        }
    };
    builder
        .with_single_cert(certificates(certificate_file)?, key(key_file)?)
        .map_err(|error| mismatch(certificate_file, key_file, &error))
}
