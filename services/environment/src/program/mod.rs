//! Environments in Python files of the user's own: processes that play them, several episodes in each.
//!
//! A process plays one step at a time. One that takes too long is ended with its process, and so are the other episodes
//! there: they are played again. What such a file does is no failure of the model.

mod episode;
mod process;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_child::ChildLimits;
use evenkeel_environment::{Description, Tool};
use evenkeel_host::FileDigest;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::EpisodeFailure;
use serde::Deserialize;
use serde_json::Value;

use crate::error::EnvironmentError;
use crate::failure::Failure;
use crate::settings::EnvironmentSettings;

pub(crate) use episode::ProgramEpisode;
use process::Process;
pub use process::{BRIDGE, BRIDGE_FILE};

/// Most tools of an environment.
const MAX_TOOLS: usize = 128;
/// Longest name of a tool.
const MAX_NAME: usize = 64;

/// How the processes of a file are started.
#[derive(Debug)]
struct Launch {
    python: PathBuf,
    path: PathBuf,
    /// Digest of the file when the worker was started.
    digest: String,
    limits: ChildLimits,
}

/// The processes of a file.
pub(crate) struct Programs {
    processes: Vec<Arc<Process>>,
    /// Episodes that each may have.
    most: usize,
}

/// What a file says of its environment.
#[derive(Deserialize)]
struct Hello {
    #[serde(default)]
    system_prompt: String,
    #[serde(default)]
    user_speaks: bool,
    #[serde(default)]
    tools: Vec<HelloTool>,
    /// What the user should know of it.
    #[serde(default)]
    notes: Vec<String>,
}

#[derive(Deserialize)]
struct HelloTool {
    name: String,
    description: String,
    parameters: Value,
}

impl Programs {
    /// Starts the first process of a file, which says what the environment is.
    ///
    /// # Errors
    /// A file that is missing, or has no environment.
    pub(crate) async fn start(
        settings: &EnvironmentSettings,
        path: &std::path::Path,
    ) -> Result<(Self, Description), EnvironmentError> {
        let field = || format!("files: {}", path.display());
        let broken = |message: String| EnvironmentError::File { path: path.to_owned(), message };
        if !path.is_file() {
            let allowed = "a Python file with an environment";
            return Err(EnvironmentError::Setting(FieldError::new("files", path.display(), allowed)));
        }
        let digest = FileDigest::of(path).map_err(|error| broken(error.to_string()))?.to_string();
        let launch = Arc::new(Launch {
            python: settings.python.clone(),
            path: path.to_owned(),
            digest,
            limits: settings.child_limits(settings.max_memory),
        });
        let processes: Vec<_> = (0..settings.processes).map(|_| Process::new(Arc::clone(&launch))).collect();
        let hello = processes[0].hello().await.map_err(|failure| broken(failure.message))?;
        for note in &hello.notes {
            tracing::warn!("{}: {note}", path.display());
        }
        let description = hello.description(path, &launch.digest);
        let description = description.map_err(|error| EnvironmentError::Setting(error.within(field())))?;
        Ok((Self { processes, most: settings.episodes_per_process }, description))
    }

    /// Begins an episode in the process that has the fewest.
    ///
    /// # Errors
    /// All are full; the file refuses the task or fails; a deadline.
    pub(crate) async fn open(&self, (task, seed): (&[u8], u64), limit: Duration) -> Result<ProgramEpisode, Failure> {
        let process = self.processes.iter().min_by_key(|process| process.episodes());
        let place = process.and_then(|process| process.enter(self.most)).ok_or_else(|| {
            let processes = self.processes.len();
            let most = self.most;
            let message = format!("{processes} processes have {most} episodes each (processes, episodes_per_process)");
            Failure::new(EpisodeFailure::Overloaded, message)
        })?;
        ProgramEpisode::open(place, task, seed, limit).await
    }
}

impl Hello {
    fn description(self, path: &std::path::Path, digest: &str) -> Result<Description, FieldError> {
        let tools = self.tools.into_iter().map(|tool| {
            require_name(&tool.name)?;
            let HelloTool { name, description, parameters } = tool;
            Ok::<_, FieldError>(Tool { name, description, parameters })
        });
        let tools: Vec<Tool> = tools.collect::<Result<_, FieldError>>()?;
        FieldError::ensure(tools.len() <= MAX_TOOLS, "tools", tools.len(), format!("at most {MAX_TOOLS}"))?;
        Ok(Description {
            name: path.to_string_lossy().into_owned(),
            system_prompt: self.system_prompt,
            user_speaks: self.user_speaks,
            tools,
            digest: digest.to_owned(),
            is_agent: false,
        })
    }
}

/// Refuses the name of a tool that a model could not write.
pub(crate) fn require_name(name: &str) -> Result<(), FieldError> {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let allowed = format!("1 to {MAX_NAME} letters, digits, `_`, `-` or `.`");
    let holds = (1..=MAX_NAME).contains(&name.len()) && is_name(name);
    if holds { Ok(()) } else { Err(FieldError::quoted("tools.name", name, allowed)) }
}
