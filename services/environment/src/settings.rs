//! Settings `environment`: server and limits.

use std::time::Duration;

use evenkeel_config::{HumanDuration, Settings, at_least_1ms, at_least_one};
use evenkeel_proto::FieldError;
use evenkeel_rpc::server::ServerSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The environment service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EnvironmentSettings {
    /// The gRPC server.
    pub server: ServerSettings,
    /// Name of the worker in its status.
    pub name: String,
    /// Episodes of all streams that may be open at once; a further one is answered OVERLOADED.
    pub max_episodes: usize,
    /// Time limit of opening an episode, of one step and of scoring; a request may ask for less.
    #[serde(with = "HumanDuration")]
    pub step_deadline: Duration,
    /// How long nothing may be heard of an episode, neither an action nor that it goes on, before it is ended; a request may ask for less.
    #[serde(with = "HumanDuration")]
    pub idle_timeout: Duration,
}

impl Default for EnvironmentSettings {
    fn default() -> Self {
        Self {
            server: ServerSettings::default(),
            name: "environment".to_owned(),
            max_episodes: 4096,
            step_deadline: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(120),
        }
    }
}

impl EnvironmentSettings {
    /// The defaults, listening on this address.
    pub fn on(listen: impl Into<String>) -> Self {
        Self { server: ServerSettings::on(listen), ..Self::default() }
    }
}

impl Settings for EnvironmentSettings {
    fn validate(&self) -> Result<(), FieldError> {
        self.server.validate().map_err(|error| error.within("server"))?;
        if self.name.is_empty() {
            return Err(FieldError::new("name", "\"\"", "a name"));
        }
        at_least_one(&[("max_episodes", self.max_episodes as u64)])?;
        at_least_1ms(&[("step_deadline", self.step_deadline), ("idle_timeout", self.idle_timeout)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_refused_by_name() {
        assert_eq!(EnvironmentSettings::default().validate(), Ok(()));
        let refused = |change: fn(&mut EnvironmentSettings)| {
            let mut settings = EnvironmentSettings::default();
            change(&mut settings);
            settings.validate().unwrap_err().field
        };
        assert_eq!(refused(|settings| settings.max_episodes = 0), "max_episodes");
        assert_eq!(refused(|settings| settings.idle_timeout = Duration::ZERO), "idle_timeout");
        assert_eq!(refused(|settings| settings.step_deadline = Duration::ZERO), "step_deadline");
        assert_eq!(refused(|settings| settings.name.clear()), "name");
        assert_eq!(refused(|settings| settings.server.listen = "x".into()), "server.listen");
    }
}
