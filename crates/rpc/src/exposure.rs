//! Who can reach a port. Plaintext to other machines is the operator's decision, never a default.

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

/// Warns that a port serves plaintext to other machines; `setting` is what allows it.
pub fn warn_of_plaintext(what: &str, address: SocketAddr, setting: &str) {
    if !address.ip().to_canonical().is_loopback() {
        tracing::warn!(%address, "{what} is served in plaintext to other machines ({setting} is true)");
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
}
