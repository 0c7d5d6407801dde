//! Settings `environment`: server, limits, and environments besides those that come with the program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_child::ChildLimits;
use evenkeel_config::{ByteSize, HumanDuration, Settings, at_least_1ms, at_least_one, resolved_threads};
use evenkeel_environment::{EnvironmentOrigin, OPENENV};
use evenkeel_proto::FieldError;
use evenkeel_rpc::server::ServerSettings;
use evenkeel_sandbox::CellSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Limits of what an interpreter may take: its addresses have 32 bits.
const MIN_SESSION: u64 = 8 << 20;
const MAX_SESSION: u64 = 3 << 30;
/// Memory of all interpreters where the machine does not tell what it has, and the most: each takes addresses of the
/// process that it is in.
const UNKNOWN_MEMORY: u64 = 4 << 30;
const MAX_MEMORY: u64 = 256 << 30;
const MAX_OUTPUT: usize = 1 << 20;
const MAX_THREADS: usize = 1024;

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
    /// How long an episode may send neither an action nor a keep-alive before it is ended; a request may ask for less.
    #[serde(with = "HumanDuration")]
    pub idle_timeout: Duration,
    /// Python files with your own environments, named by these paths. They are trusted code: they run with your rights.
    /// `evenkeel train` adds those that `data.environment` names.
    pub files: Vec<PathBuf>,
    /// The interpreter of `files` and of `agents` that are Python files, which needs no packages of its own, and of
    /// `verifiers`, where the package has to be installed.
    pub python: PathBuf,
    /// Processes for each of `files`, of which each plays one step at a time, and for each of `verifiers`.
    pub processes: usize,
    /// Episodes that a process has at once. They end with it, where one of them takes too long or crashes it, and are
    /// played again.
    pub episodes_per_process: usize,
    /// Memory of each process of `files`, and of each that it starts; `0B` for no limit. Addresses that are only reserved do
    /// not count.
    pub max_memory: ByteSize,
    /// Variables of the environment that `files`, `agents` and `verifiers` need although they look like secrets, such as
    /// `HF_TOKEN`. Without this they get no `*TOKEN*`, `*SECRET*`, `*PASSWORD*`, `*_KEY`, `*_HEADERS`, `*_ASKPASS`,
    /// `SSH_AUTH_SOCK` and the like: what a model can read may stand in its context, and in the run's files.
    pub keep_variables: Vec<String>,
    /// Addresses of OpenEnv servers, `ws://HOST:PORT` each, or `wss://HOST:PORT` with TLS, whose environments are named
    /// `openenv:ADDRESS`. `evenkeel train` adds those that `data.environment` names.
    pub openenv: Vec<String>,
    /// The lowest and the highest sum of the rewards of an episode on an OpenEnv server; they count as 0 and 1.
    pub openenv_range: [f64; 2],
    /// Programs that run episodes by themselves and ask the model at a chat endpoint of the worker, which are named
    /// `agent:PATH`. A Python file (`*.py`) is run by `python`, any other is executed. They are trusted code, as
    /// `files` are. `evenkeel train` adds those that `data.environment` names.
    pub agents: Vec<PathBuf>,
    /// Programs of `agents` that run at once, each for one episode.
    pub max_agents: usize,
    /// Memory of each process of `agents` and `verifiers`, and of each that it starts; `0B` for no limit. Addresses that are
    /// only reserved do not count.
    pub max_agent_memory: ByteSize,
    /// Tasksets of verifiers, by the name of the package or the path of the Python file, each with the settings of its
    /// environment as verifiers has them below `env`. They are named `verifiers:TASKSET` and are trusted code.
    /// `evenkeel train` adds those that `data.environment` names.
    pub verifiers: BTreeMap<String, BTreeMap<String, Value>>,
    /// The lowest and the highest reward of an episode of `verifiers`; they count as 0 and 1.
    pub verifiers_range: [f64; 2],
    /// The interpreters of the environment `python`.
    pub sandbox: SandboxSettings,
}

/// The interpreters of the environment `python`, each in the sandbox, for one episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxSettings {
    /// Folder of the interpreter [default: EVENKEEL_GUEST_DIR, or `evenkeel` in the user's cache folder].
    pub guest_dir: Option<PathBuf>,
    /// Programs that run at once; 0 for the number of cores. Each has a process.
    pub threads: usize,
    /// Memory for all interpreters together [default: half of what is available to the machine or its control group].
    /// An episode begins only where all that its interpreter may take fits.
    pub memory: Option<ByteSize>,
    /// Memory of an interpreter, besides its own.
    pub session_memory: ByteSize,
    /// Time of the program of one call, counted as instructions: the same on every machine.
    #[serde(with = "HumanDuration")]
    pub time: Duration,
    /// Characters that the program of one call may write; what is more is cut, with a mark.
    pub output: usize,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            guest_dir: None,
            threads: 0,
            memory: None,
            session_memory: ByteSize::mib(64),
            time: Duration::from_secs(10),
            output: 16_384,
        }
    }
}

impl SandboxSettings {
    /// The settings of a pool, with what this machine has.
    pub(crate) fn cells(&self) -> CellSettings {
        let memory_bytes = self.memory.map(ByteSize::bytes);
        let memory_bytes = memory_bytes.or_else(|| evenkeel_host::available_memory().map(|bytes| bytes / 2));
        CellSettings {
            threads: resolved_threads(self.threads),
            memory_bytes: memory_bytes.unwrap_or(UNKNOWN_MEMORY).min(MAX_MEMORY),
            session_bytes: self.session_memory.bytes(),
            cell_time: self.time,
            output_chars: self.output,
        }
    }
}

impl Settings for SandboxSettings {
    fn validate(&self) -> Result<(), FieldError> {
        let memory = self.session_memory.bytes();
        let allowed = format!("{} to {}", ByteSize::b(MIN_SESSION), ByteSize::b(MAX_SESSION));
        FieldError::ensure(
            (MIN_SESSION..=MAX_SESSION).contains(&memory),
            "session_memory",
            self.session_memory,
            allowed,
        )?;
        FieldError::ensure(self.output <= MAX_OUTPUT, "output", self.output, format!("at most {MAX_OUTPUT}"))?;
        FieldError::ensure(self.threads <= MAX_THREADS, "threads", self.threads, format!("at most {MAX_THREADS}"))?;
        at_least_1ms(&[("time", self.time)])
    }
}

impl Default for EnvironmentSettings {
    fn default() -> Self {
        Self {
            server: ServerSettings::default(),
            name: "environment".to_owned(),
            max_episodes: 4096,
            step_deadline: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(120),
            files: Vec::new(),
            python: "python3".into(),
            processes: 4,
            episodes_per_process: 128,
            max_memory: ByteSize::gib(8),
            keep_variables: Vec::new(),
            openenv: Vec::new(),
            openenv_range: [0.0, 1.0],
            agents: Vec::new(),
            max_agents: 64,
            max_agent_memory: ByteSize::gib(8),
            verifiers: BTreeMap::new(),
            verifiers_range: [0.0, 1.0],
            sandbox: SandboxSettings::default(),
        }
    }
}

impl EnvironmentSettings {
    /// The defaults, listening on this address.
    pub fn on(listen: impl Into<String>) -> Self {
        Self { server: ServerSettings::on(listen), ..Self::default() }
    }
}

impl EnvironmentSettings {
    /// What a process gets that may have so much memory.
    pub(crate) fn child_limits(&self, max_memory: ByteSize) -> ChildLimits {
        ChildLimits { keep_variables: self.keep_variables.clone(), max_memory: max_memory.bytes() }
    }

    /// These settings with the environments that a recipe names.
    #[must_use]
    pub fn with<'a>(mut self, names: impl Iterator<Item = &'a String>) -> Self {
        for name in names.collect::<BTreeSet<_>>() {
            match EnvironmentOrigin::of("data.environment", name) {
                Ok(EnvironmentOrigin::File(path)) if !self.files.iter().any(|file| file.as_os_str() == path) => {
                    self.files.push(path.into());
                }
                Ok(EnvironmentOrigin::OpenEnv(address)) if !self.openenv.iter().any(|known| known == address) => {
                    self.openenv.push(address.to_owned());
                }
                Ok(EnvironmentOrigin::Agent(path)) if !self.agents.iter().any(|known| known.as_os_str() == path) => {
                    self.agents.push(path.into());
                }
                Ok(EnvironmentOrigin::Verifiers(taskset)) => {
                    self.verifiers.entry(taskset.to_owned()).or_default();
                }
                // Known already, or refused with the settings of the data.
                _ => {}
            }
        }
        self
    }
}

impl Settings for EnvironmentSettings {
    fn validate(&self) -> Result<(), FieldError> {
        self.server.validate().map_err(|error| error.within("server"))?;
        if self.name.is_empty() {
            return Err(FieldError::new("name", "\"\"", "a name"));
        }
        at_least_one(&[
            ("max_episodes", self.max_episodes as u64),
            ("processes", self.processes as u64),
            ("episodes_per_process", self.episodes_per_process as u64),
            ("max_agents", self.max_agents as u64),
        ])?;
        for address in &self.openenv {
            EnvironmentOrigin::of("openenv", &format!("{OPENENV}{address}"))
                .map_err(|error| FieldError::quoted("openenv", address, error.allowed.trim_start_matches(OPENENV)))?;
        }
        self.sandbox.validate().map_err(|error| error.within("sandbox"))?;
        for (field, [low, high]) in [("openenv_range", self.openenv_range), ("verifiers_range", self.verifiers_range)] {
            let is_range = low.is_finite() && high.is_finite() && low < high;
            FieldError::ensure(is_range, field, format!("[{low}, {high}]"), "the lower and the higher of two numbers")?;
        }
        if let Some(taskset) = self.verifiers.keys().find(|taskset| taskset.is_empty()) {
            return Err(FieldError::quoted(
                "verifiers",
                taskset,
                "the name of a package, or the path of a Python file",
            ));
        }
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
        assert_eq!(refused(|settings| settings.sandbox.session_memory = ByteSize::b(1)), "sandbox.session_memory");
        assert_eq!(refused(|settings| settings.processes = 0), "processes");
        assert_eq!(refused(|settings| settings.openenv_range = [1.0, 0.0]), "openenv_range");
        assert_eq!(refused(|settings| settings.openenv.push("http://a".into())), "openenv");
        assert_eq!(refused(|settings| settings.max_agents = 0), "max_agents");
        assert_eq!(refused(|settings| settings.verifiers_range = [0.0, 0.0]), "verifiers_range");
        assert_eq!(refused(|settings| drop(settings.verifiers.insert(String::new(), BTreeMap::new()))), "verifiers");
        assert_eq!(refused(|settings| settings.server.listen = "x".into()), "server.listen");
    }

    #[test]
    fn environments_that_a_recipe_names_are_added_once() {
        let names =
            ["calculator", "shop.py", "openenv:ws://a:1", "shop.py", "agent:a.py", "agent:a.py", "verifiers:gsm8k"];
        let names = names.map(str::to_owned);
        let settings = EnvironmentSettings { files: vec!["shop.py".into()], ..EnvironmentSettings::default() };
        let settings = settings.with(names.iter());
        assert_eq!(settings.files, [PathBuf::from("shop.py")]);
        assert_eq!(settings.openenv, ["ws://a:1"]);
        assert_eq!(settings.agents, [PathBuf::from("a.py")]);
        assert_eq!(settings.verifiers.keys().collect::<Vec<_>>(), ["gsm8k"]);
        assert_eq!(settings.validate(), Ok(()));
    }
}
