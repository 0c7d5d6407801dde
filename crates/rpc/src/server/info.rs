//! The server's own part of `GetStatus`.

use std::time::Instant;

use evenkeel_proto::v1::ServerStatus;

use super::Drain;
use crate::error::millis;

/// Name, start and shutdown of a server, for the status that every service reports.
#[derive(Debug, Clone)]
pub struct ServerInfo {
    name: String,
    started: Instant,
    drain: Drain,
}

impl ServerInfo {
    /// A server that starts now.
    pub fn new(name: impl Into<String>, drain: Drain) -> Self {
        Self { name: name.into(), started: Instant::now(), drain }
    }

    /// The server's status as of now. All crates share one version, which is the program's.
    pub fn status(&self) -> ServerStatus {
        ServerStatus {
            name: self.name.clone(),
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: millis(self.started.elapsed()),
            draining: self.drain.is_draining(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_follows_the_shutdown() {
        let drain = Drain::new();
        let info = ServerInfo::new("reward-3", drain.clone());
        let status = info.status();
        assert_eq!((status.name.as_str(), status.draining), ("reward-3", false));
        drain.begin();
        assert!(info.status().draining);
    }
}
