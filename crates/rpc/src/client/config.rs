//! Settings `client`: how servers are reached, whichever they are.

use std::path::PathBuf;

use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use evenkeel_config::Settings;

/// How connections to servers are made and kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClientConfig {
    /// How long a connection may take to stand.
    pub connect_timeout_ms: u64,
    /// How often a connection is probed; 0 never probes.
    pub keepalive_interval_ms: u64,
    /// How long a probe may go unanswered before the connection is dead.
    pub keepalive_timeout_ms: u64,
    /// Largest message that is taken or sent.
    pub max_message_bytes: usize,
    /// File with the bearer token that calls carry. Absent: none.
    pub token_file: Option<PathBuf>,
    /// Certificates, for endpoints that begin with https.
    pub tls: Option<ClientTlsConfig>,
}

/// Certificates of a client, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClientTlsConfig {
    /// Certificates that the server's must be signed by.
    pub ca_file: PathBuf,
    /// Name that the server's certificate must have. Absent: the host of the endpoint.
    pub server_name: Option<String>,
    /// The client's own certificate, where the server asks for one; with `key_file`.
    pub certificate_file: Option<PathBuf>,
    /// Its private key.
    pub key_file: Option<PathBuf>,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connect_timeout_ms: 5_000,
            keepalive_interval_ms: 10_000,
            keepalive_timeout_ms: 10_000,
            max_message_bytes: 32 << 20,
            token_file: None,
            tls: None,
        }
    }
}

impl Settings for ClientConfig {
    fn validate(&self) -> Result<(), FieldError> {
        if self.connect_timeout_ms == 0 {
            return Err(FieldError::new("connect_timeout_ms", 0, "at least 1"));
        }
        if self.keepalive_interval_ms > 0 && self.keepalive_timeout_ms == 0 {
            return Err(FieldError::new("keepalive_timeout_ms", 0, "at least 1"));
        }
        if self.max_message_bytes < 1024 {
            return Err(FieldError::new("max_message_bytes", self.max_message_bytes, "at least 1024"));
        }
        let Some(tls) = &self.tls else { return Ok(()) };
        if cfg!(not(feature = "tls")) {
            return Err(FieldError::new("tls", "set", "absent, since this program was built without TLS"));
        }
        if tls.ca_file.as_os_str().is_empty() {
            return Err(FieldError::missing("tls.ca_file", "a PEM file"));
        }
        if tls.certificate_file.is_some() != tls.key_file.is_some() {
            return Err(FieldError::new("tls", "only one of certificate_file and key_file", "both or none"));
        }
        Ok(())
    }
}
