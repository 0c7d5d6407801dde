//! Settings `server` of every service.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use evenkeel_config::Settings;

/// How a server listens, how much it takes and how it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address to listen on, `HOST:PORT`; port 0 takes any free one.
    pub listen: String,
    /// Largest message that is taken or sent.
    pub max_message_bytes: usize,
    /// Calls at once on one connection.
    pub max_concurrent_streams: u32,
    /// Connections at once. One more takes the place of the one that has been without a call the longest; where all have calls, health
    /// checks alone are answered on it. Keep it well below the descriptors that the process may have.
    pub max_connections: usize,
    /// How long a new connection may take to its first call, with TLS, HTTP/2 and headers.
    pub handshake_timeout_ms: u64,
    /// How long a connection may be without a call; 0 for ever.
    pub idle_timeout_ms: u64,
    /// How long a message may take from its first byte to its last.
    pub message_timeout_ms: u64,
    /// Bytes of messages that are on their way in, over all connections. A call counts as much as its largest message so far, since
    /// its buffer is kept, and as what the message in progress becomes when it is decoded. Not below twice `max_message_bytes`.
    pub max_receive_bytes: usize,
    /// Most that one message may become when it is decoded, in bytes of memory: an empty element of a list is two bytes on the way.
    /// Not below `max_message_bytes`.
    pub max_decoded_bytes: usize,
    /// How often an idle connection is probed; 0 never probes.
    pub keepalive_interval_ms: u64,
    /// How long a probe may go unanswered before the connection is dead.
    pub keepalive_timeout_ms: u64,
    /// How long NOT_SERVING is told before work is refused, so that load balancers look elsewhere first.
    pub settle_ms: u64,
    /// How long work in progress may take to end once the server drains.
    pub drain_ms: u64,
    /// Whether clients may ask for the descriptions of the services (grpcurl does).
    pub reflection: bool,
    /// File with the bearer token that every call must carry; health checks need none. Absent: no token.
    pub token_file: Option<PathBuf>,
    /// Certificates. Absent: plain text.
    pub tls: Option<ServerTlsConfig>,
}

/// Certificates of a server, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerTlsConfig {
    /// The certificate, followed by its intermediate ones.
    pub certificate_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
    /// Certificates that client certificates must be signed by. Absent: clients need none.
    pub client_ca_file: Option<PathBuf>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0".to_owned(),
            max_message_bytes: 32 << 20,
            max_concurrent_streams: 1024,
            max_connections: 512,
            handshake_timeout_ms: 10_000,
            idle_timeout_ms: 600_000,
            message_timeout_ms: 60_000,
            max_receive_bytes: 512 << 20,
            max_decoded_bytes: 128 << 20,
            keepalive_interval_ms: 30_000,
            keepalive_timeout_ms: 10_000,
            settle_ms: 0,
            drain_ms: 30_000,
            reflection: true,
            token_file: None,
            tls: None,
        }
    }
}

impl ServerConfig {
    /// The defaults, listening on this address.
    pub fn on(listen: impl Into<String>) -> Self {
        Self { listen: listen.into(), ..Self::default() }
    }

    pub(super) fn keepalive_interval(&self) -> Option<Duration> {
        (self.keepalive_interval_ms > 0).then(|| Duration::from_millis(self.keepalive_interval_ms))
    }
}

impl Settings for ServerConfig {
    fn validate(&self) -> Result<(), FieldError> {
        let port = self.listen.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
        if !matches!(port, Some((host, Ok(_))) if !host.is_empty()) {
            return Err(FieldError::new("listen", format_args!("{:?}", self.listen), "HOST:PORT"));
        }
        if self.max_message_bytes < 1024 {
            return Err(FieldError::new("max_message_bytes", self.max_message_bytes, "at least 1024"));
        }
        let least = [
            ("max_concurrent_streams", u64::from(self.max_concurrent_streams)),
            ("max_connections", self.max_connections as u64),
            ("handshake_timeout_ms", self.handshake_timeout_ms),
            ("message_timeout_ms", self.message_timeout_ms),
        ];
        if let Some((field, _)) = least.into_iter().find(|(_, value)| *value == 0) {
            return Err(FieldError::new(field, 0, "at least 1"));
        }
        if self.max_receive_bytes / 2 < self.max_message_bytes {
            let allowed = format!("at least twice max_message_bytes, which is {}", self.max_message_bytes);
            return Err(FieldError::new("max_receive_bytes", self.max_receive_bytes, allowed));
        }
        if self.max_decoded_bytes < self.max_message_bytes {
            let allowed = format!("at least max_message_bytes, which is {}", self.max_message_bytes);
            return Err(FieldError::new("max_decoded_bytes", self.max_decoded_bytes, allowed));
        }
        if self.keepalive_interval_ms > 0 && self.keepalive_timeout_ms == 0 {
            return Err(FieldError::new("keepalive_timeout_ms", 0, "at least 1"));
        }
        if let Some(tls) = &self.tls {
            for (field, path) in [("tls.certificate_file", &tls.certificate_file), ("tls.key_file", &tls.key_file)] {
                if path.as_os_str().is_empty() {
                    return Err(FieldError::missing(field, "a PEM file"));
                }
            }
        }
        if self.tls.is_some() && cfg!(not(feature = "tls")) {
            return Err(FieldError::new("tls", "set", "absent, since this program was built without TLS"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_let_nothing_through_are_refused() {
        let refused = |config: ServerConfig| config.validate().unwrap_err().to_string();
        let config = ServerConfig { max_connections: 0, ..ServerConfig::default() };
        assert_eq!(refused(config), "max_connections is 0, allowed: at least 1");
        let config = ServerConfig { max_receive_bytes: 1, ..ServerConfig::default() };
        assert_eq!(
            refused(config),
            "max_receive_bytes is 1, allowed: at least twice max_message_bytes, which is 33554432"
        );
        let config = ServerConfig { max_decoded_bytes: 1, ..ServerConfig::default() };
        assert_eq!(refused(config), "max_decoded_bytes is 1, allowed: at least max_message_bytes, which is 33554432");
    }

    #[test]
    fn an_address_has_host_and_port() {
        assert_eq!(ServerConfig::on("0.0.0.0:50051").validate(), Ok(()));
        assert_eq!(ServerConfig::on("[::1]:0").validate(), Ok(()));
        for listen in ["", "50051", ":50051", "localhost", "localhost:99999", "localhost:x"] {
            let error = ServerConfig::on(listen).validate().unwrap_err();
            assert_eq!(error.to_string(), format!("listen is {listen:?}, allowed: HOST:PORT"));
        }
    }
}
