//! Settings `generation.weights`: weight updates.

use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::{HumanDuration, Settings, at_least_1ms};
use evenkeel_model_folder::VersionMarker;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::PauseMode;
use evenkeel_rpc::client::ClientSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a weight update treats samples in flight, unless the request says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseSetting {
    /// Samples end as ABORTED.
    Abort,
    /// Samples finish first, with the old weights.
    #[default]
    Wait,
    /// Samples continue with the new weights, in another segment.
    Keep,
}

impl PauseSetting {
    /// The mode of a request, or this one if it has none. `None` for a number that is not a mode.
    pub(crate) fn or_request(self, mode: i32) -> Option<Self> {
        Some(match PauseMode::try_from(mode).ok()? {
            PauseMode::Unspecified => self,
            PauseMode::Abort => Self::Abort,
            PauseMode::Wait => Self::Wait,
            PauseMode::Keep => Self::Keep,
        })
    }
}

/// Where engines find new weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WeightsSource {
    /// In the learner's folder, which engines and this service see under the same path.
    #[default]
    Folder,
    /// In a copy of their node, which an agent fetches from the learner (`evenkeel serve weights`).
    Pull,
}

/// The agents that fetch weights, with `source = "pull"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentsSettings {
    /// Port of the agent beside each engine, on the engine's host.
    pub port: u16,
    /// The agent whose copies this service reads, to check them before engines load theirs and to prove them. It may be
    /// that of an engine on the same machine.
    pub here: String,
    /// Whether engines read the copies of `here` too, under the same path. Otherwise each has an agent on its own host.
    pub shared: bool,
    /// Connections to agents; with `tls` to all of them over https.
    pub client: ClientSettings,
}

impl Default for AgentsSettings {
    fn default() -> Self {
        let here = "http://127.0.0.1:50056".to_owned();
        Self { port: 50056, here, shared: false, client: ClientSettings::default() }
    }
}

/// Weight updates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WeightsSettings {
    /// Where engines find new weights.
    pub source: WeightsSource,
    /// The agents that fetch weights, with `source = "pull"`.
    pub agents: AgentsSettings,
    /// How samples in flight are treated.
    pub pause_mode: PauseSetting,
    /// Whether engines clear their prefix caches, unless the request says otherwise. Prefixes of other weights are
    /// never used in any case (the version is their salt); clearing them frees memory.
    pub clear_cache: bool,
    /// Time limit of an update over all engines, unless the request sets one. Includes waiting for samples in flight.
    #[serde(with = "HumanDuration")]
    pub update_timeout: Duration,
    /// How long the samples of a paused engine may take to come back before their connections are closed.
    #[serde(with = "HumanDuration")]
    pub settle_timeout: Duration,
    /// File that marks a folder of weights as complete. Empty: folders are accepted without it.
    pub marker: String,
    /// Whether folders are checked before an engine is paused. Turn it off if only the engines can read them.
    pub check_folder: bool,
    /// Folders below which weights may be, as the service sees them, with links resolved. Empty: anywhere, which is
    /// refused unless the server listens on a loopback address; `["/"]` allows anywhere for others.
    pub roots: Vec<PathBuf>,
    /// Whether an engine without the routes of weight updates is refused, as training needs them; otherwise there is a
    /// warning.
    pub routes_required: bool,
}

impl Default for WeightsSettings {
    fn default() -> Self {
        Self {
            source: WeightsSource::default(),
            agents: AgentsSettings::default(),
            pause_mode: PauseSetting::default(),
            clear_cache: true,
            update_timeout: Duration::from_secs(600),
            settle_timeout: Duration::from_secs(2),
            marker: VersionMarker::NAME.to_owned(),
            check_folder: true,
            roots: Vec::new(),
            routes_required: false,
        }
    }
}

impl Settings for WeightsSettings {
    fn validate(&self) -> Result<(), FieldError> {
        at_least_1ms(&[("update_timeout", self.update_timeout), ("settle_timeout", self.settle_timeout)])?;
        self.agents.client.validate().map_err(|error| error.within("agents.client"))?;
        if self.source == WeightsSource::Pull {
            let is_url = self.agents.here.starts_with("http://") || self.agents.here.starts_with("https://");
            FieldError::ensure(is_url, "agents.here", &self.agents.here, "http://HOST:PORT or https://HOST:PORT")?;
            FieldError::ensure(self.agents.port > 0, "agents.port", 0, "the port of the agents")?;
        }
        if self.marker.contains('/') {
            return Err(FieldError::new("marker", format_args!("{:?}", self.marker), "a file name without a folder"));
        }
        Ok(())
    }
}
