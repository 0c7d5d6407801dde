//! Settings `server` of every service.

mod auth;

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::{ByteSize, HumanDuration, Settings, at_least_1ms, at_least_one};
use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::client::MIN_MESSAGE;
use crate::exposure::{Protection, validate_address};

pub use auth::AuthSettings;

/// Any free port on loopback.
const LOOPBACK: &str = "127.0.0.1:0";

/// Where a server listens, how much it accepts and how it shuts down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// Address to listen on, `HOST:PORT`; port 0 takes any free port.
    pub listen: String,
    /// Whether other machines may be served in plaintext, on `listen` without `tls` and on the port of `/metrics`, and
    /// with `tls` without credentials: `token_file`, `auth.tokens` or `tls.client_ca_file`.
    pub insecure: bool,
    /// Largest message that is received or sent.
    pub max_message: ByteSize,
    /// Concurrent calls on one connection.
    pub max_concurrent_streams: u32,
    /// Concurrent connections. A further one replaces the connection that has been idle longest; if all have calls, it
    /// is accepted for health checks only. Keep it well below the process's limit of file descriptors.
    pub max_connections: usize,
    /// Time limit from accepting a connection to its first call: TLS, HTTP/2 and headers.
    #[serde(with = "HumanDuration")]
    pub handshake_timeout: Duration,
    /// How long a connection may have no call; `0s` for no limit.
    #[serde(with = "HumanDuration")]
    pub idle_timeout: Duration,
    /// Time limit of one message, from its first byte to its last.
    #[serde(with = "HumanDuration")]
    pub message_timeout: Duration,
    /// Memory for messages being received, over all connections. A call counts as its largest message so far, since its
    /// buffer is kept, plus the decoded size of the message in progress. Not below twice `max_message`.
    pub max_receive: ByteSize,
    /// Largest decoded size of one message in memory: an empty list element is two bytes on the wire and a whole struct
    /// in memory. Not below `max_message`.
    pub max_decoded: ByteSize,
    /// Interval between keepalive probes of an idle connection; `0s` for none.
    #[serde(with = "HumanDuration")]
    pub keepalive_interval: Duration,
    /// How long a probe may stay unanswered before the connection is closed.
    #[serde(with = "HumanDuration")]
    pub keepalive_timeout: Duration,
    /// How long health reports NOT_SERVING before new work is refused, so that load balancers move on first.
    #[serde(with = "HumanDuration")]
    pub settle: Duration,
    /// How long a draining server waits for work in progress.
    #[serde(with = "HumanDuration")]
    pub drain: Duration,
    /// Whether gRPC reflection is served (for grpcurl and similar tools).
    pub reflection: bool,
    /// File with the bearer tokens, one on each line, of callers that may do everything. Every call except health
    /// checks must carry a token of this file or of `auth`. Absent: no authentication, unless `auth` has some.
    pub token_file: Option<PathBuf>,
    /// Roles: who may call what.
    pub auth: AuthSettings,
    /// TLS certificates. Absent: plain text.
    pub tls: Option<ServerTlsSettings>,
    /// Whether only clients of this process may call the server, by the secret of [`crate::private`] and no other.
    #[serde(skip)]
    pub private: bool,
}

/// TLS certificates of a server, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerTlsSettings {
    /// The certificate, followed by its intermediate certificates.
    pub certificate_file: PathBuf,
    /// The certificate's private key.
    pub key_file: PathBuf,
    /// Authority that client certificates must be signed by. Absent: clients need no certificate. A client without one
    /// is refused, unless `auth.certificates` has roles and there are tokens, either of which authenticates a client.
    pub client_ca_file: Option<PathBuf>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: LOOPBACK.to_owned(),
            insecure: false,
            max_message: ByteSize::mib(32),
            max_concurrent_streams: 1024,
            max_connections: 512,
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(600),
            message_timeout: Duration::from_secs(60),
            max_receive: ByteSize::mib(512),
            max_decoded: ByteSize::mib(128),
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(10),
            settle: Duration::ZERO,
            drain: Duration::from_secs(30),
            reflection: true,
            token_file: None,
            auth: AuthSettings::default(),
            tls: None,
            private: false,
        }
    }
}

impl ServerSettings {
    /// A server on any free port of loopback, for clients of this process alone.
    pub fn private() -> Self {
        Self { reflection: false, private: true, ..Self::on(LOOPBACK) }
    }

    /// The defaults with this address.
    pub fn on(listen: impl Into<String>) -> Self {
        Self { listen: listen.into(), ..Self::default() }
    }

    fn client_ca_file(&self) -> Option<&PathBuf> {
        self.tls.as_ref()?.client_ca_file.as_ref()
    }

    pub(super) fn protection(&self) -> Protection {
        Protection {
            insecure: self.insecure,
            tls: self.tls.is_some(),
            authenticates: self.has_tokens() || self.client_ca_file().is_some(),
            credentials: "`token_file`, `auth.tokens` or `tls.client_ca_file`",
        }
    }

    fn has_tokens(&self) -> bool {
        self.token_file.is_some() || !self.auth.tokens.is_empty()
    }

    /// Whether a client may come without a certificate although there is an authority for them: it may authenticate
    /// with a token as well.
    pub(super) fn certificates_are_optional(&self) -> bool {
        !self.auth.certificates.is_empty() && self.has_tokens()
    }

    pub(super) fn keepalive_interval(&self) -> Option<Duration> {
        Some(self.keepalive_interval).filter(|interval| !interval.is_zero())
    }
}

impl Settings for ServerSettings {
    fn validate(&self) -> Result<(), FieldError> {
        validate_address("listen", &self.listen)?;
        self.protection().validate("listen", &self.listen)?;
        if self.max_message < MIN_MESSAGE {
            return Err(FieldError::new("max_message", self.max_message, format!("at least {MIN_MESSAGE}")));
        }
        at_least_one(&[
            ("max_concurrent_streams", self.max_concurrent_streams.into()),
            ("max_connections", self.max_connections as u64),
        ])?;
        at_least_1ms(&[("handshake_timeout", self.handshake_timeout), ("message_timeout", self.message_timeout)])?;
        if self.max_receive.bytes() / 2 < self.max_message.bytes() {
            let allowed = format!("at least twice max_message, which is {}", self.max_message);
            return Err(FieldError::new("max_receive", self.max_receive, allowed));
        }
        if self.max_decoded < self.max_message {
            let allowed = format!("at least max_message, which is {}", self.max_message);
            return Err(FieldError::new("max_decoded", self.max_decoded, allowed));
        }
        if self.keepalive_interval().is_some() {
            at_least_1ms(&[("keepalive_timeout", self.keepalive_timeout)])?;
        }
        if let Some(tls) = &self.tls {
            for (field, path) in [("tls.certificate_file", &tls.certificate_file), ("tls.key_file", &tls.key_file)] {
                if path.as_os_str().is_empty() {
                    return Err(FieldError::missing(field, "a PEM file"));
                }
            }
        }
        self.auth.validate(self.client_ca_file().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::role::Role;

    #[test]
    fn limits_that_let_nothing_through_are_refused() {
        let refused = |settings: ServerSettings| settings.validate().unwrap_err().to_string();
        let settings = ServerSettings { max_connections: 0, ..ServerSettings::default() };
        assert_eq!(refused(settings), "max_connections is 0, allowed: at least 1");
        let settings = ServerSettings { message_timeout: Duration::ZERO, ..ServerSettings::default() };
        assert_eq!(refused(settings), "message_timeout is 0s, allowed: at least 1ms");
        let settings = ServerSettings { max_receive: ByteSize::b(1), ..ServerSettings::default() };
        assert_eq!(refused(settings), "max_receive is 1B, allowed: at least twice max_message, which is 32MiB");
        let settings = ServerSettings { max_decoded: ByteSize::b(1), ..ServerSettings::default() };
        assert_eq!(refused(settings), "max_decoded is 1B, allowed: at least max_message, which is 32MiB");
    }

    #[test]
    fn an_address_has_host_and_port() {
        let others = ServerSettings { insecure: true, ..ServerSettings::on("0.0.0.0:50051") };
        assert_eq!(others.validate(), Ok(()));
        assert_eq!(ServerSettings::on("[::1]:0").validate(), Ok(()));
        for listen in ["", "50051", ":50051", "localhost", "localhost:99999", "localhost:x"] {
            let error = ServerSettings::on(listen).validate().unwrap_err();
            assert_eq!(error.to_string(), format!("listen is {listen:?}, allowed: HOST:PORT"));
        }
    }

    #[test]
    fn plaintext_for_other_machines_must_be_meant() {
        let error = ServerSettings::on("0.0.0.0:50051").validate().unwrap_err().to_string();
        let expected = "listen is \"0.0.0.0:50051\" in plaintext, allowed: a loopback address, certificates (`tls`), \
                        or `insecure = true` next to it on a trusted network";
        assert_eq!(error, expected);
        let certificate_file = "a.pem".into();
        let key_file = "a.key".into();
        let tls = Some(ServerTlsSettings { certificate_file, key_file, client_ca_file: None });
        let token_file = Some("token".into());
        assert_eq!(ServerSettings { tls, token_file, ..ServerSettings::on("0.0.0.0:50051") }.validate(), Ok(()));
    }

    #[test]
    fn other_machines_need_credentials_of_any_kind() {
        let files = |client_ca_file| ServerTlsSettings {
            certificate_file: "a.pem".into(),
            key_file: "a.key".into(),
            client_ca_file,
        };
        let open = ServerSettings { tls: Some(files(None)), ..ServerSettings::on("0.0.0.0:50051") };
        let error = open.validate().unwrap_err();
        assert!(error.field == "listen" && error.to_string().contains("without credentials"), "{error}");
        let tokens = [(Role::Reader, "reader".into())].into();
        let allowed = [
            ServerSettings { insecure: true, ..open.clone() },
            ServerSettings { token_file: Some("token".into()), ..open.clone() },
            ServerSettings { auth: AuthSettings { tokens, ..AuthSettings::default() }, ..open.clone() },
            ServerSettings { tls: Some(files(Some("ca.pem".into()))), ..open.clone() },
            ServerSettings { listen: "127.0.0.1:0".to_owned(), ..open },
        ];
        for settings in allowed {
            assert_eq!(settings.validate(), Ok(()), "{settings:?}");
        }
    }

    #[test]
    fn roles_of_certificates_need_an_authority() {
        let certificates = [("reward".to_owned(), Role::Service)].into();
        let auth = AuthSettings { certificates, ..AuthSettings::default() };
        let error = ServerSettings { auth, ..ServerSettings::default() }.validate().unwrap_err();
        assert!(error.field == "auth.certificates" && error.allowed.contains("tls.client_ca_file"), "{error}");
    }
}
