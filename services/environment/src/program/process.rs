//! A process that plays episodes of a Python file: requests in, answers out, one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_child::{FramedProcess, PIPE};
use evenkeel_proto::v1::EpisodeFailure;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{Hello, Launch};
use crate::failure::Failure;

/// The program that plays the episodes of a file, with the class that the file's own derives from.
pub const BRIDGE: &str = concat!(
    include_str!("../../python/evenkeel_environment.py"),
    "\n\n",
    include_str!("../../python/environment_loop.py"),
    "\n\n",
    include_str!("../../python/environment_types.py"),
    "\n\n",
    include_str!("../../python/environment_tools.py"),
);
/// The name by which the file imports it.
pub const BRIDGE_FILE: &str = "evenkeel_environment.py";

/// A process, started again when it is needed after it has ended.
pub(super) struct Process {
    launch: Arc<Launch>,
    starts: Mutex<Starts>,
    episodes: AtomicUsize,
}

/// The starts of a process.
struct Starts {
    running: Option<FramedProcess>,
    /// Counts starts: an episode is lost with the start that it began in.
    start: u64,
    /// Why the last one ended.
    why: String,
}

/// The place of an episode in a process, until it is dropped.
pub(super) struct Place(Arc<Process>);

/// Which start of a process an episode is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum In {
    /// Any start, for an episode that begins: a process that has ended is started again.
    Any,
    /// The start that the episode began in.
    Start(u64),
}

impl Process {
    pub(super) fn new(launch: Arc<Launch>) -> Arc<Self> {
        let starts = Starts { running: None, start: 0, why: String::new() };
        Arc::new(Self { launch, starts: Mutex::new(starts), episodes: AtomicUsize::new(0) })
    }

    /// Episodes that are open.
    pub(super) fn episodes(&self) -> usize {
        self.episodes.load(Ordering::Acquire)
    }

    /// A place for an episode; `None` where it has as many as it takes.
    pub(super) fn enter(self: &Arc<Self>, most: usize) -> Option<Place> {
        let entered = self
            .episodes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |episodes| (episodes < most).then_some(episodes + 1));
        entered.ok().map(|_| Place(Arc::clone(self)))
    }

    /// Starts it. Returns what it says of its environment.
    pub(super) async fn hello(&self) -> Result<Hello, Failure> {
        let mut starts = self.starts.lock().await;
        self.start(&mut starts).await
    }

    /// Sends a request and waits for its answer. What takes longer than `limit` ends the process, with all of its
    /// episodes. Returns the start that it was answered in as well.
    async fn ask<T: DeserializeOwned>(&self, within: In, request: &str, limit: Duration) -> Result<(u64, T), Failure> {
        // Waiting for the steps of other episodes has the limit as well, and ends none of them.
        let Ok(mut starts) = timeout(limit, self.starts.lock()).await else {
            return Err(Failure::timeout("waiting for other episodes of its process", limit));
        };
        match within {
            In::Start(start) if start != starts.start || starts.running.is_none() => {
                return Err(Failure::crashed(&starts.why));
            }
            In::Any if starts.running.is_none() => drop(self.start(&mut starts).await?),
            _ => {}
        }
        let Some(running) = &mut starts.running else { return Err(Failure::crashed("its process is gone")) };
        let why = match timeout(limit, running.ask(request.as_bytes())).await {
            Ok(Ok(said)) => match serde_json::from_slice(&said) {
                Ok(said) => return Ok((starts.start, said)),
                Err(error) => format!("its process gave no valid answer ({error})"),
            },
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::InvalidData => format!("its process gave {error}"),
            Ok(Err(_)) => match starts.running.take() {
                Some(running) => format!("its process {}", running.answers.end().await),
                None => "its process is gone".to_owned(),
            },
            Err(_) => {
                let human = evenkeel_config::human(limit);
                self.ended(&mut starts, format!("an episode of its process took longer than {human}"));
                return Err(Failure::timeout("the step", limit));
            }
        };
        Err(self.ended(&mut starts, why))
    }

    /// Ends the process, if it has not ended. Returns what its other episodes are told.
    fn ended(&self, starts: &mut Starts, why: String) -> Failure {
        // Dropping it kills it.
        starts.running = None;
        tracing::warn!(path = %self.launch.path.display(), "{why}");
        starts.why = why;
        Failure::crashed(&starts.why)
    }

    async fn start(&self, starts: &mut Starts) -> Result<Hello, Failure> {
        let Launch { python, path, digest, limits } = &*self.launch;
        Failure::of_changed_file(path, digest)?;
        let mut command = Command::new(python);
        command.args(["-u", "-c"]).arg(format!("{PIPE}\n{BRIDGE}"));
        // For those who look at processes.
        command.arg(path);
        // Episodes depend on their seeds, and not on the addresses of strings.
        command.env("PYTHONHASHSEED", "0");
        starts.start += 1;
        let name = path.display().to_string();
        match FramedProcess::start(command, limits, &json!({"path": path}), &name).await {
            Ok((running, hello)) => {
                starts.running = Some(running);
                Ok(hello)
            }
            Err(why) => Err(self.ended(starts, why)),
        }
    }
}

impl Place {
    /// Sends a request of the episode. It is answered even where nobody waits for that any more: the process goes on.
    pub(super) async fn ask<T>(&self, within: In, request: String, limit: Duration) -> Result<(u64, T), Failure>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let process = Arc::clone(&self.0);
        let asking = tokio::spawn(async move { process.ask(within, &request, limit).await });
        asking.await.unwrap_or_else(|error| Err(Failure::new(EpisodeFailure::Internal, error.to_string())))
    }

    /// The episode is over: its process forgets it, whenever it comes to that.
    pub(super) fn close(&self, start: u64, request: String, limit: Duration) {
        // Without a runtime the process ends as well.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let process = Arc::clone(&self.0);
        runtime.spawn(async move {
            let _ = process.ask::<serde_json::Value>(In::Start(start), &request, limit).await;
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.episodes.fetch_sub(1, Ordering::AcqRel);
    }
}
