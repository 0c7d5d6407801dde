//! A process that plays several episodes at once: requests in, and for each a result, a line of JSON each, in any
//! order.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};
use std::time::Duration;

use evenkeel_child::JsonProcess;
use evenkeel_proto::v1::EpisodeFailure;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::{ChildStdin, Command};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::sleep;

use super::run::{Aborts, Ended, Run};
use crate::failure::Failure;
use crate::score::Score;

/// How long a process may take to end an episode that nobody wants any more.
const CANCEL: Duration = Duration::from_secs(5);

/// Makes the command of a process.
pub(super) type Launch = Arc<dyn Fn() -> Command + Send + Sync>;

/// A process, started when it is needed and again after it has ended.
pub(super) struct Host {
    launch: Launch,
    name: String,
    live: Mutex<Option<Arc<Live>>>,
    episodes: AtomicUsize,
}

/// A start of the process.
struct Live {
    lines: mpsc::UnboundedSender<String>,
    /// Who waits for the end of which episode; `None` once the process has ended.
    waiting: StdMutex<Option<HashMap<String, oneshot::Sender<Ended>>>>,
    task: StdMutex<Option<Aborts>>,
}

/// What a process says first.
#[derive(Debug, Deserialize)]
pub(super) struct Hello {
    /// What decides how its episodes go.
    #[serde(default)]
    pub(super) fingerprint: String,
}

/// What a process says of an episode that is over.
#[derive(Deserialize)]
struct Said {
    episode: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    task_error: String,
    #[serde(default)]
    score: Option<Score>,
}

/// An episode of a process. Dropping it ends the episode there.
struct Place {
    host: Arc<Host>,
    live: Arc<Live>,
    id: String,
}

impl Host {
    pub(super) fn new(launch: Launch, name: String) -> Arc<Self> {
        Arc::new(Self { launch, name, live: Mutex::new(None), episodes: AtomicUsize::new(0) })
    }

    /// Episodes that are open.
    pub(super) fn episodes(&self) -> usize {
        self.episodes.load(Ordering::Acquire)
    }

    /// Starts the process.
    ///
    /// # Errors
    /// One that cannot be started, or says why it cannot play.
    pub(super) async fn hello(&self) -> Result<Hello, Failure> {
        let (live, hello) = self.start().await?;
        *self.live.lock().await = Some(live);
        Ok(hello)
    }

    /// Has an episode played that asks the model at this URL.
    ///
    /// # Errors
    /// A process that cannot be started.
    pub(super) async fn run(self: &Arc<Self>, task: &Value, seed: u64, base_url: &str) -> Result<Run, Failure> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut kept = self.live.lock().await;
        let live = match kept.as_ref().filter(|live| live.is_alive()) {
            Some(live) => Arc::clone(live),
            None => {
                let (live, _) = self.start().await?;
                Arc::clone(kept.insert(live))
            }
        };
        drop(kept);
        let id = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
        let (sender, ended) = oneshot::channel();
        live.wait_for(&id, sender);
        self.episodes.fetch_add(1, Ordering::AcqRel);
        let place = Place { host: Arc::clone(self), live: Arc::clone(&live), id: id.clone() };
        live.say(&json!({"do": "run", "episode": id, "task": task, "seed": seed, "base_url": base_url}));
        Ok(Run { ended, _guard: Box::new(place) })
    }

    async fn start(&self) -> Result<(Arc<Live>, Hello), Failure> {
        let started = JsonProcess::start((self.launch)(), &self.name).await;
        let (process, hello) = started.map_err(Failure::crashed)?;
        let (lines, receiver) = mpsc::unbounded_channel();
        let waiting = StdMutex::new(Some(HashMap::new()));
        let live = Arc::new(Live { lines, waiting, task: StdMutex::new(None) });
        let task = tokio::spawn(serve(process, receiver, Arc::downgrade(&live)));
        *live.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(Aborts(task.abort_handle()));
        Ok((live, hello))
    }
}

/// Owns a process until it ends: passes requests on to it, and its results to those who wait for them.
async fn serve(process: JsonProcess, lines: mpsc::UnboundedReceiver<String>, served: Weak<Live>) {
    let JsonProcess { requests, mut answers } = process;
    // Whole lines, whoever goes away meanwhile.
    let writing = tokio::spawn(write(requests, lines));
    let _stops_writing = Aborts(writing.abort_handle());
    while let Ok(line) = answers.next().await {
        match serde_json::from_slice::<Said>(&line) {
            Ok(said) => {
                if let Some(live) = served.upgrade() {
                    live.said(said);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "a process that plays episodes says what is no result");
                break;
            }
        }
    }
    let end = answers.end().await;
    if let Some(live) = served.upgrade() {
        live.end(&format!("its process {end}"));
    }
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(line.as_bytes()).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
    }
}

impl Live {
    fn is_alive(&self) -> bool {
        self.lock().is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<HashMap<String, oneshot::Sender<Ended>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for(&self, id: &str, sender: oneshot::Sender<Ended>) {
        if let Some(waiting) = self.lock().as_mut() {
            waiting.insert(id.to_owned(), sender);
        }
    }

    fn is_waited_for(&self, id: &str) -> bool {
        self.lock().as_ref().is_some_and(|waiting| waiting.contains_key(id))
    }

    fn say(&self, line: &Value) {
        let _ = self.lines.send(format!("{line}\n"));
    }

    fn said(&self, said: Said) {
        let Said { episode, error, task_error, score } = said;
        let sender = self.lock().as_mut().and_then(|waiting| waiting.remove(&episode));
        let ended = match () {
            () if !task_error.is_empty() => Err(Failure::new(EpisodeFailure::TaskInvalid, task_error)),
            () if !error.is_empty() => Err(Failure::crashed(error)),
            () => Ok(score),
        };
        if let Some(sender) = sender {
            let _ = sender.send(ended);
        }
    }

    /// The process is no more, and none of its episodes.
    fn end(&self, why: &str) {
        let waiting = self.lock().take().unwrap_or_default();
        if !waiting.is_empty() {
            tracing::warn!(episodes = waiting.len(), "{why}");
        }
        for sender in waiting.into_values() {
            let _ = sender.send(Err(Failure::crashed(why)));
        }
        drop(self.task.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.host.episodes.fetch_sub(1, Ordering::AcqRel);
        if !self.live.is_waited_for(&self.id) {
            return;
        }
        self.live.say(&json!({"do": "cancel", "episode": self.id}));
        // Without a runtime the process ends as well.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let live = Arc::clone(&self.live);
        let id = std::mem::take(&mut self.id);
        runtime.spawn(async move {
            sleep(CANCEL).await;
            if live.is_waited_for(&id) {
                let limit = evenkeel_config::human(CANCEL);
                live.end(&format!("its process was ended, since an episode there did not end within {limit}"));
            }
        });
    }
}
