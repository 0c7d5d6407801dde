//! The environments of a worker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_environment::{BuiltIn, Description, Tool};
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{EnvironmentInfo, EpisodeFailure, OpenEpisode};
use evenkeel_sandbox::WorkerProcesses;
use tokio::sync::Semaphore;

use crate::agent::{AgentProgram, Endpoint, Taskset};
use crate::error::EnvironmentError;
use crate::failure::Failure;
#[cfg(feature = "openenv")]
use crate::openenv::OpenEnvServer;
use crate::played::{Played, at_once, within};
use crate::program::Programs;
use crate::sandboxed::Sandbox;
use crate::settings::EnvironmentSettings;

/// What an agent has a time limit for at its beginning.
const FIRST: &str = "the first request of the agent";

/// All environments by name.
pub(crate) struct Catalog(BTreeMap<String, Arc<Entry>>);

pub(crate) struct Entry {
    description: Description,
    source: EnvironmentSource,
}

enum EnvironmentSource {
    BuiltIn(BuiltIn),
    Programs(Programs),
    #[cfg(feature = "openenv")]
    OpenEnv(OpenEnvServer),
    Sandbox(Box<Sandbox>),
    Agent(AgentProgram),
    Taskset(Taskset),
}

impl Catalog {
    /// Environments of the settings, and those that come with the program.
    ///
    /// # Errors
    /// A file or a server that has no environment.
    pub(crate) async fn of(
        settings: &EnvironmentSettings,
        processes: Option<WorkerProcesses>,
    ) -> Result<Self, EnvironmentError> {
        let mut all = BTreeMap::new();
        let mut add = |description: Description, source| {
            all.insert(description.name.clone(), Arc::new(Entry { description, source }));
        };
        for built_in in BuiltIn::ALL {
            add(built_in.into(), EnvironmentSource::BuiltIn(built_in));
        }
        add(Sandbox::description(), EnvironmentSource::Sandbox(Box::new(Sandbox::new(&settings.sandbox, processes))));
        for path in &settings.files {
            let (programs, description) = Programs::start(settings, path).await?;
            add(description, EnvironmentSource::Programs(programs));
        }
        #[cfg(feature = "openenv")]
        for address in &settings.openenv {
            let (server, description) = OpenEnvServer::find(address, settings.openenv_range).await?;
            add(description, EnvironmentSource::OpenEnv(server));
        }
        #[cfg(not(feature = "openenv"))]
        if let Some(address) = settings.openenv.first() {
            let message = "this program was built without the feature `openenv`, which has the client of such servers";
            return Err(EnvironmentError::OpenEnv { address: address.clone(), message: message.to_owned() });
        }
        if !(settings.agents.is_empty() && settings.verifiers.is_empty()) {
            let endpoint = Endpoint::start().await.map_err(EnvironmentError::Endpoint)?;
            let room = Arc::new(Semaphore::new(settings.max_agents));
            for path in &settings.agents {
                let (program, description) = AgentProgram::find(settings, path, &endpoint, &room)?;
                add(description, EnvironmentSource::Agent(program));
            }
            for (name, env) in &settings.verifiers {
                let (taskset, description) = Taskset::start(settings, name, env, &endpoint).await?;
                add(description, EnvironmentSource::Taskset(taskset));
            }
        }
        Ok(Self(all))
    }

    /// What is said of them, in the order of their names.
    pub(crate) fn infos(&self) -> Vec<EnvironmentInfo> {
        self.0.values().map(|entry| EnvironmentInfo::from(&entry.description)).collect()
    }

    /// The environment of a name.
    ///
    /// # Errors
    /// One that the worker does not have.
    pub(crate) fn entry(&self, name: &str) -> Result<Arc<Entry>, Failure> {
        self.0.get(name).cloned().ok_or_else(|| {
            let known: Vec<_> = self.0.keys().map(String::as_str).collect();
            let error = FieldError::quoted("environment", name, format!("one of {}", known.join(", ")));
            Failure::new(EpisodeFailure::TaskInvalid, error.to_string())
        })
    }
}

impl Entry {
    pub(crate) fn name(&self) -> &str {
        &self.description.name
    }

    pub(crate) fn tools(&self) -> &[Tool] {
        &self.description.tools
    }

    /// Begins an episode.
    ///
    /// # Errors
    /// A task that the environment cannot do, one that fails or is full, a deadline.
    pub(crate) async fn open(&self, request: &OpenEpisode, limit: Duration) -> Result<Played, Failure> {
        let OpenEpisode { task, seed, .. } = request;
        match &self.source {
            EnvironmentSource::BuiltIn(built_in) => {
                let opened = at_once("opening it", limit, || built_in.open(task, *seed))?;
                let invalid = |error: evenkeel_environment::TaskError| {
                    Failure::new(EpisodeFailure::TaskInvalid, error.to_string())
                };
                opened.map(Played::BuiltIn).map_err(invalid)
            }
            EnvironmentSource::Programs(programs) => programs.open((task, *seed), limit).await.map(Played::Program),
            EnvironmentSource::Sandbox(sandbox) => {
                within("opening it", limit, sandbox.open()).await.map(Played::Sandboxed)
            }
            #[cfg(feature = "openenv")]
            EnvironmentSource::OpenEnv(server) => {
                let opening = server.open((task, *seed), &request.episode_id);
                within("opening it", limit, opening).await.map(Played::OpenEnv)
            }
            EnvironmentSource::Agent(program) => {
                let opening = within(FIRST, limit, program.open(task, *seed));
                opening.await.map(|episode| Played::Agent(Box::new(episode)))
            }
            EnvironmentSource::Taskset(taskset) => {
                let opening = within(FIRST, limit, taskset.open(task, *seed));
                opening.await.map(|episode| Played::Agent(Box::new(episode)))
            }
        }
    }
}

#[cfg(all(test, not(feature = "openenv")))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_the_client_of_openenv_its_servers_are_refused() {
        let settings = EnvironmentSettings { openenv: vec!["ws://127.0.0.1:1".into()], ..Default::default() };
        let refused = Catalog::of(&settings, None).await.map(drop).unwrap_err().to_string();
        assert!(
            refused.starts_with("environment.openenv: ws://127.0.0.1:1: ") && refused.contains("`openenv`"),
            "{refused}"
        );
    }
}
