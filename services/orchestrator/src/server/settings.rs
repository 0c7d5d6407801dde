//! Settings of the orchestrator as a service.

use std::collections::BTreeMap;
use std::path::PathBuf;

use evenkeel_config::Settings;
use evenkeel_environment::Descriptions;
use evenkeel_proto::FieldError;
use evenkeel_rpc::client::ClientSettings;
use evenkeel_rpc::dispatch::Endpoints as Workers;
use evenkeel_rpc::server::ServerSettings;
use serde::{Deserialize, Deserializer, Serialize};

use crate::clients::Endpoints;
use crate::load::LoadLimits;
use crate::settings::PageSettings;

/// Settings of `evenkeel serve orchestrator`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OrchestratorSettings {
    /// How it listens.
    pub server: ServerSettings,
    /// Folder with a directory for each run, named after it.
    pub runs: PathBuf,
    /// Where the other services are.
    pub endpoints: Endpoints,
    /// How its runs call them, in place of `services.client` of their recipes: with certificates and tokens that no
    /// client has to specify. Absent: as each recipe says.
    pub client: Option<ClientSettings>,
    /// A run to start with the server.
    pub start: StartSettings,
    /// Limits on loading the runs of its clients.
    pub limits: LoadLimits,
    /// The page on which its runs are watched.
    pub page: PageSettings,
}

/// A run that a server starts by itself, or resumes where it exists: for clusters that are started for a single run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StartSettings {
    /// A built-in recipe or a TOML file, or a list of them, each overriding the ones before. Empty: runs are started
    /// over gRPC only.
    #[serde(deserialize_with = "one_or_several")]
    pub recipe: Vec<String>,
    /// Name of the run. Empty: that of the recipe, or of its file.
    pub name: String,
    /// Overrides of the recipe's settings, `section.key=value`.
    pub set: Vec<String>,
}

/// A text that may stand for a list with nothing else in it; an empty one for an empty list.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a text or a list of texts")]
    enum Recipes {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Recipes::deserialize(deserializer)? {
        Recipes::One(name) if name.is_empty() => Vec::new(),
        Recipes::One(name) => vec![name],
        Recipes::Several(names) => names,
    })
}

impl Default for OrchestratorSettings {
    fn default() -> Self {
        Self {
            server: ServerSettings::default(),
            runs: PathBuf::from("runs"),
            endpoints: Endpoints {
                generation: "http://127.0.0.1:50051".to_owned(),
                reward: vec!["http://127.0.0.1:50052".to_owned()],
                learner: "http://127.0.0.1:50053".to_owned(),
                environment: Vec::new(),
                described: Descriptions::new(),
                verifiers: BTreeMap::new(),
            },
            client: None,
            start: StartSettings::default(),
            limits: LoadLimits::default(),
            page: PageSettings::default(),
        }
    }
}

impl Settings for OrchestratorSettings {
    fn validate(&self) -> Result<(), FieldError> {
        self.server.validate().map_err(|error| error.within("server"))?;
        self.limits.validate().map_err(|error| error.within("limits"))?;
        if let Some(client) = &self.client {
            client.validate().map_err(|error| error.within("client"))?;
            let allowed = "false with `client.token_file`: a recipe could have the token sent anywhere";
            let token_stays = client.token_file.is_none() || !self.limits.verifier_addresses;
            FieldError::ensure(token_stays, "limits.verifier_addresses", "true", allowed)?;
        }
        self.page.address(None)?;
        if self.runs.as_os_str().is_empty() {
            return Err(FieldError::missing("runs", "a folder"));
        }
        for (field, url) in [("generation", &self.endpoints.generation), ("learner", &self.endpoints.learner)] {
            let one = (url.starts_with("http://") || url.starts_with("https://")) && !url.contains('@');
            if !one {
                let allowed = "http://HOST:PORT or https://HOST:PORT";
                return Err(FieldError::quoted(format!("endpoints.{field}"), url, allowed));
            }
        }
        let named = |field: String, urls: &[String]| {
            Workers::parse(urls).map(drop).map_err(|mut error| {
                error.field = error.field.replacen("endpoints", &field, 1);
                error
            })
        };
        named("endpoints.reward".to_owned(), &self.endpoints.reward)?;
        if !self.endpoints.environment.is_empty() {
            named("endpoints.environment".to_owned(), &self.endpoints.environment)?;
        }
        let mut verifiers = self.endpoints.verifiers.iter();
        verifiers.try_for_each(|(name, urls)| named(format!("endpoints.verifiers.{name}"), urls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_token_goes_to_no_address_of_a_recipe() {
        let client = ClientSettings { token_file: Some("/run/secrets/token".into()), ..ClientSettings::default() };
        let mut settings = OrchestratorSettings { client: Some(client), ..OrchestratorSettings::default() };
        assert_eq!(settings.validate(), Ok(()));
        settings.limits.verifier_addresses = true;
        assert_eq!(settings.validate().unwrap_err().field, "limits.verifier_addresses");
        settings.client = None;
        assert_eq!(settings.validate(), Ok(()), "the token of a recipe is its author's");
    }

    #[test]
    fn settings_of_the_servers_own_client_are_checked_by_name() {
        let client = ClientSettings { tls: Some(Default::default()), ..ClientSettings::default() };
        let settings = OrchestratorSettings { client: Some(client), ..OrchestratorSettings::default() };
        assert_eq!(settings.validate().unwrap_err().field, "client.tls.ca_file");
    }
}
