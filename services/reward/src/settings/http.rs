//! Settings `reward.http`: programs over HTTP, as SandboxFusion serves them.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::{ByteSize, HumanDuration, at_least_1ms, at_least_one};
use evenkeel_proto::FieldError;
use evenkeel_rpc::exposure::{validate_address, validate_plaintext};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Programs over HTTP, for trainers that have a client of SandboxFusion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSettings {
    /// Where `/run_code` is served, in plaintext: `HOST:PORT`. Empty: nowhere.
    pub listen: String,
    /// Whether other machines may be served, which may then run programs. Not needed where `token_file` is set.
    pub insecure: bool,
    /// File with bearer tokens, one on each line, of which a client must have one. Absent: anyone who reaches the
    /// address may run programs.
    pub token_file: Option<PathBuf>,
    /// Connections at once, at most half of what the process may open (`ulimit -n`); further ones wait.
    pub max_connections: usize,
    /// Largest request.
    pub max_body: ByteSize,
    /// Memory for all requests that wait or run; further ones wait. Not below `max_body`.
    pub max_memory: ByteSize,
    /// CPU time that a program gets for each second of the request's `run_timeout`, which is meant for a native
    /// interpreter: the sandbox's is about 2.3 times slower. Never more than three quarters of the time that the client
    /// waits.
    pub slowdown: f64,
    /// How long a client waits beyond `compile_timeout` and `run_timeout`. A program without a result by then is
    /// answered 504.
    #[serde(with = "HumanDuration")]
    pub client_margin: Duration,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            listen: String::new(),
            insecure: false,
            token_file: None,
            max_connections: 1024,
            max_body: ByteSize::mib(64),
            max_memory: ByteSize::gib(1),
            slowdown: 3.0,
            // verl's client waits for so long.
            client_margin: Duration::from_secs(10),
        }
    }
}

impl HttpSettings {
    pub(super) fn validate(&self) -> Result<(), FieldError> {
        if !self.listen.is_empty() {
            validate_address("listen", &self.listen)?;
            let remedy = "or token_file, or insecure = true on a trusted network";
            validate_plaintext("listen", &self.listen, self.insecure || self.token_file.is_some(), remedy)?;
        }
        at_least_one(&[("max_connections", self.max_connections as u64), ("max_body", self.max_body.bytes())])?;
        at_least_1ms(&[("client_margin", self.client_margin)])?;
        if !(1.0..=100.0).contains(&self.slowdown) {
            return Err(FieldError::new("slowdown", self.slowdown, "1 to 100"));
        }
        if self.max_memory < self.max_body {
            let allowed = format!("at least max_body, which is {}", self.max_body);
            return Err(FieldError::new("max_memory", self.max_memory, allowed));
        }
        Ok(())
    }

    /// Which setting lets other machines reach the port, which is in plaintext.
    pub(crate) fn why_plaintext(&self) -> &'static str {
        if self.insecure {
            "reward.http.insecure is true"
        } else {
            "reward.http.token_file is set: it is sent in clear"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_the_setting_that_lets_other_machines_in() {
        let token_file = Some(PathBuf::from("token"));
        let http = HttpSettings { listen: "0.0.0.0:1".into(), token_file, ..HttpSettings::default() };
        assert_eq!(http.validate(), Ok(()));
        assert!(http.why_plaintext().contains("token_file") && !http.why_plaintext().contains("insecure"));
        let insecure = HttpSettings { insecure: true, ..http };
        assert_eq!(insecure.why_plaintext(), "reward.http.insecure is true");
    }
}
