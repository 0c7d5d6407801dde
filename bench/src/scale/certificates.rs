//! An authority and a certificate for this machine, as files.

use std::path::{Path, PathBuf};

use anyhow::Result;
use evenkeel_rpc::client::ClientTlsSettings;
use evenkeel_rpc::server::ServerTlsSettings;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

pub(crate) struct Certificates(TempDir);

impl Certificates {
    pub(crate) fn new() -> Result<Self> {
        let folder = Self(tempfile::tempdir()?);
        let authority = KeyPair::generate()?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        std::fs::write(folder.path("ca.pem"), params.self_signed(&authority)?.pem())?;
        let issuer = Issuer::new(params, authority);
        let own = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &issuer)?;
        std::fs::write(folder.path("own.pem"), own.pem())?;
        std::fs::write(folder.path("own.key"), key.serialize_pem())?;
        Ok(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::join(self.0.path(), name)
    }

    /// TLS in both directions.
    pub(crate) fn server(&self) -> ServerTlsSettings {
        ServerTlsSettings {
            certificate_file: self.path("own.pem"),
            key_file: self.path("own.key"),
            client_ca_file: Some(self.path("ca.pem")),
        }
    }

    pub(crate) fn client(&self) -> ClientTlsSettings {
        ClientTlsSettings {
            ca_file: self.path("ca.pem"),
            server_name: None,
            certificate_file: Some(self.path("own.pem")),
            key_file: Some(self.path("own.key")),
        }
    }
}
