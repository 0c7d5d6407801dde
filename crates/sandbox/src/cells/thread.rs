//! A thread with sessions: it runs their cells one at a time, itself or in a worker process.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::outcome::CellOutcome;
use super::{CellSettings, FUNCTION};
use crate::executor::CellExecutor;
#[cfg(feature = "interpreter")]
use crate::in_process::InProcess;
#[cfg(feature = "interpreter")]
use crate::interpreter::Interpreter;
use crate::run::{Budget, Cell, ExitStatus, Run};
#[cfg(feature = "interpreter")]
use crate::sandbox::THREAD_STACK;
use crate::worker_process::{StartError, WorkerProcess, WorkerProcessCommand};

/// What a thread is asked for.
pub(super) enum Message {
    Run { id: u64, source: String, cancel: CancellationToken, done: Box<dyn FnOnce(CellOutcome) + Send> },
    End { id: u64 },
}

/// The way to a thread, for one session.
pub(super) struct Requests {
    sender: Sender<Message>,
    sessions: Arc<AtomicUsize>,
}

/// A thread. Dropping it ends its sessions, and waits for it.
pub(super) struct CellThread {
    sender: Option<Sender<Message>>,
    sessions: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Requests {
    pub(super) fn send(&self, message: Message) {
        // A pool that has ended drops what is asked.
        let _ = self.sender.send(message);
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.sessions.fetch_sub(1, Ordering::AcqRel);
    }
}

impl CellThread {
    fn start(
        builder: thread::Builder,
        serve: impl FnOnce(Receiver<Message>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let thread = builder.name("evenkeel-cells".to_owned()).spawn(move || serve(receiver))?;
        Ok(Self { sender: Some(sender), sessions: Arc::default(), thread: Some(thread) })
    }

    /// Sessions that it has.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Acquire)
    }

    pub(super) fn enter(&self) -> Requests {
        self.sessions.fetch_add(1, Ordering::AcqRel);
        let sender = self.sender.clone().unwrap_or_else(|| channel().0);
        Requests { sender, sessions: Arc::clone(&self.sessions) }
    }
}

impl Drop for CellThread {
    fn drop(&mut self) {
        // Sessions that are still held keep it: it ends with the last of them.
        self.sender = None;
        if self.sessions() == 0
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// Starts a thread that runs cells itself.
#[cfg(feature = "interpreter")]
pub(super) fn in_process(interpreter: Arc<Interpreter>, settings: CellSettings) -> std::io::Result<CellThread> {
    CellThread::start(thread::Builder::new().stack_size(THREAD_STACK), move |messages| {
        Sessions::new(settings, InProcess::new(&interpreter)).serve(&messages);
    })
}

/// Starts a thread that has cells run by a worker process.
pub(super) fn with_worker_process(
    command: WorkerProcessCommand,
    settings: CellSettings,
) -> std::io::Result<CellThread> {
    CellThread::start(thread::Builder::new(), move |messages| {
        Sessions::new(settings, Restarted { command, process: None, loss: None }).serve(&messages);
    })
}

/// A worker process, started when it is needed.
struct Restarted {
    command: WorkerProcessCommand,
    process: Option<WorkerProcess>,
    /// How the last one was lost, until that was asked for.
    loss: Option<String>,
}

impl CellExecutor for Restarted {
    fn cell(&mut self, cell: Cell<'_>, budget: &Budget, cancel: &CancellationToken) -> Run {
        let process = match &mut self.process {
            Some(process) => process,
            none => match WorkerProcess::start(&self.command, cancel) {
                Ok(started) => none.insert(started),
                Err(StartError::Missing(why)) => return Run::without(ExitStatus::Internal(why)),
                Err(StartError::Lost(loss)) => return Run::without(ExitStatus::Internal(loss.to_string())),
            },
        };
        let run = process.cell(cell, budget, cancel);
        if let Some(loss) = process.lost() {
            self.loss = Some(loss.to_string());
            self.process = None;
        }
        run
    }

    fn end_session(&mut self, id: u64) {
        if let Some(process) = &mut self.process {
            process.end_session(id);
        }
    }

    fn loss(&mut self) -> Option<String> {
        self.loss.take()
    }
}

/// The sessions of a thread.
struct Sessions<E> {
    executor: E,
    budget: Budget,
    driver: Vec<u8>,
    cell_time: Duration,
    /// Sessions whose interpreter is running.
    running: HashSet<u64>,
    /// Sessions whose interpreter was lost with its process after their last cell, and how.
    lost: HashMap<u64, String>,
}

impl<E: CellExecutor> Sessions<E> {
    fn new(settings: CellSettings, executor: E) -> Self {
        let budget = settings.budget();
        let driver = settings.driver();
        let cell_time = settings.cell_time;
        Self { executor, budget, driver, cell_time, running: HashSet::new(), lost: HashMap::new() }
    }

    /// Serves requests until nobody can send any more.
    fn serve(mut self, messages: &Receiver<Message>) {
        while let Ok(message) = messages.recv() {
            match message {
                Message::Run { id, source, cancel, done } => done(self.run(id, source, &cancel)),
                Message::End { id } => {
                    self.lost.remove(&id);
                    if self.running.remove(&id) {
                        self.executor.end_session(id);
                    }
                }
            }
        }
    }

    fn run(&mut self, id: u64, source: String, cancel: &CancellationToken) -> CellOutcome {
        if let Some(how) = self.lost.remove(&id) {
            return CellOutcome::Lost(how);
        }
        if cancel.is_cancelled() {
            return CellOutcome::Lost("cancelled".to_owned());
        }
        // The program in the interpreter takes JSON.
        let input = Value::String(source).to_string();
        let cell = Cell { id, driver: &self.driver, function: FUNCTION, input: input.as_bytes() };
        let run = self.executor.cell(cell, &self.budget, cancel);
        match run.status {
            ExitStatus::Returned(_) => self.running.insert(id),
            _ => self.running.remove(&id),
        };
        if let Some(loss) = self.executor.loss() {
            self.lost.extend(self.running.drain().map(|id| (id, loss.clone())));
        }
        CellOutcome::of(run, self.cell_time)
    }
}
