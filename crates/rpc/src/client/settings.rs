//! Settings `client` of everything that calls a service.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::{ByteSize, HumanDuration, Settings, at_least_1ms};
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Smallest `max_message` of clients and servers: errors must fit.
pub(crate) const MIN_MESSAGE: ByteSize = ByteSize::kib(1);

/// How connections to servers are opened and kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClientSettings {
    /// Time limit of opening a connection.
    #[serde(with = "HumanDuration")]
    pub connect_timeout: Duration,
    /// Interval between keepalive probes of a connection; `0s` for none.
    #[serde(with = "HumanDuration")]
    pub keepalive_interval: Duration,
    /// How long a probe may stay unanswered before the connection is closed.
    #[serde(with = "HumanDuration")]
    pub keepalive_timeout: Duration,
    /// Largest message that is received or sent.
    pub max_message: ByteSize,
    /// File with the bearer token that calls carry; of several lines the first. Absent: none.
    pub token_file: Option<PathBuf>,
    /// TLS certificates, for `https` endpoints.
    pub tls: Option<ClientTlsSettings>,
}

/// TLS certificates of a client, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClientTlsSettings {
    /// Authority that server certificates must be signed by.
    pub ca_file: PathBuf,
    /// Name that the server's certificate must be issued for. Absent: the host of the endpoint.
    pub server_name: Option<String>,
    /// The client's own certificate, if the server requires one; together with `key_file`.
    pub certificate_file: Option<PathBuf>,
    /// The certificate's private key.
    pub key_file: Option<PathBuf>,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            keepalive_interval: Duration::from_secs(10),
            keepalive_timeout: Duration::from_secs(10),
            max_message: ByteSize::mib(32),
            token_file: None,
            tls: None,
        }
    }
}

impl Settings for ClientSettings {
    fn validate(&self) -> Result<(), FieldError> {
        at_least_1ms(&[("connect_timeout", self.connect_timeout)])?;
        if !self.keepalive_interval.is_zero() {
            at_least_1ms(&[("keepalive_timeout", self.keepalive_timeout)])?;
        }
        if self.max_message < MIN_MESSAGE {
            return Err(FieldError::new("max_message", self.max_message, format!("at least {MIN_MESSAGE}")));
        }
        let Some(tls) = &self.tls else { return Ok(()) };
        if tls.ca_file.as_os_str().is_empty() {
            return Err(FieldError::missing("tls.ca_file", "a PEM file"));
        }
        if tls.certificate_file.is_some() != tls.key_file.is_some() {
            return Err(FieldError::new("tls", "only one of certificate_file and key_file", "both or none"));
        }
        Ok(())
    }
}
