//! The settings of the agent.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::{ByteSize, HumanDuration, Settings, at_least_1ms, human};
use evenkeel_proto::FieldError;
use evenkeel_rpc::client::ClientSettings;
use evenkeel_rpc::server::ServerSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Files that the learner serves to one host at once.
const MAX_FILES: usize = 8;

/// The agent beside engines that fetches published weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WeightsAgentSettings {
    /// The gRPC server, which the generation service calls.
    pub server: ServerSettings,
    /// The learner, `http://HOST:PORT` or `https://HOST:PORT`. Required.
    pub learner: String,
    /// The connection to it.
    pub client: ClientSettings,
    /// The folder of this node's copies, on a disk or in memory (`/dev/shm/USER-weights`). Engines read them under the
    /// same path. Agents that share it share the copies. It is made for its user alone; refused are a link, a folder of
    /// another user, and one that others may write to.
    pub folder: PathBuf,
    /// Copies that are kept, the newest included; at least 2, since engines may still read the one before.
    pub keep: usize,
    /// Most bytes a second that are fetched, over all files. Absent: as many as the network carries.
    pub max_rate: Option<ByteSize>,
    /// Files that are fetched at once, 1 to 8. The learner serves no more to one host; further ones wait.
    pub max_files: usize,
    /// Time limit of a pull; what was fetched by then is kept for the next one.
    #[serde(with = "HumanDuration")]
    pub pull_timeout: Duration,
    /// How long nothing may come before a file is asked for again.
    #[serde(with = "HumanDuration")]
    pub idle_timeout: Duration,
    /// Delay before the second attempt to reach the learner; doubles up to `retry_max`, and starts over with every byte
    /// that comes.
    #[serde(with = "HumanDuration")]
    pub retry_initial: Duration,
    /// Longest delay between two attempts.
    #[serde(with = "HumanDuration")]
    pub retry_max: Duration,
}

impl Default for WeightsAgentSettings {
    fn default() -> Self {
        Self {
            server: ServerSettings::default(),
            learner: String::new(),
            client: ClientSettings::default(),
            folder: "weights".into(),
            keep: 2,
            max_rate: None,
            max_files: 4,
            pull_timeout: Duration::from_secs(1800),
            idle_timeout: Duration::from_secs(30),
            retry_initial: Duration::from_millis(100),
            retry_max: Duration::from_secs(5),
        }
    }
}

impl Settings for WeightsAgentSettings {
    fn validate(&self) -> Result<(), FieldError> {
        self.server.validate().map_err(|error| error.within("server"))?;
        self.client.validate().map_err(|error| error.within("client"))?;
        if self.learner.is_empty() {
            return Err(FieldError::missing("learner", "http://HOST:PORT or https://HOST:PORT of the learner"));
        }
        if self.folder.as_os_str().is_empty() {
            return Err(FieldError::missing("folder", "the folder of this node's copies"));
        }
        if self.keep < 2 {
            return Err(FieldError::new("keep", self.keep, "at least 2, since engines may still read the one before"));
        }
        FieldError::ensure((1..=MAX_FILES).contains(&self.max_files), "max_files", self.max_files, "1 to 8")?;
        if let Some(rate) = self.max_rate.filter(|rate| *rate < ByteSize::kib(8)) {
            return Err(FieldError::new("max_rate", rate, "at least 8KiB, or absent for no limit"));
        }
        at_least_1ms(&[
            ("pull_timeout", self.pull_timeout),
            ("idle_timeout", self.idle_timeout),
            ("retry_initial", self.retry_initial),
        ])?;
        if self.retry_max < self.retry_initial {
            let allowed = format!("at least retry_initial, which is {}", human(self.retry_initial));
            return Err(FieldError::new("retry_max", human(self.retry_max), allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused_by_name() {
        let valid = WeightsAgentSettings { learner: "http://learner:50053".into(), ..Default::default() };
        assert_eq!(valid.validate(), Ok(()));
        let refused = |change: fn(&mut WeightsAgentSettings)| {
            let mut settings = valid.clone();
            change(&mut settings);
            settings.validate().unwrap_err().field
        };
        assert_eq!(refused(|settings| settings.learner.clear()), "learner");
        assert_eq!(refused(|settings| settings.folder = PathBuf::new()), "folder");
        assert_eq!(refused(|settings| settings.keep = 1), "keep");
        assert_eq!(refused(|settings| settings.max_files = 0), "max_files");
        assert_eq!(refused(|settings| settings.max_files = 9), "max_files");
        assert_eq!(refused(|settings| settings.max_rate = Some(ByteSize::b(5))), "max_rate");
        assert_eq!(refused(|settings| settings.pull_timeout = Duration::ZERO), "pull_timeout");
        assert_eq!(refused(|settings| settings.retry_max = Duration::ZERO), "retry_max");
        assert_eq!(refused(|settings| settings.server.listen = "x".into()), "server.listen");
    }
}
