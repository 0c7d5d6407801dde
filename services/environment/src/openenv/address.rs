//! Where a server is: `ws://HOST[:PORT][/PATH]`, or `wss://` with TLS.

/// An address, taken apart.
pub(super) struct Address {
    /// As requests name it.
    pub(super) host: String,
    /// Host and port to connect to.
    pub(super) place: String,
    /// Before the names of its routes; empty, or with a slash at its beginning.
    pub(super) path: String,
    /// The name or address that a certificate must have; `None` in plaintext.
    pub(super) tls: Option<String>,
}

impl Address {
    /// Takes an address apart that settings have checked.
    pub(super) fn of(address: &str) -> Self {
        let secured = address.strip_prefix("wss://");
        let rest = secured.or_else(|| address.strip_prefix("ws://")).unwrap_or(address).trim_end_matches('/');
        let (host, path) =
            rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, format!("/{path}")));
        // An address of IPv6 is in brackets.
        let with_port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let usual_port = if secured.is_some() { 443 } else { 80 };
        let place = with_port.map_or_else(|| format!("{host}:{usual_port}"), |_| host.to_owned());
        let name = with_port.map_or(host, |(name, _)| name).trim_matches(['[', ']']).to_owned();
        Self { host: host.to_owned(), place, path, tls: secured.map(|_| name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_and_may_have_a_path() {
        for (address, place, path, tls) in [
            ("ws://localhost:8000", "localhost:8000", "", None),
            ("ws://echo/", "echo:80", "", None),
            ("ws://host:1/a/b/", "host:1", "/a/b", None),
            ("ws://[::1]:9", "[::1]:9", "", None),
            ("ws://[::1]", "[::1]:80", "", None),
            ("wss://echo.example/a", "echo.example:443", "/a", Some("echo.example")),
            ("wss://[::1]:9", "[::1]:9", "", Some("::1")),
        ] {
            let found = Address::of(address);
            assert_eq!((found.place.as_str(), found.path.as_str()), (place, path), "{address}");
            assert_eq!(found.tls.as_deref(), tls, "{address}");
        }
    }
}
