//! Authorities and the certificates that they sign, as files.

use std::path::{Path, PathBuf};

use evenkeel_rpc::client::{ClientSettings, ClientTlsSettings, Connector, ServerAddress};
use evenkeel_rpc::server::ServerTlsSettings;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    /// A certificate for a name, and its key, both in PEM.
    pub(crate) fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.into()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// A certificate whose time is over.
    pub(crate) fn issue_expired(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.into()]).unwrap();
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 1, 1));
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// A folder with an authority and certificates: `ca.pem`, `NAME.pem`, `NAME.key`.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
    pub(crate) authority: Authority,
}

impl Folder {
    pub(crate) fn new(names: &[&str]) -> Self {
        let folder = Self { folder: tempfile::tempdir().unwrap(), authority: Authority::new() };
        folder.write("ca.pem", &folder.authority.pem);
        for name in names {
            folder.store(name, &folder.authority.issue(name));
        }
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a file as one should: by another under its name.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let next = self.path(&format!("{name}.next"));
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, self.path(name)).unwrap();
    }

    /// Stores a certificate and its key.
    pub(crate) fn store(&self, name: &str, (certificate, key): &(String, String)) {
        self.write(&format!("{name}.pem"), certificate);
        self.write(&format!("{name}.key"), key);
    }

    /// TLS of a server on this machine.
    pub(crate) fn server(&self, client_ca_file: Option<PathBuf>) -> ServerTlsSettings {
        let certificate_file = self.path("localhost.pem");
        let key_file = self.path("localhost.key");
        ServerTlsSettings { certificate_file, key_file, client_ca_file }
    }

    /// TLS of a client without a certificate.
    pub(crate) fn client(&self) -> ClientTlsSettings {
        ClientTlsSettings {
            ca_file: self.path("ca.pem"),
            server_name: Some("localhost".into()),
            ..ClientTlsSettings::default()
        }
    }

    /// TLS of a client with the certificate of that name.
    pub(crate) fn client_as(&self, name: &str) -> ClientTlsSettings {
        let certificate = self.path(&format!("{name}.pem"));
        let key = self.path(&format!("{name}.key"));
        ClientTlsSettings { certificate_file: Some(certificate), key_file: Some(key), ..self.client() }
    }
}

/// A client with this certificate and token.
pub(crate) fn connector(tls: Option<ClientTlsSettings>, token_file: Option<&Path>) -> Connector {
    let token_file = token_file.map(Path::to_owned);
    Connector::new("client", ClientSettings { tls, token_file, ..ClientSettings::default() }).unwrap()
}

/// The address of a server with a certificate for `localhost`.
pub(crate) fn at(endpoint: &str) -> ServerAddress {
    ServerAddress::new(endpoint)
}
