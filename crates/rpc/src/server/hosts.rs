//! Under which names a port that speaks HTTP may be requested.
//!
//! A web site can have a browser ask any address by pointing a name of its own there (DNS rebinding), and would then
//! read the answer as its own. The browser names the site in the header `Host`, so that it is enough to answer requests
//! under known names. An address in its place is no name that somebody could point elsewhere.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::http::HeaderValue;
use evenkeel_proto::FieldError;

/// Further names of a process, at most.
const MOST: usize = 16;
/// Characters of a name, at most: those of DNS.
const LONGEST: usize = 253;

/// Further names of all ports of this process.
static FURTHER: OnceLock<Vec<String>> = OnceLock::new();

/// Names under which every port of this process that speaks HTTP may be requested besides its own, such as that of a
/// proxy in front. Called once, before any port is bound; later names are not taken. `setting` names them in errors.
///
/// # Errors
/// More than 16, or one that is no name: nothing is allowed then.
pub fn allow_hosts(setting: &str, names: &[String]) -> Result<(), FieldError> {
    if names.len() > MOST {
        return Err(FieldError::new(setting, format_args!("{} names", names.len()), format!("at most {MOST}")));
    }
    names.iter().try_for_each(|name| validate_host(setting, name))?;
    let _ = FURTHER.set(names.to_vec());
    Ok(())
}

/// Refuses what is no name of a host.
///
/// # Errors
/// The name.
pub fn validate_host(setting: &str, name: &str) -> Result<(), FieldError> {
    let is_name = (1..=LONGEST).contains(&name.len())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || ".-_".contains(character));
    FieldError::ensure(is_name, setting, format_args!("{name:?}"), "a name without a port, such as `trainer.example`")
}

/// The names that a server answers to, besides any address.
#[derive(Debug, Clone)]
pub struct Hosts(Arc<[String]>);

impl Hosts {
    /// `localhost`, the name in the listening address `HOST:PORT`, further ones, and those of [`allow_hosts`].
    pub fn new(listen: &str, further: &[String]) -> Self {
        let own = ["localhost", name_of(listen)].map(str::to_owned);
        let of_process = FURTHER.get().into_iter().flatten();
        Self(own.into_iter().chain(further.iter().chain(of_process).cloned()).collect())
    }

    /// Whether a request with this header is meant for this server.
    pub fn include(&self, host: Option<&HeaderValue>) -> bool {
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

    #[test]
    fn what_is_no_name_is_refused_with_its_setting() {
        let longest = "a".repeat(LONGEST);
        for name in ["proxy.example", "node-1", "a_b", longest.as_str()] {
            assert_eq!(validate_host("--hosts", name), Ok(()));
        }
        for name in ["", "proxy:8000", "http://proxy", "*", "a b", "a,b", "ä.example", &format!("{longest}a")] {
            let error = validate_host("--hosts", name).unwrap_err().to_string();
            assert!(error.starts_with("--hosts is "), "{error}");
            assert!(error.contains(", allowed: a name without a port"), "{error}");
        }
    }

    #[test]
    fn names_are_few_and_one_that_is_wrong_allows_none() {
        let many = vec!["a.example".to_owned(); MOST + 1];
        assert_eq!(allow_hosts("--hosts", &many).unwrap_err().to_string(), "--hosts is 17 names, allowed: at most 16");
        assert!(allow_hosts("--hosts", &["b.example".to_owned(), "*".to_owned()]).is_err());
        assert!(!include(&Hosts::new("127.0.0.1:1", &[]), "b.example"));
    }
}
