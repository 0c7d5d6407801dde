//! Under which names the page may be requested.
//!
//! A web site can have a browser ask any address by pointing a name of its own there (DNS rebinding), and would then
//! read the answer as its own. The browser names the site in the header `Host`, so that it is enough to answer requests
//! under known names. An address in its place is no name that somebody could point elsewhere.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::HeaderValue;

/// Names of this server.
#[derive(Debug, Clone)]
pub(super) struct Hosts(Arc<[String]>);

impl Hosts {
    /// `localhost`, the name in the listening address `HOST:PORT`, and further ones.
    pub(super) fn new(listen: &str, further: &[String]) -> Self {
        let own = ["localhost", name_of(listen)].map(str::to_owned);
        Self(own.into_iter().chain(further.iter().cloned()).collect())
    }

    /// Whether a request with this header is meant for this server.
    pub(super) fn include(&self, host: Option<&HeaderValue>) -> bool {
        let Some(name) = host.and_then(|host| host.to_str().ok()).map(name_of) else { return false };
        // With the dot of a complete name it is the same host.
        let complete = name.strip_suffix('.').unwrap_or(name);
        name.parse::<IpAddr>().is_ok() || self.0.iter().any(|own| own.eq_ignore_ascii_case(complete))
    }
}

/// What stands before the port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn include(hosts: &Hosts, host: &str) -> bool {
        hosts.include(Some(&HeaderValue::from_str(host).unwrap()))
    }

    #[test]
    fn every_server_has_addresses_and_one_name() {
        for listen in ["127.0.0.1:8080", "0.0.0.0:8080", "[::]:8080"] {
            let hosts = Hosts::new(listen, &[]);
            for own in
                ["127.0.0.1:8080", "localhost:1", "localhost", "LOCALHOST", "[::1]:80", "192.0.2.1", "10.0.0.1:9"]
            {
                assert!(include(&hosts, own), "{own} of {listen}");
            }
            for other in
                ["evil.example:8080", "localhost.evil.example", "", ":8080", "[x]:1", "[::1", "127.0.0.1.evil.example"]
            {
                assert!(!include(&hosts, other), "{other} of {listen}");
            }
            assert!(!hosts.include(None));
        }
    }

    #[test]
    fn it_has_the_name_that_it_listens_on_and_those_of_its_settings() {
        let hosts = Hosts::new("trainer:8080", &["runs.example".to_owned()]);
        for own in ["trainer:8080", "trainer", "runs.example", "Runs.Example:443", "runs.example."] {
            assert!(include(&hosts, own), "{own}");
        }
        for other in
            ["example", "a.runs.example", "runs.example.evil.example", "trainer.evil.example", "runs.example.."]
        {
            assert!(!include(&hosts, other), "{other}");
        }
    }
}
