//! Where a server is: `ws://HOST[:PORT][/PATH]`.

/// An address, taken apart.
pub(super) struct Address {
    /// As requests name it.
    pub(super) host: String,
    /// Where it is connected to, with a port.
    pub(super) place: String,
    /// Before the names of its routes; empty, or with a slash at its beginning.
    pub(super) path: String,
}

impl Address {
    /// Takes an address apart that settings have checked.
    pub(super) fn of(address: &str) -> Self {
        let rest = address.strip_prefix("ws://").unwrap_or(address).trim_end_matches('/');
        let (host, path) =
            rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, format!("/{path}")));
        // An address of IPv6 is in brackets.
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let place = if has_port { host.to_owned() } else { format!("{host}:80") };
        Self { host: host.to_owned(), place, path }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_and_may_have_a_path() {
        for (address, place, path) in [
            ("ws://localhost:8000", "localhost:8000", ""),
            ("ws://echo/", "echo:80", ""),
            ("ws://host:1/a/b/", "host:1", "/a/b"),
            ("ws://[::1]:9", "[::1]:9", ""),
            ("ws://[::1]", "[::1]:80", ""),
        ] {
            let found = Address::of(address);
            assert_eq!((found.place.as_str(), found.path.as_str()), (place, path), "{address}");
        }
    }
}
