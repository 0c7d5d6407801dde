//! A process that plays episodes of a Python file: requests in, answers out, a line of JSON each, one after the other.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use evenkeel_proto::v1::EpisodeFailure;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Hello, Launch};
use crate::failure::Failure;
use crate::lines::{LastLines, answer};

/// The program that plays the episodes of a file, with the class that the file's own derives from.
pub const BRIDGE: &str = include_str!("../../python/evenkeel_environment.py");
/// Its name, by which the file imports it.
pub const BRIDGE_FILE: &str = "evenkeel_environment.py";

/// How long a process may take until it says what its environment is: imports such as torch take long.
const START: Duration = Duration::from_secs(120);
/// How long it is waited for the status of a process that has closed its pipe.
const EXIT: Duration = Duration::from_secs(2);

/// A process, started again when it is needed after it has ended.
pub(super) struct Process {
    launch: Arc<Launch>,
    state: Mutex<State>,
    episodes: AtomicUsize,
}

struct State {
    running: Option<Running>,
    /// Counts starts: an episode is lost with the start that it began in.
    start: u64,
    /// Why the last one ended.
    why: String,
}

struct Running {
    child: Child,
    stdin: ChildStdin,
    answers: BufReader<ChildStdout>,
    last_lines: LastLines,
    /// Reads them.
    reader: JoinHandle<()>,
}

/// The place of an episode in a process, until it is dropped.
pub(super) struct Place(Arc<Process>);

/// Which start of a process an episode is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum In {
    /// It begins: the process is started where it has ended.
    Any,
    /// It goes on.
    Start(u64),
}

impl Process {
    pub(super) fn new(launch: Arc<Launch>) -> Arc<Self> {
        let state = State { running: None, start: 0, why: String::new() };
        Arc::new(Self { launch, state: Mutex::new(state), episodes: AtomicUsize::new(0) })
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
        let mut state = self.state.lock().await;
        self.start(&mut state).await
    }

    /// Sends a request and waits for its answer. What takes longer than `limit` ends the process, with all of its
    /// episodes. Returns the start that it was answered in as well.
    async fn ask<T: DeserializeOwned>(
        &self,
        within: In,
        request: &Value,
        limit: Duration,
    ) -> Result<(u64, T), Failure> {
        // Waiting for the steps of other episodes has the limit as well, and ends none of them.
        let Ok(mut state) = timeout(limit, self.state.lock()).await else {
            return Err(Failure::timeout("waiting for other episodes of its process", limit));
        };
        match within {
            In::Start(start) if start != state.start || state.running.is_none() => {
                return Err(Failure::crashed(&state.why));
            }
            In::Any if state.running.is_none() => drop(self.start(&mut state).await?),
            _ => {}
        }
        let start = state.start;
        let Some(running) = &mut state.running else { return Err(Failure::crashed("its process is gone")) };
        let mut line = request.to_string();
        line.push('\n');
        let exchange = async {
            running.stdin.write_all(line.as_bytes()).await?;
            running.stdin.flush().await?;
            answer(&mut running.answers).await
        };
        match timeout(limit, exchange).await {
            Ok(Ok(said)) => match serde_json::from_slice(&said) {
                Ok(said) => Ok((start, said)),
                Err(error) => Err(self.kill(&mut state, format!("its process gave no valid answer ({error})"))),
            },
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(self.kill(&mut state, format!("its process gave {error}")))
            }
            Ok(Err(_)) => Err(self.ended(&mut state, "its process").await),
            Err(_) => {
                let human = evenkeel_config::human(limit);
                self.kill(&mut state, format!("an episode of its process took longer than {human}"));
                Err(Failure::timeout("the step", limit))
            }
        }
    }

    /// Ends the process. Returns what its other episodes are told.
    fn kill(&self, state: &mut State, why: String) -> Failure {
        // Dropping it kills it.
        state.running = None;
        tracing::warn!(path = %self.launch.path.display(), "{why}");
        state.why = why;
        Failure::crashed(&state.why)
    }

    /// The process has closed its pipe. Returns what its episodes are told.
    async fn ended(&self, state: &mut State, who: &str) -> Failure {
        let Some(mut running) = state.running.take() else { return Failure::crashed(&state.why) };
        let status = match timeout(EXIT, running.child.wait()).await {
            Ok(Ok(status)) => format!("ended with {status}"),
            _ => "closed its pipe".to_owned(),
        };
        let _ = timeout(EXIT, running.reader).await;
        let why = running.last_lines.behind(&format!("{who} {status}"));
        self.kill(state, why)
    }

    async fn start(&self, state: &mut State) -> Result<Hello, Failure> {
        let Launch { python, path, digest, max_memory } = &*self.launch;
        Failure::of_changed_file(path, digest)?;
        let child = Command::new(python)
            .args(["-u", "-c", BRIDGE])
            .arg(path)
            .arg(max_memory.to_string())
            // Episodes depend on their seeds, and not on the addresses of strings.
            .env("PYTHONHASHSEED", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C ends a run after its step, whose episodes go on.
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut child = child.map_err(|error| Failure::crashed(format!("{}: {error}", python.display())))?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Failure::crashed("a process without pipes"));
        };
        let last_lines = LastLines::default();
        let reader = tokio::spawn(last_lines.clone().follow(stderr, path.display().to_string()));
        state.start += 1;
        state.running = Some(Running { child, stdin, answers: BufReader::new(stdout), last_lines, reader });
        let Some(running) = &mut state.running else { return Err(Failure::crashed("its process is gone")) };
        let said = timeout(START, answer(&mut running.answers)).await;
        let hello = match said {
            Ok(Ok(said)) => serde_json::from_slice::<Hello>(&said).ok(),
            _ => None,
        };
        match hello {
            Some(hello) if hello.error.is_empty() => Ok(hello),
            Some(hello) => {
                state.running = None;
                state.why = format!("{}: {}", path.display(), hello.error);
                Err(Failure::crashed(&hello.error))
            }
            None => Err(self.ended(state, "the process did not say what its environment is; it").await),
        }
    }
}

impl Place {
    /// Sends a request of the episode. It is answered even where nobody waits for that any more: the process goes on.
    pub(super) async fn ask<T>(&self, within: In, request: Value, limit: Duration) -> Result<(u64, T), Failure>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let process = Arc::clone(&self.0);
        let asking = tokio::spawn(async move { process.ask(within, &request, limit).await });
        asking.await.unwrap_or_else(|error| Err(Failure::new(EpisodeFailure::Internal, error.to_string())))
    }

    /// The episode is over: its process forgets it, whenever it comes to that.
    pub(super) fn close(&self, start: u64, request: Value, limit: Duration) {
        // Without a runtime the process ends as well.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let process = Arc::clone(&self.0);
        runtime.spawn(async move {
            let _ = process.ask::<Value>(In::Start(start), &request, limit).await;
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.episodes.fetch_sub(1, Ordering::AcqRel);
    }
}
