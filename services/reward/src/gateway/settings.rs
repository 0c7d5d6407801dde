//! Settings of a gateway.

use evenkeel_config::{ByteSize, Settings};
use evenkeel_proto::FieldError;
use evenkeel_rpc::client::ClientSettings;
use evenkeel_rpc::dispatch::Endpoints;
use evenkeel_rpc::items::ItemLimits;
use evenkeel_rpc::server::ServerSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of `evenkeel serve gateway`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GatewaySettings {
    /// The gRPC server.
    pub server: ServerSettings,
    /// Name in the status.
    pub name: String,
    /// The workers: `http://HOST:PORT` or `https://HOST:PORT` for one, `dns://HOST:PORT` or `dns+tls://HOST:PORT` for
    /// one at every address behind a name.
    pub endpoints: Vec<String>,
    /// How connections to the workers are opened.
    pub client: ClientSettings,
    /// Items of all streams that may wait or be judged; further ones are answered OVERLOADED.
    pub max_items: usize,
    /// Memory for those items and for verdicts that clients have not read yet. Not below `server.max_message`.
    pub max_memory: ByteSize,
    /// Items that one worker has at once.
    pub max_outstanding: usize,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            server: ServerSettings::default(),
            name: "gateway".to_owned(),
            endpoints: Vec::new(),
            client: ClientSettings::default(),
            max_items: 4096,
            max_memory: ItemLimits::DEFAULT_MEMORY,
            max_outstanding: 64,
        }
    }
}

impl Settings for GatewaySettings {
    fn validate(&self) -> Result<(), FieldError> {
        self.server.validate().map_err(|error| error.within("server"))?;
        self.client.validate().map_err(|error| error.within("client"))?;
        Endpoints::parse(&self.endpoints)?;
        if self.name.is_empty() {
            return Err(FieldError::new("name", "\"\"", "a name"));
        }
        for (field, value) in [("max_items", self.max_items), ("max_outstanding", self.max_outstanding)] {
            if value == 0 {
                return Err(FieldError::new(field, 0, "at least 1"));
            }
        }
        let max_message = self.server.max_message;
        if self.max_memory < max_message {
            let allowed = format!("at least server.max_message, which is {max_message}");
            return Err(FieldError::new("max_memory", self.max_memory, allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_needs_workers_and_room_for_their_items() {
        let refused = |settings: GatewaySettings| settings.validate().unwrap_err().to_string();
        assert!(
            refused(GatewaySettings::default()).starts_with("endpoints is empty, allowed: at least one of http://")
        );
        let with = |change: fn(&mut GatewaySettings)| {
            let mut settings =
                GatewaySettings { endpoints: vec!["dns://reward:50052".into()], ..GatewaySettings::default() };
            change(&mut settings);
            settings
        };
        assert_eq!(with(|_| ()).validate(), Ok(()));
        assert!(
            refused(with(|settings| settings.endpoints[0] = "reward".into())).starts_with("endpoints[0] is \"reward\"")
        );
        assert_eq!(refused(with(|settings| settings.max_items = 0)), "max_items is 0, allowed: at least 1");
        assert_eq!(refused(with(|settings| settings.max_outstanding = 0)), "max_outstanding is 0, allowed: at least 1");
        assert_eq!(
            refused(with(|settings| settings.max_memory = ByteSize::b(1))),
            "max_memory is 1B, allowed: at least server.max_message, which is 32MiB"
        );
    }
}
