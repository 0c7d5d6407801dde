//! Who can reach a port. To other machines, plaintext and encryption without credentials are the operator's decision,
//! never a default.

use std::net::{IpAddr, SocketAddr};

use evenkeel_proto::FieldError;

/// Whether a listening address is a loopback address.
pub fn is_loopback(listen: &str) -> bool {
    let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host).trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Refuses a listening address other than `HOST:PORT`.
///
/// # Errors
/// The field of the address.
pub fn validate_address(field: &str, listen: &str) -> Result<(), FieldError> {
    let port = listen.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
    FieldError::ensure(matches!(port, Some(Ok(_))), field, format_args!("{listen:?}"), "HOST:PORT")
}

/// Refuses plaintext on an address that other machines reach, unless `insecure` allows it. `remedy` is the alternative.
///
/// # Errors
/// The field of the address.
pub fn validate_plaintext(field: &str, listen: &str, insecure: bool, remedy: &str) -> Result<(), FieldError> {
    let allowed = || format!("a loopback address, {remedy}");
    FieldError::ensure(insecure || is_loopback(listen), field, format_args!("{listen:?} in plaintext"), allowed())
}

/// How a port that can have TLS is protected.
#[derive(Debug, Clone, Copy)]
pub struct Protection {
    /// Whether its setting `insecure` is true.
    pub insecure: bool,
    pub tls: bool,
    /// Whether clients must have a key, a token or a certificate.
    pub authenticates: bool,
    /// The settings that make it so, for the refusal.
    pub credentials: &'static str,
}

impl Protection {
    /// Refuses to listen where other machines reach the port, unless it has TLS and asks clients for credentials, or
    /// `insecure` allows it to have less.
    ///
    /// # Errors
    /// The field of the address.
    pub fn validate(self, field: &str, listen: &str) -> Result<(), FieldError> {
        let Self { insecure, tls, authenticates, credentials } = self;
        let remedy = "certificates (`tls`), or `insecure = true` next to it on a trusted network";
        validate_plaintext(field, listen, insecure || tls, remedy)?;
        let allowed = || {
            format!("a loopback address, {credentials}, or `insecure = true` next to it: TLS alone lets everybody in")
        };
        let found = format_args!("{listen:?} without credentials of clients");
        FieldError::ensure(insecure || authenticates || is_loopback(listen), field, found, allowed())
    }

    /// Warns of what `insecure` lets through, under the path of that setting.
    pub fn warn(self, what: &str, address: SocketAddr, setting: &str) {
        if !self.tls {
            warn_of_plaintext(what, address, &format!("{setting} is true"));
        } else if !self.authenticates && !address.ip().to_canonical().is_loopback() {
            tracing::warn!(%address, "anyone who reaches the address can use {what} ({setting} is true)");
        }
    }
}

/// Warns that a port serves plaintext to other machines; `because` is the setting that allows it, with its value.
pub fn warn_of_plaintext(what: &str, address: SocketAddr, because: &str) {
    if !address.ip().to_canonical().is_loopback() {
        tracing::warn!(%address, "{what} is served in plaintext to other machines ({because})");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_name_and_address() {
        for listen in ["127.0.0.1:0", "localhost:50051", "[::1]:50051", "[::ffff:127.0.0.1]:1"] {
            assert!(is_loopback(listen), "{listen}");
        }
        for listen in ["0.0.0.0:50051", "[::]:1", "10.0.0.1:1", "generation:50051", "localhost.example:1"] {
            assert!(!is_loopback(listen), "{listen}");
        }
    }

    #[test]
    fn plaintext_for_other_machines_must_be_meant() {
        let check = |listen, insecure| validate_plaintext("listen", listen, insecure, "or insecure = true");
        assert_eq!(check("127.0.0.1:1", false), Ok(()));
        assert_eq!(check("0.0.0.0:1", true), Ok(()));
        let error = check("0.0.0.0:1", false).unwrap_err().to_string();
        let expected = r#"listen is "0.0.0.0:1" in plaintext, allowed: a loopback address, or insecure = true"#;
        assert_eq!(error, expected);
    }

    #[test]
    fn tls_for_other_machines_needs_credentials_unless_it_is_meant() {
        let open = Protection { insecure: false, tls: true, authenticates: false, credentials: "`token_file`" };
        let error = open.validate("listen", "0.0.0.0:1").unwrap_err().to_string();
        let expected = "listen is \"0.0.0.0:1\" without credentials of clients, allowed: a loopback address, \
                        `token_file`, or `insecure = true` next to it: TLS alone lets everybody in";
        assert_eq!(error, expected);
        assert_eq!(open.validate("listen", "127.0.0.1:1"), Ok(()));
        assert_eq!(Protection { authenticates: true, ..open }.validate("listen", "0.0.0.0:1"), Ok(()));
        assert_eq!(Protection { insecure: true, ..open }.validate("listen", "0.0.0.0:1"), Ok(()));
    }
}
