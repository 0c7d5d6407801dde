//! A process that plays several episodes at once: requests in, and for each a result, in any order.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};
use std::time::Duration;

use evenkeel_child::{ChildLimits, Frame, FrameId, FramedProcess, PIPE, write_frame};
use evenkeel_proto::v1::EpisodeFailure;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::process::{ChildStdin, Command};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::sleep;

use super::run::{Aborts, Ended, Run};
use crate::failure::Failure;
use crate::score::Score;

/// How long a process may take to end an episode that nobody wants any more.
const CANCEL: Duration = Duration::from_secs(5);

/// How a process is started.
pub(super) struct Launch {
    pub(super) python: PathBuf,
    /// A program in Python, which begins with the pipe.
    pub(super) program: &'static str,
    pub(super) settings: Value,
    pub(super) limits: ChildLimits,
}

/// A process, started when it is needed and again after it has ended.
pub(super) struct Host {
    launch: Arc<Launch>,
    name: String,
    live: Mutex<Option<Arc<Live>>>,
    episodes: AtomicUsize,
}

/// A start of the process.
struct Live {
    requests: mpsc::UnboundedSender<(FrameId, String)>,
    /// Who waits for the end of which episode; `None` once the process has ended.
    waiting: StdMutex<Option<Waiting>>,
    task: StdMutex<Option<Aborts>>,
}

/// Who waits for which episode, each called by the id of the request that began it.
type Waiting = HashMap<FrameId, oneshot::Sender<Ended>>;

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
    id: FrameId,
}

impl Host {
    pub(super) fn new(launch: Arc<Launch>, name: String) -> Arc<Self> {
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
    pub(super) async fn run(self: &Arc<Self>, task: &RawValue, seed: u64, base_url: &str) -> Result<Run, Failure> {
        let mut kept = self.live.lock().await;
        let live = match kept.as_ref().filter(|live| live.is_alive()) {
            Some(live) => Arc::clone(live),
            None => {
                let (live, _) = self.start().await?;
                Arc::clone(kept.insert(live))
            }
        };
        drop(kept);
        let id = FrameId::random().map_err(|error| Failure::crashed(error.to_string()))?;
        let (sender, ended) = oneshot::channel();
        live.wait_for(id, sender);
        self.episodes.fetch_add(1, Ordering::AcqRel);
        let place = Place { host: Arc::clone(self), live: Arc::clone(&live), id };
        // The task as it is: numbers keep all of their digits.
        let base_url = json!(base_url);
        live.say(id, format!(r#"{{"do": "run", "task": {task}, "seed": {seed}, "base_url": {base_url}}}"#));
        Ok(Run { ended, _guard: Box::new(place) })
    }

    async fn start(&self) -> Result<(Arc<Live>, Hello), Failure> {
        let Launch { python, program, settings, limits } = &*self.launch;
        let mut command = Command::new(python);
        command.args(["-u", "-c"]).arg(format!("{PIPE}\n{program}")).env("PYTHONHASHSEED", "0");
        // For those who look at processes.
        command.arg(&self.name);
        let started = FramedProcess::start(command, limits, settings, &self.name).await;
        let (process, hello) = started.map_err(Failure::crashed)?;
        let (requests, receiver) = mpsc::unbounded_channel();
        let waiting = StdMutex::new(Some(HashMap::new()));
        let live = Arc::new(Live { requests, waiting, task: StdMutex::new(None) });
        let task = tokio::spawn(serve(process, receiver, Arc::downgrade(&live)));
        *live.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(Aborts(task.abort_handle()));
        Ok((live, hello))
    }
}

/// Owns a process until it ends: passes requests on to it, and its results to those who wait for them.
async fn serve(process: FramedProcess, queued: mpsc::UnboundedReceiver<(FrameId, String)>, served: Weak<Live>) {
    let FramedProcess { requests, mut answers } = process;
    // Whole requests, whoever goes away meanwhile.
    let writing = tokio::spawn(write(requests, queued));
    let _stops_writing = Aborts(writing.abort_handle());
    let fault = loop {
        let (id, said) = match answers.next().await {
            Ok(Frame { id, json }) => (id, serde_json::from_slice::<Said>(&json)),
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => break format!("gave {error}"),
            Err(_) => break answers.end().await,
        };
        let Some(live) = served.upgrade() else { return };
        match said {
            Ok(said) => {
                if !live.said(id, said) {
                    break "gave a result of an episode that it does not play".to_owned();
                }
            }
            Err(error) => break format!("gave no valid result ({error})"),
        }
    };
    if let Some(live) = served.upgrade() {
        live.end(&format!("its process {fault}"));
    }
}

async fn write(mut stdin: ChildStdin, mut queued: mpsc::UnboundedReceiver<(FrameId, String)>) {
    while let Some((id, request)) = queued.recv().await {
        if write_frame(&mut stdin, id, request.as_bytes()).await.is_err() {
            return;
        }
    }
}

impl Live {
    fn is_alive(&self) -> bool {
        self.lock().is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for(&self, id: FrameId, sender: oneshot::Sender<Ended>) {
        if let Some(waiting) = self.lock().as_mut() {
            waiting.insert(id, sender);
        }
    }

    fn is_waited_for(&self, id: FrameId) -> bool {
        self.lock().as_ref().is_some_and(|waiting| waiting.contains_key(&id))
    }

    fn say(&self, id: FrameId, request: String) {
        let _ = self.requests.send((id, request));
    }

    /// Passes a result on; `false` where nobody waits for it, or for a second one.
    fn said(&self, id: FrameId, Said { error, task_error, score }: Said) -> bool {
        let sender = self.lock().as_mut().and_then(|waiting| waiting.remove(&id));
        let ended = match () {
            () if !task_error.is_empty() => Err(Failure::new(EpisodeFailure::TaskInvalid, task_error)),
            () if !error.is_empty() => Err(Failure::crashed(error)),
            () => Ok(score),
        };
        // Whoever waited may be gone.
        sender.map(|sender| sender.send(ended)).is_some()
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
        if !self.live.is_waited_for(self.id) {
            return;
        }
        self.live.say(self.id, r#"{"do": "cancel"}"#.to_owned());
        // Without a runtime the process ends as well.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let live = Arc::clone(&self.live);
        let id = self.id;
        runtime.spawn(async move {
            sleep(CANCEL).await;
            if live.is_waited_for(id) {
                let limit = evenkeel_config::human(CANCEL);
                live.end(&format!("its process was ended, since an episode there did not end within {limit}"));
            }
        });
    }
}
