//! Tasksets of verifiers, played by the package itself in processes of `environment.python`.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_environment::{Description, VERIFIERS};
use evenkeel_proto::v1::EpisodeFailure;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::episode::AgentEpisode;
use super::host::{Host, Launch};
use crate::error::EnvironmentError;
use crate::failure::Failure;
use crate::settings::EnvironmentSettings;

/// The program that plays the episodes of a taskset.
const BRIDGE: &str = include_str!("../../python/evenkeel_verifiers.py");

/// The processes of a taskset.
pub(crate) struct Taskset {
    hosts: Vec<Arc<Host>>,
    /// Episodes that each may have.
    most: usize,
    endpoint: Arc<Endpoint>,
}

impl Taskset {
    /// Starts the first process of a taskset, which says what decides how its episodes go.
    ///
    /// # Errors
    /// A taskset that is not there, or settings that it does not take.
    pub(crate) async fn start(
        settings: &EnvironmentSettings,
        name: &str,
        env: &BTreeMap<String, Value>,
        endpoint: &Arc<Endpoint>,
    ) -> Result<(Self, Description), EnvironmentError> {
        let launch = Arc::new(Launch {
            python: settings.python.clone(),
            program: BRIDGE,
            settings: json!({"taskset": name, "env": env, "range": settings.verifiers_range}),
            limits: settings.child_limits(settings.max_agent_memory),
        });
        let host = |_| Host::new(Arc::clone(&launch), format!("{VERIFIERS}{name}"));
        let hosts: Vec<_> = (0..settings.processes).map(host).collect();
        let broken =
            |failure: Failure| EnvironmentError::Verifiers { taskset: name.to_owned(), message: failure.message };
        let hello = hosts[0].hello().await.map_err(broken)?;
        let description = Description {
            name: format!("{VERIFIERS}{name}"),
            system_prompt: String::new(),
            user_speaks: true,
            tools: Vec::new(),
            digest: evenkeel_host::sha256(hello.fingerprint),
            is_agent: true,
        };
        Ok((Self { hosts, most: settings.episodes_per_process, endpoint: Arc::clone(endpoint) }, description))
    }

    /// Begins an episode in the process that has the fewest.
    ///
    /// # Errors
    /// All are full; a row that is no task; an episode that fails.
    pub(crate) async fn open(&self, task: &[u8], seed: u64) -> Result<AgentEpisode, Failure> {
        let task: &RawValue = serde_json::from_slice(if task.is_empty() { b"{}" } else { task })
            .map_err(|error| Failure::new(EpisodeFailure::TaskInvalid, format!("the task is not JSON: {error}")))?;
        let host = self.hosts.iter().min_by_key(|host| host.episodes()).filter(|host| host.episodes() < self.most);
        let host = host.ok_or_else(|| {
            let processes = self.hosts.len();
            let most = self.most;
            let message = format!("{processes} processes have {most} episodes each (processes, episodes_per_process)");
            Failure::new(EpisodeFailure::Overloaded, message)
        })?;
        let desk = self.endpoint.open()?;
        let run = host.run(task, seed, &desk.base_url()).await?;
        AgentEpisode::begin(desk, run).await
    }
}
